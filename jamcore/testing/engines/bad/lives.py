"""Faults of a sandbox's life: what an engine knows, and what it leaves of what it did not make."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

import anyio

from jamcore.domain.sandboxes import (
    EngineFailedError,
    EngineHealth,
    EngineUnavailableError,
    EngineUnknownError,
    ExecSpec,
    ExitStatus,
    InventoryItem,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.port import FreezeReport
from jamcore.system.guest import GuestProcess
from jamcore.testing.engines.bad.proxies import BadEngine, BadProcess, Fault

STOPS_LATER_S = 0.3
"""Longer than a check looks whether something is still written."""


class _CallsUnknownAbsent(BadEngine):
    """An engine that cannot be asked has no sandboxes."""

    async def presence(self, name: str) -> Presence:
        try:
            found: Presence = await self.good.presence(name)
        except EngineUnknownError:
            return Presence.ABSENT
        return found


class _ForgetsWhatRan(BadEngine):
    """What runs when it is closed is not there for the next one."""

    async def closing(self) -> None:
        with suppress(EngineUnknownError):
            for item in await self.good.inventory():
                if item.presence is Presence.RUNNING:
                    await self.good.remove(item.name)


class _RaisesOnAProbe(BadEngine):
    """A probe of it is an error."""

    async def probe(self) -> EngineHealth:
        raise EngineUnavailableError(engine=self.name, reason="something is missing")


class _ListsWhatRunsAlone(BadEngine):
    """What is stopped is not in its list."""

    async def inventory(self) -> tuple[InventoryItem, ...]:
        return tuple(item for item in await self.good.inventory() if item.presence is Presence.RUNNING)


class _StartsAnew(BadEngine):
    """Starting what runs stops it first."""

    async def start(self, name: str) -> None:
        await self.good.stop(name)
        await self.good.start(name)


class _StopsOneAtATime(BadEngine):
    """It refuses to stop what is being stopped."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.stopping: set[str] = set()

    async def stop(self, name: str) -> None:
        if name in self.stopping:
            raise EngineFailedError(engine=self.name, operation="stop", detail="it is being stopped")
        self.stopping.add(name)
        try:
            await self.good.stop(name)
        finally:
            self.stopping.discard(name)


class _KnowsTheOthers(BadEngine):
    """Every engine of its kind on the machine has the same sandboxes."""

    async def presence(self, name: str) -> Presence:
        found: Presence = await self.good.presence(name)
        for other in self.siblings:
            if found is Presence.ABSENT:
                found = await other.good.presence(name)
        return found


class _StopsOnlyWhatIsThere(BadEngine):
    """Stopping what is not there is an error."""

    async def stop(self, name: str) -> None:
        if await self.good.presence(name) is Presence.ABSENT:
            raise SandboxGoneError(sandbox=name)
        await self.good.stop(name)


class _StopsLater(BadEngine):
    """A stop is answered before it is a fact; whatever is asked next waits until it is one."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.stopping: dict[str, anyio.Event] = {}

    async def stop(self, name: str) -> None:
        await self._settle(name)
        event = self.stopping[name] = anyio.Event()

        async def later() -> None:
            await anyio.sleep(STOPS_LATER_S)
            await self.good.stop(name)
            event.set()

        self.tasks.start_soon(later)

    async def start(self, name: str) -> None:
        await self._settle(name)
        await self.good.start(name)

    async def create(self, spec: SandboxSpec) -> None:
        await self._settle(spec.name)
        await super().create(spec)

    async def remove(self, name: str) -> None:
        await self._settle(name)
        await self.good.remove(name)

    async def presence(self, name: str) -> Presence:
        await self._settle(name)
        found: Presence = await self.good.presence(name)
        return found

    async def inventory(self) -> tuple[InventoryItem, ...]:
        await self.closing()
        found: tuple[InventoryItem, ...] = await self.good.inventory()
        return found

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        await self._settle(name)
        return await super().exec(name, spec)

    @asynccontextmanager
    async def frozen(self, name: str) -> AsyncIterator[FreezeReport]:
        await self._settle(name)
        async with self.good.frozen(name) as report:
            yield report

    async def closing(self) -> None:
        for name in tuple(self.stopping):
            await self._settle(name)

    async def _settle(self, name: str) -> None:
        if name in self.stopping:
            await self.stopping[name].wait()


class _AnswersWhenNothingRuns(BadEngine):
    """While a program runs it cannot say which sandboxes there are."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.busy = 0

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        made = _Busy(await self.good.exec(name, spec), name, spec, self)
        self.busy += 1
        return made

    async def inventory(self) -> tuple[InventoryItem, ...]:
        if self.busy:
            raise EngineUnknownError(engine=self.name, operation="inventory", detail="a program runs")
        found: tuple[InventoryItem, ...] = await self.good.inventory()
        return found


