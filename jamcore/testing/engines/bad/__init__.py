"""Engines that break one rule each, made from any good one: what the suite must find, and find alone.

A suite that passes on a bad engine proves nothing. Each :class:`Fault` names the check that has to fail; all others have to pass. The good
engine must claim what the check is about. Limits are forgotten whether it holds them or not; "does what it can" needs one that it does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import Any

from jamcore.engines.port import Engine, EngineContext, EnginePlugin
from jamcore.system.tasks import owned_tasks
from jamcore.testing.engines.bad import abilities, disks, lives, processes, streams
from jamcore.testing.engines.bad.proxies import BadEngine, BadProcess, Fault

__all__ = ["FAULTS", "NOT_BY_ITS_PORT", "BadEngine", "BadProcess", "Fault", "with_fault"]

FAULTS: Mapping[str, Fault] = MappingProxyType(
    {**streams.FAULTS, **processes.FAULTS, **lives.FAULTS, **disks.FAULTS, **abilities.FAULTS}
)
"""Every fault by name."""

NOT_BY_ITS_PORT: Mapping[str, str] = MappingProxyType(
    {
        "process-one-ignores-what-guests-send-it": (
            "Only process 1 sees what it is sent: no one outside can make a good one heed it. A bad process 1 is an engine's own test."
        ),
    }
)
"""The checks that no fault here finds, with the reason: what goes wrong there is out of reach of an engine's port."""


def with_fault(plugin: type[EnginePlugin], fault: Fault) -> type[EnginePlugin]:
    """Return the plugin of an engine that is as good as ``plugin``'s but for one fault."""
    siblings: list[BadEngine] = []

    class BadPlugin(plugin):  # type: ignore[valid-type,misc] # a class that is known when this runs
        """The good plugin, whose engine is wrapped."""

        def open(self, context: EngineContext) -> AbstractAsyncContextManager[Engine]:
            return _opened(plugin(), fault, context, siblings)

    return BadPlugin


@asynccontextmanager
async def _opened(good: EnginePlugin, fault: Fault, context: EngineContext, siblings: list[BadEngine]) -> AsyncIterator[Any]:
    async with good.open(context) as engine, owned_tasks() as tasks:
        bad = fault.engine(engine)
        bad.tasks = tasks
        bad.siblings = siblings
        siblings.append(bad)
        try:
            yield bad
        finally:
            siblings.remove(bad)
            await bad.closing()
            tasks.cancel_scope.cancel()
