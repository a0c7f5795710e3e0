"""The engines of one daemon: opened together, chosen by name or by strength."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.domain.sandboxes import EngineHealth, EngineUnavailableError
from jamcore.engines.port import Engine


class EngineHouse:
    """All open engines. Health is asked each time: a machine changes while a daemon runs."""

    def __init__(self, engines: Mapping[str, Engine], *, preferred: str | None) -> None:
        self._engines = MappingProxyType(dict(engines))
        self._preferred = preferred

    def get(self, name: str) -> Engine:
        """Return an engine by name.

        Raises:
            EngineUnavailableError: No such engine is installed.
        """
        if name not in self._engines:
            known = ", ".join(self._engines) or "none"
            raise EngineUnavailableError(engine=name[:64], reason=f"not installed; installed: {known}")
        return self._engines[name]

    async def choose(self, name: str | None) -> Engine:
        """Return the named engine, the preferred one, or the strongest healthy one (CAP-1).

        Raises:
            EngineUnavailableError: It cannot work here, with the first thing that is missing.
        """
        if wanted := name or self._preferred:
            engine = self.get(wanted)
            _require_usable(await engine.probe())
            return engine
        last: EngineHealth | None = None
        for engine in sorted(self._engines.values(), key=lambda e: e.isolation, reverse=True):
            last = await engine.probe()
            if last.usable:
                return engine
        if last is not None:
            _require_usable(last)
        raise EngineUnavailableError(engine="any", reason="no engine is installed")

    async def health(self) -> tuple[EngineHealth, ...]:
        """Probe every engine."""
        return tuple([await engine.probe() for engine in self._engines.values()])

    def all(self) -> tuple[Engine, ...]:
        """Return every open engine."""
        return tuple(self._engines.values())


def _require_usable(health: EngineHealth) -> None:
    if not health.usable:
        missing = next((finding for finding in health.findings if not finding.ok), None)
        reason = missing.detail if missing else "it did not say why"
        raise EngineUnavailableError(engine=health.engine, reason=reason, setting=missing.hint if missing else "")
