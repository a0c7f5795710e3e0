"""What the daemon is doing now, gathered from those who do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from jamcore.domain.activity import Activity, work_lines
from jamcore.domain.errors import JamError, RefusalError
from jamcore.journal.runner import Runner
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.store import Store


@dataclass(eq=False)
class DaemonBusyError(RefusalError):
    """The daemon is working, and was to be stopped only if it is idle; it goes on."""

    code: ClassVar[str] = "daemon.busy"
    hint: ClassVar[str] = (
        "Wait for what runs, or `jam daemon stop`: turns are interrupted, conversations are kept, and the rest can be begun again."
    )

    working: str


class Activities:
    """Asks the pool for turns, the gate for what a stop would cut short, and the runner for journaled actions."""

    def __init__(self, *, store: Store, pool: WorkerPool, gate: StopGate, runner: Runner) -> None:
        self._store = store
        self._pool = pool
        self._gate = gate
        self._runner = runner

    @property
    def idle(self) -> bool:
        """Whether nothing is under way at this moment; no pause lies in the answer."""
        return not (self._pool.busy_rooms() or self._gate.under_way() or self._runner.under_way())

    async def now(self) -> Activity:
        """Say what goes on. A store that cannot name a room does not keep it from being told."""
        rooms = self._pool.busy_rooms()
        names = await self._names(rooms)
        lines = (
            *sorted(f"a turn in the room {names.get(room, str(room))}" for room in rooms),
            *sorted(self._gate.under_way()),
            *sorted(f"the journaled action {kind}" for kind in self._runner.under_way()),
        )
        return Activity(live_rooms=len(self._pool.sessions()), working=work_lines(lines))

    async def _names(self, rooms: frozenset[UUID]) -> dict[UUID, str]:
        if not rooms:
            return {}
        try:
            return await self._store.read(lambda repos: {room: repos.rooms.get(room).name for room in rooms})
        except JamError:
            return {}
