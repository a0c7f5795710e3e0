"""A clock that is set back while an action runs, and the lives in which that is: for :class:`jamcore.testing.crash.Lives`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from jamcore.system.clock import SystemClock
from jamcore.system.ids import SystemIds
from jamcore.testing.crash import At
from jamcore.testing.matrix.lives import plugged, require_exact_retries, require_sound_exports
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.parked_world import SUBJECT, World, living

HOUR_S = 3600.0
AT_ONCE = ""
"""No boundary: the clock is set back before anything of the action."""


class SetBack(SystemClock):
    """The machine's clock, until it is set back; what measures time that passes goes on."""

    def __init__(self) -> None:
        self._back = timedelta()

    def set_back(self) -> None:
        """Be an hour behind from now on."""
        self._back = timedelta(seconds=HOUR_S)

    def now(self) -> datetime:
        """See :meth:`jamcore.system.clock.Clock.now`."""
        return super().now() - self._back


class SetBackIds(SystemIds):
    """Ids whose time is that of a clock."""

    def __init__(self, clock: SetBack) -> None:
        self._clock = clock

    def uuid(self) -> UUID:
        """See :meth:`jamcore.system.ids.IdSource.uuid`."""
        millis = int(self._clock.now().timestamp() * 1000)
        return UUID(int=millis << 80 | super().uuid().int & ((1 << 80) - 1))


async def turn_back(root: Path, kind: str, point: str) -> None:
    """Ask for an action while the clock is set back at a boundary: it is done, in order, and asking again changes nothing."""
    world, scenario, clock = World(root), SCENARIOS[kind], SetBack()
    crash = At(point, clock.set_back)
    with plugged(root):
        async with AsyncExitStack() as stack:
            if point == AT_ONCE and not scenario.has_words:
                clock.set_back()
            services = await stack.enter_async_context(living(world, crash=crash, clock=clock, ids=SetBackIds(clock)))
            before = _ids(world)
            if point == AT_ONCE:
                clock.set_back()
            await scenario.ask(services, world)
            assert clock.now() < SystemClock().now() - timedelta(seconds=HOUR_S / 2), "the boundary was not passed"
            await scenario.check(services, world)
            await require_sound_exports(services)
            require_order(world)
            listed = [
                UUID(row.id) for row in (await services.operations.list(room=None, host=None, unfinished=False, limit=1000)).items
            ]
            assert listed[len(listed) - len(before) :] == before, "what was begun before stands behind what was begun after"
            await require_exact_retries(services, world, scenario)


async def forward(root: Path, kind: str) -> None:
    """Start with a clock that is right again: nothing is unfinished, and everything is as it was left."""
    world, scenario = World(root), SCENARIOS[kind]
    with plugged(root):
        async with living(world) as services:
            assert world.unfinished() == []
            await scenario.check(services, world)
            await require_sound_exports(services)
            require_order(world)
            await services.rooms.get(SUBJECT)
            await require_exact_retries(services, world, scenario)


def require_order(world: World) -> None:
    """Require that events are numbered without a gap, and that nothing ends before it begins."""
    for table, of in (("operation_events", "operation_id"), ("events", "room_id")):
        seen: dict[str, list[int]] = {}
        for owner, seq in world.rows(f"SELECT {of}, seq FROM {table} ORDER BY rowid"):  # noqa: S608 - names
            seen.setdefault(owner, []).append(seq)
        assert all(found == list(range(1, len(found) + 1)) for found in seen.values()), table
    backwards = world.rows("SELECT id, kind, started_at, ended_at FROM operations WHERE ended_at < started_at")
    assert backwards == [], backwards


def _ids(world: World) -> list[UUID]:
    """Return the operations that there are, newest first."""
    return [UUID(identifier) for (identifier,) in world.rows("SELECT id FROM operations ORDER BY rowid DESC")]
