"""The engines of one daemon: opened together, chosen by name or by strength."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType

import anyio
import structlog

from jamcore.domain import layout
from jamcore.domain.limits import READ_TIMEOUT_S
from jamcore.domain.plugins import PluginReport
from jamcore.domain.requests import EngineView
from jamcore.domain.sandboxes import EngineHealth, EngineUnavailableError, Finding, Isolation
from jamcore.engines.port import Engine, EngineContext
from jamcore.engines.registry import EngineRegistry
from jamcore.system.files import Files


class EngineHouse:
    """All open engines. Health is asked each time: a machine changes while a daemon runs.

    Args:
        engines: The open ones, by name.
        preferred: What the settings name for a request that names none, while sandboxing is on.
        sandboxing: Whether a request that names no engine gets a sandbox; off, it runs as a host process, as before there were any.
        broken: Engines that could not be opened, with the reason.
        reports: What became of each engine plugin when it was loaded.
        probe_within_s: How long one engine may take to say whether it can work; one that takes longer cannot (START-4).
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        *,
        preferred: str | None,
        sandboxing: bool = True,
        broken: Mapping[str, str] | None = None,
        reports: tuple[PluginReport, ...] = (),
        probe_within_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._engines = MappingProxyType(dict(engines))
        self._preferred = preferred
        self._sandboxing = sandboxing
        self._broken = MappingProxyType(dict(broken or {}))
        self._reports = reports
        self._probe_within_s = probe_within_s

    def get(self, name: str) -> Engine:
        """Return an engine by name.

        Raises:
            EngineUnavailableError: No such engine is installed, or it could not be opened.
        """
        if name in self._broken:
            raise EngineUnavailableError(engine=name, reason=self._broken[name])
        if name not in self._engines:
            for report in self._reports:
                if report.name == name and report.state != "loaded":
                    reason = "; ".join((report.state, *report.violations))[:400]
                    raise EngineUnavailableError(engine=name, reason=reason, setting=report.hint())
            known = ", ".join(self._engines) or "none"
            raise EngineUnavailableError(engine=name[:64], reason=f"not installed; installed: {known}")
        return self._engines[name]

    def isolation(self, name: str) -> str:
        """Return an engine's isolation class in lower case; "unknown" when it is not here."""
        engine = self._engines.get(name)
        return engine.isolation.name.lower() if engine is not None else "unknown"

    async def choose(self, name: str | None) -> Engine:
        """Return the named engine, or what a request that names none gets (ENG-4).

        While sandboxing is on that is the preferred engine, or the strongest healthy one; a host process never is, unless it is named
        (CAP-1). While it is off it is a host process.

        Raises:
            EngineUnavailableError: It cannot work here, with the first thing that is missing.
        """
        if wanted := name or (self._preferred if self._sandboxing else None):
            engine = self.get(wanted)
            _require_usable(await self._probe(engine))
            return engine
        last: EngineHealth | None = None
        for engine in self._strongest_first():
            last = await self._probe(engine)
            if last.usable:
                return engine
        if last is not None:
            _require_usable(last)
        kind = "that isolates" if self._sandboxing else "for host processes"
        raise EngineUnavailableError(engine="any", reason=f"no engine {kind} is installed")

    def serves_unnamed(self, name: str) -> bool:
        """Whether a request that names no engine may get this one: host processes only while sandboxing is off (ENG-4)."""
        return name in self._engines and (self._engines[name].isolation > Isolation.NONE) is self._sandboxing

    async def health(self) -> tuple[EngineHealth, ...]:
        """Probe every engine; one that could not be opened is a result like any other (CAP-1)."""
        broken = tuple(_broken_health(name, reason) for name, reason in self._broken.items())
        return (*tuple([await self._probe(engine) for engine in self._engines.values()]), *broken)

    async def views(self) -> tuple[EngineView, ...]:
        """Return every engine as a client sees it, strongest first, and which one a request without an engine gets."""
        return self.views_of(await self.health())

    def views_of(self, healths: tuple[EngineHealth, ...]) -> tuple[EngineView, ...]:
        """Return the views of engines whose health was just asked: what :meth:`choose` would answer, without asking again."""
        strongest = sorted(healths, key=lambda health: (-self._strength(health.engine), health.engine))
        usable = [health.engine for health in strongest if health.usable]
        if self._sandboxing and self._preferred:
            chosen = self._preferred if self._preferred in usable else ""
        else:
            chosen = next((name for name in usable if self.serves_unnamed(name)), "")
        return tuple(_view(health, self.isolation(health.engine), chosen) for health in strongest)

    def all(self) -> tuple[Engine, ...]:
        """Return every open engine."""
        return tuple(self._engines.values())

    def reports(self) -> tuple[PluginReport, ...]:
        """Return what became of each engine plugin when it was loaded."""
        return self._reports

    def troubles(self) -> Mapping[str, str]:
        """Return why each engine that was loaded and could not be opened could not."""
        return self._broken

    def _strength(self, name: str) -> int:
        engine = self._engines.get(name)
        return -1 if engine is None else int(engine.isolation)

    async def _probe(self, engine: Engine) -> EngineHealth:
        with anyio.move_on_after(self._probe_within_s):
            return await engine.probe()
        return _broken_health(engine.name, f"it did not say within {self._probe_within_s:g} s whether it can work")

    def _strongest_first(self) -> tuple[Engine, ...]:
        fitting = (engine for name, engine in self._engines.items() if self.serves_unnamed(name))
        return tuple(sorted(fitting, key=lambda engine: (-engine.isolation, engine.name)))


