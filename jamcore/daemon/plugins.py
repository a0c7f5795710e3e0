"""Plugins as clients see them, and the list of those that a person blocked (PLUG-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import anyio
from pydantic import ValidationError

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain import layout
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.plugins import (
    API_VERSION,
    Block,
    BlockedBy,
    BlocksUnreadableError,
    PluginBlockedBySettingError,
    PluginReport,
    PluginUnknownError,
    PluginView,
    blocked_by_setting,
    version_text,
)
from jamcore.domain.records import Record
from jamcore.plugins.manager import ProviderManager
from jamcore.system.blocking import in_thread
from jamcore.system.clock import Clock
from jamcore.system.files import Files

WHY_CHARACTERS = 400
"""Of the reason why a plugin is blocked: a sentence or two."""


class _BlockList(Record):
    """What the file holds."""

    schema_version: Literal[1] = 1
    blocks: tuple[Block, ...] = ()


class Blocks:
    """Which plugins are blocked: by the setting, and by a private file that outlives the daemon. Read anew at each question."""

    def __init__(self, app: Path, *, files: Files, setting: Iterable[str]) -> None:
        self._path = app / layout.BLOCKED_PLUGINS
        self._files = files
        self._setting = blocked_by_setting(setting)
        self._lock = anyio.Lock()

    async def all(self) -> Mapping[str, Block]:
        """Return every block by its plugin. The setting's comes first: while it stands no command undoes the block.

        Raises:
            BlocksUnreadableError: The file is damaged.
        """
        return MappingProxyType({**await in_thread(self._read), **self._setting})

    def by_setting(self, name: str) -> bool:
        """Whether the setting names it."""
        return name in self._setting

    async def change(self, changed: Callable[[Mapping[str, Block]], Iterable[Block]]) -> None:
        """Replace what the file holds, one change after another."""
        async with self._lock:
            await in_thread(partial(self._change, changed))

    def _change(self, changed: Callable[[Mapping[str, Block]], Iterable[Block]]) -> None:
        blocks = tuple(sorted(changed(self._read()), key=lambda block: block.plugin))
        self._files.make_private(self._path.parent)
        self._files.write_atomic(self._path, _BlockList(blocks=blocks).model_dump_json(indent=2).encode() + b"\n")

    def _read(self) -> Mapping[str, Block]:
        try:
            held = _BlockList.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
            raise BlocksUnreadableError(path=str(self._path), problem=problem[:200]) from None
        except OSError as error:
            raise BlocksUnreadableError(path=str(self._path), problem=error.strerror or str(error)) from error
        return {block.plugin: block for block in held.blocks}


class Plugins:
    """See :class:`~jamcore.daemon.services.PluginService`. A block takes effect when the daemon starts next: what is loaded goes on."""

    def __init__(self, *, plugins: ProviderManager, engines: EngineHouse, blocks: Blocks, clock: Clock) -> None:
        self._plugins = plugins
        self._engines = engines
        self._blocks = blocks
        self._clock = clock

    async def list(self) -> tuple[PluginView, ...]:
        """Return every plugin, also those not loaded, and names that are blocked though nothing has them."""
        blocks = await self._blocks.all()
        reports = self._reports()
        absent = [blocks[name] for name in sorted(blocks.keys() - {report.name for report in reports})]
        return (*(report.view(blocks.get(report.name)) for report in reports), *map(_absent, absent))

    async def block(self, name: str, why: str) -> tuple[PluginView, ...]:
        """Write down that no plugin of this name is ever imported. An exact retry changes nothing.

        Raises:
            InvalidInputError: The reason is too long.
            PluginUnknownError: Nothing has this name.
        """
        if len(why) > WHY_CHARACTERS:
            raise InvalidInputError(field="why", problem=f"longer than {WHY_CHARACTERS} characters")
        await self._require_known(name)
        new = Block(plugin=name, by=BlockedBy.COMMAND, why=why, since=self._clock.now())

        def changed(held: Mapping[str, Block]) -> Iterable[Block]:
            old = held.get(name)
            return {**held, name: old if old is not None and old.why == why else new}.values()

        await self._blocks.change(changed)
        return await self._named(name)

    async def unblock(self, name: str) -> tuple[PluginView, ...]:
        """Take a name off the list; one that is not on it stays as it is.

        Raises:
            PluginBlockedBySettingError: The setting blocks it; nothing was changed.
            PluginUnknownError: Nothing has this name, and it is not blocked.
        """
        await self._require_known(name)
        if self._blocks.by_setting(name):
            raise PluginBlockedBySettingError(plugin=name)
        await self._blocks.change(lambda held: [block for block in held.values() if block.plugin != name])
        return await self._named(name)

    async def _named(self, name: str) -> tuple[PluginView, ...]:
        return tuple(view for view in await self.list() if view.name == name)

    async def _require_known(self, name: str) -> None:
        known = {view.name for view in await self.list()}
        if name not in known:
            raise PluginUnknownError(plugin=name[:64], known=tuple(sorted(known)))

    def _reports(self) -> tuple[PluginReport, ...]:
        troubles = self._engines.troubles()
        engines = (
            replace(report, state="broken", violations=(troubles[report.name],)) if report.name in troubles else report
            for report in self._engines.reports()
        )
        return (*self._plugins.reports(), *engines)


def _absent(block: Block) -> PluginView:
    return PluginView(
        name=block.plugin,
        kind=None,
        distribution="",
        version="",
        entry="",
        built_for=None,
        requires="",
        core=version_text(API_VERSION),
        state="blocked",
        problems=(),
        warnings=(),
        block=block,
        hint=f"To undo it: {block.unblock}.",
    )
