"""An engine that has to ask for what it knows, as those do whose sandboxes another program keeps: its control can be sick.

The sandboxes are a good engine's. What is there is asked through a control that answers in bytes, within a bound; a file in the
engine's root makes it sick, so that a test can do that to an engine which it does not hold.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio

from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, InventoryItem, Presence, SandboxSpec
from jamcore.engines.port import Engine, EngineContext, EnginePlugin
from jamcore.testing.engines.base import Sickness

ANSWER_LIMIT_S = 0.2
SICK = "sick"
"""The file that makes the control sick; it names how."""
ANSWERS: Mapping[Sickness, bytes] = MappingProxyType({Sickness.GARBAGE: b"\x00\xff<html>502</html>", Sickness.EMPTY: b""})


class RemoteEngine:
    """Asks before it says anything; everything but presence is the good engine's."""

    def __init__(self, good: Engine, root: Path) -> None:
        self.good = good
        self._sick = root / SICK

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the good engine has
        return getattr(self.good, name)

    async def presence(self, name: str) -> Presence:
        """See the port: only an answer that lists sandboxes, and not this one, says that it is absent."""
        return {item.name: item.presence for item in await self.inventory()}.get(name, Presence.ABSENT)

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """See the port."""
        answer = b""
        try:
            with anyio.fail_after(ANSWER_LIMIT_S):
                answer = await self._ask()
            rows = json.loads(answer)["sandboxes"]
            return tuple(InventoryItem(row["name"], Presence(row["presence"])) for row in rows)
        except TimeoutError as error:
            raise self._unknown("no answer in time") from error
        except (ValueError, KeyError, TypeError) as error:
            raise self._unknown(f"no answer that can be read: {answer[:40]!r}") from error

    async def create(self, spec: SandboxSpec) -> None:
        """See the port."""
        if await self.presence(spec.name) is not Presence.ABSENT:
            raise EngineFailedError(engine=self.good.name, operation="create", detail="it exists")
        await self.good.create(spec)

    async def remove(self, name: str) -> None:
        """See the port."""
        if await self.presence(name) is not Presence.ABSENT:
            await self.good.remove(name)

    async def _ask(self) -> bytes:
        """Return what the control says."""
        if not self._sick.exists():
            rows = [{"name": item.name, "presence": item.presence} for item in await self.good.inventory()]
            return json.dumps({"sandboxes": rows}).encode()
        how = Sickness(self._sick.read_text())
        if how is Sickness.TIME_OUT:
            await anyio.sleep_forever()
        return ANSWERS[how]

    def _unknown(self, detail: str) -> EngineUnknownError:
        return EngineUnknownError(engine=self.good.name, operation="inventory", detail=detail)


def remote(plugin: type[EnginePlugin]) -> type[EnginePlugin]:
    """Return the plugin of an engine that has to ask for what it knows."""

    class RemotePlugin(plugin):  # type: ignore[valid-type,misc] # a class that is known when this runs
        """The good plugin, whose engine is asked through a control."""

        def open(self, context: EngineContext) -> AbstractAsyncContextManager[Any]:
            return _opened(plugin(), context)

    return RemotePlugin


@asynccontextmanager
async def _opened(good: EnginePlugin, context: EngineContext) -> AsyncIterator[RemoteEngine]:
    async with good.open(context) as engine:
        yield RemoteEngine(engine, context.root)


@contextmanager
def sick(root: Path, sickness: Sickness) -> Iterator[None]:
    """Make the control of the engine below ``root`` sick for the duration of the block."""
    (root / SICK).write_text(sickness)
    try:
        yield
    finally:
        (root / SICK).unlink()