class _Busy(BadProcess):
    engine: _AnswersWhenNothingRuns
    over = False

    async def wait(self) -> ExitStatus:
        try:
            status: ExitStatus = await self.good.wait()
        finally:
            self._is_over()
        return status

    async def aclose(self) -> None:
        self._is_over()
        await self.good.aclose()

    def _is_over(self) -> None:
        self.engine.busy -= not self.over
        self.over = True


class _GoesOnWhenCancelled(BadEngine):
    """A creation that nobody waits for any more is made all the same."""

    async def create(self, spec: SandboxSpec) -> None:
        try:
            await super().create(spec)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await super().create(spec)
            raise


class _LeavesFailedCreations(BadEngine):
    """What could not be made is there, stopped."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.half: set[str] = set()

    async def create(self, spec: SandboxSpec) -> None:
        try:
            await super().create(spec)
        except EngineFailedError:
            self.half.add(spec.name)
            raise
        self.half.discard(spec.name)

    async def presence(self, name: str) -> Presence:
        found: Presence = await self.good.presence(name)
        return Presence.STOPPED if name in self.half and found is Presence.ABSENT else found


class _TakesWhatIsThere(BadEngine):
    """It takes "already exists" for a success."""

    async def create(self, spec: SandboxSpec) -> None:
        if await self.good.presence(spec.name) is Presence.ABSENT:
            await super().create(spec)


class _ForgetsWhatItMakes(BadEngine):
    """A removal of what is being made forgets it, and then it is there."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.making: set[str] = set()
        self.forgotten: set[str] = set()

    async def create(self, spec: SandboxSpec) -> None:
        self.making.add(spec.name)
        try:
            await super().create(spec)
        finally:
            self.making.discard(spec.name)

    async def remove(self, name: str) -> None:
        if name in self.making:
            self.forgotten.add(name)
        else:
            await self.good.remove(name)

    async def inventory(self) -> tuple[InventoryItem, ...]:
        return tuple(item for item in await self.good.inventory() if item.name not in self.forgotten)


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "calls unknown absent": Fault(_CallsUnknownAbsent, "unknown-is-not-absent"),
        "forgets what ran": Fault(_ForgetsWhatRan, "a-new-daemon-finds-what-the-last-one-made"),
        "raises on a probe": Fault(_RaisesOnAProbe, "a-probe-is-an-answer"),
        "lists what runs alone": Fault(_ListsWhatRunsAlone, "presence-and-inventory-follow-the-life"),
        "starts anew": Fault(_StartsAnew, "starting-what-runs-changes-nothing"),
        "stops one at a time": Fault(_StopsOneAtATime, "stops-at-the-same-time-are-one"),
        "knows the others": Fault(_KnowsTheOthers, "two-roots-know-nothing-of-each-other"),
        "stops only what is there": Fault(_StopsOnlyWhatIsThere, "what-does-not-exist-is-gone-and-removal-is-idempotent"),
        "stops later": Fault(_StopsLater, "when-stop-returns-nothing-runs"),
        "answers when nothing runs": Fault(_AnswersWhenNothingRuns, "a-program-that-hangs-blocks-nobody"),
        "goes on when it is cancelled": Fault(_GoesOnWhenCancelled, "a-cancelled-creation-leaves-nothing"),
        "leaves failed creations": Fault(_LeavesFailedCreations, "a-creation-that-fails-leaves-nothing"),
        "takes what is there": Fault(_TakesWhatIsThere, "a-name-exists-once"),
        "forgets what it makes": Fault(_ForgetsWhatItMakes, "a-removal-during-a-creation-leaves-no-half"),
    }
)
"""The faults by name."""