async def open_engines(
    stack: AsyncExitStack,
    registry: EngineRegistry,
    app: Path,
    *,
    files: Files,
    preferred: str | None,
    sandboxing: bool,
    probe_within_s: float = READ_TIMEOUT_S,
    host: str | None = None,
    storage_volume: str | None = None,
) -> EngineHouse:
    """Open every installed engine, each with private directories of its own. One that fails is reported; the others go on (CAP-1)."""
    opened: dict[str, Engine] = {}
    broken: dict[str, str] = {}
    for name, plugin in registry.plugins().items():
        root = files.make_private(app / layout.engine_root(name))
        runtime = files.make_private(root / "runtime")
        context = EngineContext(root=root, runtime=runtime, host=host, storage_volume=storage_volume)
        try:
            opened[name] = await stack.enter_async_context(plugin.open(context))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - boundary: an engine's mistake, or its machine's, ends here
            structlog.get_logger("jam.engine").exception("an engine could not be opened", engine=name)
            broken[name] = f"it could not be opened: {error!r}"[:400]
    return EngineHouse(
        opened,
        preferred=preferred,
        sandboxing=sandboxing,
        broken=broken,
        reports=registry.reports(),
        probe_within_s=probe_within_s,
    )


def _view(health: EngineHealth, isolation: str, chosen: str) -> EngineView:
    said = next((finding for finding in health.findings if not finding.ok), health.findings[0] if health.findings else None)
    return EngineView(
        name=health.engine,
        isolation=isolation,
        usable=health.usable,
        default=health.engine == chosen,
        detail=said.detail if said else "",
        hint=said.hint if said else "",
    )


def _broken_health(name: str, reason: str) -> EngineHealth:
    finding = Finding(subject=f"engine {name}", ok=False, detail=reason, hint="Mend or uninstall the engine's package.")
    return EngineHealth(engine=name, usable=False, findings=(finding,))


def _require_usable(health: EngineHealth) -> None:
    if not health.usable:
        missing = next((finding for finding in health.findings if not finding.ok), None)
        reason = missing.detail if missing else "it did not say why"
        raise EngineUnavailableError(engine=health.engine, reason=reason, setting=missing.hint if missing else "")
