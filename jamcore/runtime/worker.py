"""One live host: its sandbox, its provider's runtime and the seats of its sessions, from bring-up to park.

The worker's task owns everything it opens, each seat's task included. A seat is taken and given back without touching its siblings; with
the last one given back the host is parked. Whatever ends the host (the last seat, a stop, the provider's death, the daemon's shutdown, a
failure on the way up), the same finaliser runs, shielded and bounded: final checkpoint where there is something to lose, then park. All of
it, from the first interrupt to the last row, shares one budget (:data:`QUIET` and what follows it).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import ClassVar
from uuid import UUID

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import FaultError, JamError
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.domain.sessions import Turn
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.leases import LeaseKey, Leases
from jamcore.runtime.safekeeping import Safekeeping
from jamcore.runtime.seat import Seat
from jamcore.runtime.seating import Seating
from jamcore.runtime.turns import TurnRunner
from jamcore.sandbox.prepared import PreparedExec
from jamcore.sandbox.teardown import Sleep
from jamcore.system.tasks import owned_tasks

QUIET, CLOSED, SAFE, PARKED = 1 / 3, 1 / 2, 5 / 6, 1.0
"""By which part of its budget an ending worker has no running turn, no provider, its final checkpoint, and a parked sandbox."""
ROWS_S = 2.0
"""The rows that say how it ended are written also when everything before them took the whole budget."""
LEFT = "stopped; the shared sandbox goes on for its other rooms"
"""Said in a room that left a host on which others go on."""


@dataclass(eq=False)
class HostWentDownError(FaultError):
    """The shared host went down while a room was joining it; the room is parked, as it was."""

    code: ClassVar[str] = "runtime.host_went_down"
    hint: ClassVar[str] = "Resume the room again: it brings the host up."

    host: str
    why: str


class HostWorker:
    """Made by the pool, run as one task of it."""

    def __init__(self, *, bring_up: BringUp, leases: Leases, runner: TurnRunner, limits: Limits = DEFAULTS) -> None:
        self.key = LeaseKey.of(bring_up.continuity.host)
        self._bring_up = bring_up
        self._leases = leases
        self._kept = Safekeeping(bring_up.continuity)
        self._seating = Seating(bring_up, runner, self._kept, limits, self._provider_lost)
        self._seats: dict[UUID, Seat] = {}
        self._limits = limits
        self._ending_since = 0.0
        self._life = anyio.CancelScope()
        self._stopping = anyio.Event()
        self._ended = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._prepared: PreparedExec | None = None
        self._runtime: ProviderRuntime | None = None
        self._final: Checkpoint | None = None
        self._proven = False
        self._parked = False
        self._up = False
        self._why = "stopped"

    @property
    def takes_seats(self) -> bool:
        """Whether it has come up and is not stopping."""
        return self._up and not self._stopping.is_set()

    @property
    def is_up(self) -> bool:
        """Whether it has come up."""
        return self._up

    @property
    def is_proven(self) -> bool:
        """Whether the sandbox was there and proven to be this plan's: from then on parking it is this worker's."""
        return self._proven

    @property
    def left_running(self) -> bool:
        """Whether it has ended and could not park a sandbox that is proven to be its own."""
        return self._ended.is_set() and self._proven and not self._parked

    def seat(self, session: UUID) -> Seat | None:
        """Return the seat of a session to which turns may be routed."""
        seat = self._seats.get(session)
        return seat if seat is not None and seat.takes_turns and self.takes_seats else None

    def sessions(self) -> frozenset[UUID]:
        """Return the sessions to which turns may be routed."""
        return frozenset(session for session in self._seats if self.seat(session))

    def busy_rooms(self) -> frozenset[UUID]:
        """Return the rooms in which a turn runs or waits to run."""
        return frozenset(seat.room_id for seat in self._seats.values() if seat.busy)

    def submit(self, turn: Turn) -> None:
        """Queue an accepted turn on its session's seat.

        Raises:
            anyio.WouldBlock: Too many turns wait already.
            anyio.ClosedResourceError: The worker or the seat takes no more turns.
        """
        seat = self.seat(turn.session_id)
        if seat is None:
            raise anyio.ClosedResourceError
        seat.submit(turn)

    async def interrupt(self, session: UUID) -> None:
        """Interrupt the session's running turn; idle: does nothing."""
        if seat := self._seats.get(session):
            await self._seating.interrupt(seat)

    # -------------------------------------------------------------------------------------------------------------- seats

    async def join(self, seat: Seat) -> None:
        """Take a seat on a host that is up; its session's claim is counted already, and is given back when this fails (PREP-5).

        The siblings' turns go on meanwhile. A session whose state would have to be restored is refused: its siblings' provider has the
        state open (CONT-11).

        Raises:
            JamError: The session could not be brought back; nothing of it is left on the host.
            HostWentDownError: The host ended meanwhile.
        """
        if self._tasks is None or not self.takes_seats:
            self.give_back(seat.session.id)
            raise HostWentDownError(host=self.key.sandbox, why=self._why)
        self._seats[seat.session.id] = seat
        self._tasks.start_soon(self._sit, seat)
        await self._settled(seat)

    async def leave(self, session: UUID) -> Checkpoint | None:
        """Give a seat back: its turn is interrupted, what is not safe is captured, and the last one parks the host (SHARE-2).

        Once begun it goes on whatever becomes of the caller. Returns the checkpoint that was made for it.
        """
        seat = self._seats.get(session)
        if seat is None or self._stopping.is_set() or self._tasks is None:
            return await self.stop()
        if not self._leases.held_by_others(self.key, session):
            return await self.stop()
        if seat.takes_turns:
            seat.close()
            self._tasks.start_soon(self._rise, seat)
        await seat.gone.wait()
        if self._stopping.is_set() and session in self._seats:
            return await self.stop()
        return seat.final

    async def stop(self) -> Checkpoint | None:
        """End the host: interrupt what runs, checkpoint, park, and return the final checkpoint when one was made."""
        self._begin_to_end()
        await self._ended.wait()
        return self._final

    async def _capture_leaving(self, seat: Seat) -> str:
        """Capture for a seat that is given back, and return what its room is told.

        The siblings' turns are not waited for as long as a capture may: the state stays where it is, and their next one holds it too.
        """
        try:
            with anyio.move_on_after(self._limits.finalise_s):
                seat.final = await self._kept.capture(CheckpointReason.BEFORE_STOP)
                return LEFT
        except JamError as error:
            return f"{LEFT}; its checkpoint failed and is made with theirs: {error}"
        return f"{LEFT}; they are in the middle of turns, and its checkpoint is made with theirs"

    def give_back(self, session: UUID) -> None:
        """Give a claim back; with the last one the host ends."""
        if self._leases.release(self.key, session) == 0:
            self._begin_to_end()

    async def _settled(self, seat: Seat) -> None:
        """Wait until the seat is taken.

        Raises:
            Exception: Why it was not.
        """
        try:
            await seat.settled.wait()
        except BaseException:
            if not seat.taken:
                seat.scope.cancel()  # whoever asked went away
                with anyio.CancelScope(shield=True):
                    await seat.gone.wait()
            raise
        if seat.failure is not None:
            raise seat.failure

    async def _sit(self, seat: Seat, *, first: bool = False) -> None:
        """Everything on one seat, from the moment it is asked for. A failure before it is taken is the asker's, not the host's."""
        try:
            with seat.scope:
                async with AsyncExitStack() as own:
                    if not first:
                        await self._bring_up.admit(seat)
                    runtime = self._runtime if not seat.own_process else await self._own_runtime(seat, own)
                    assert runtime is not None
                    waiting = await self._seating.bring_back(seat, runtime)
                    if waiting and len(self._seats) == 1:
                        await self._seating.capture(seat)
                    await self._bring_up.standing.live((seat,))
                    if seat.scope.cancel_called:  # whoever asked went away; from here on to the next line nothing may pause
                        await anyio.lowlevel.checkpoint()
                    seat.taken = True
                    seat.settled.set()
                    if waiting and len(self._seats) > 1:  # behind the siblings' turns, which may take minutes
                        await self._seating.capture(seat)
                    await self._seating.serve(seat)
        except Exception as error:
            if seat.taken:
                raise
            seat.failure = error
        finally:
            if not seat.taken:
                with anyio.CancelScope(shield=True):
                    await self._not_taken(seat, first=first)

    async def _own_runtime(self, seat: Seat, stack: AsyncExitStack) -> ProviderRuntime:
        assert self._prepared is not None
        assert self._tasks is not None
        runtime = await stack.enter_async_context(await self._bring_up.open_runtime(self._prepared))
        self._tasks.start_soon(self._watch, runtime, seat)
        return runtime

    async def _not_taken(self, seat: Seat, *, first: bool) -> None:
        if seat.failure is None:
            seat.failure = HostWentDownError(host=self.key.sandbox, why=self._why)
        if not first:  # the first one's failure is the host's, whose finaliser puts it down
            with anyio.move_on_after(self._limits.finalise_s):
                await self._seating.put_down((seat,), f"it did not come back: {seat.failure}", parked=False)
            del self._seats[seat.session.id]
            self.give_back(seat.session.id)
            seat.gone.set()
        seat.settled.set()

    async def _rise(self, seat: Seat) -> None:
        """Give a seat back while siblings go on; when they are gone by the end, the host ends instead."""
        with anyio.move_on_after(QUIET * self._limits.finalise_s):
            await self._seating.quieten(seat)
        why = await self._capture_leaving(seat) if self._kept.dirty else LEFT
        if not self._leases.held_by_others(self.key, seat.session.id):
            self._begin_to_end()  # decided in one step: whoever claims the host now brings it up anew
            return
        seat.scope.cancel()
        with anyio.move_on_after(self._limits.finalise_s, shield=True):
            await self._seating.put_down((seat,), why, parked=False)
        del self._seats[seat.session.id]
        self.give_back(seat.session.id)
        seat.gone.set()

    # --------------------------------------------------------------------------------------------------------------- host

    async def run(self, first: Seat, report_up: Callable[[], None]) -> None:
        """Bring the host up for its first seat, report it, serve, and park it.

        Raises:
            JamError: Only before it has reported that it is up; later ends are said in the rooms.
        """
        self._seats[first.session.id] = first
        try:
            await self._live(first, report_up)
        except JamError as error:
            self._why = f"{error.code}: {error}"
            raise
        finally:
            self._begin_to_end()
            try:
                with anyio.CancelScope(shield=True):
                    await self._finalise()
            finally:
                self._ended.set()
                for seat in self._seats.values():
                    self._leases.release(self.key, seat.session.id)
                    seat.gone.set()

    async def park_on(self, pause: Sleep) -> None:
        """Go on parking a sandbox that the finaliser could not park (START-5). ``pause`` waits between attempts, and may end them."""
        await self._bring_up.park(self._note_park, pause)
        self._parked = True
        self._leases.settled(self.key)
        await self._bring_up.standing.down((), "", parked=True)

    async def _live(self, first: Seat, report_up: Callable[[], None]) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._life)
            prepared = self._prepared = await self._bring_up.start(stack, first, self._note_proven)
            if not first.own_process:
                self._runtime = await stack.enter_async_context(await self._bring_up.open_runtime(prepared))
            async with owned_tasks() as tasks:
                self._tasks = tasks
                if self._runtime is not None:
                    tasks.start_soon(self._watch, self._runtime, None)
                tasks.start_soon(partial(self._sit, first, first=True))
                await first.settled.wait()
                if first.failure is not None:
                    raise first.failure
                self._up = True
                report_up()
                await self._stopping.wait()
                await self._quieten()
                tasks.cancel_scope.cancel()

    async def _watch(self, runtime: ProviderRuntime, seat: Seat | None) -> None:
        """End the host, or the one seat whose own process it is, when the provider's program is gone."""
        reason = await runtime.closed()
        if seat is not None and not seat.takes_turns:
            return
        if not self._stopping.is_set():
            self._why = f"the provider ended: {reason}"
            seats = tuple(self._seats.values()) if seat is None else (seat,)
            await self._bring_up.standing.say(seats, "provider.gone", reason)
        self._provider_lost(seat)

    def _provider_lost(self, seat: Seat | None) -> None:
        """End what depended on a provider's process: one seat if it was its own, else the host."""
        if seat is None or not seat.own_process or not self._leases.held_by_others(self.key, seat.session.id):
            self._begin_to_end()
        elif seat.takes_turns and self._tasks is not None:
            seat.close()
            self._tasks.start_soon(self._rise, seat)

    def _note_proven(self) -> None:
        self._proven = True
        self._leases.settled(self.key)

    def _note_park(self, attempts: int, problem: str) -> None:
        self._leases.not_parked(self.key, attempts, problem)

    def _begin_to_end(self) -> None:
        """Take no more turns; from here on the budget runs, and a provider that will not close is cut off at its part of it."""
        if not self._stopping.is_set():
            self._stopping.set()
            for seat in self._seats.values():
                seat.close()
            self._ending_since = anyio.current_time()
            self._life.deadline = self._by(CLOSED)

    def _by(self, part: float) -> float:
        return self._ending_since + part * self._limits.finalise_s

    async def _quieten(self) -> None:
        """Interrupt every running turn and wait until its end is recorded."""
        with anyio.CancelScope(deadline=self._by(QUIET)):
            async with anyio.create_task_group() as tasks:
                for seat in self._seats.values():
                    tasks.start_soon(self._seating.quieten, seat)

    async def _finalise(self) -> None:
        """Checkpoint what is not yet safe, then park. The provider is closed by now, so nothing needs to be frozen.

        The sandbox is parked whatever became of the checkpoint and of the rows: with a full disk they stay behind, and the next bring-up or
        start mends them. A sandbox that was not proven to be this plan's is left alone. One that cannot be parked in time is the pool's to
        go on with; until then the host is not said to be parked.
        """
        try:
            with anyio.CancelScope(deadline=self._by(SAFE)) as scope:
                await self._last_checkpoint()
            if scope.cancelled_caught:
                self._why = f"{self._why}; the final checkpoint took longer than it may"
        finally:
            with anyio.CancelScope(deadline=self._by(PARKED)):
                if self._proven:
                    await self._bring_up.park(self._note_park)
                    self._leases.settled(self.key)
                self._parked = True
            if not self._parked and self._leases.trouble_of(self.key.host) is None:
                self._note_park(1, "the engine did not answer in time")
            with anyio.CancelScope(deadline=max(self._by(PARKED), anyio.current_time() + ROWS_S)):
                await self._seating.put_down(tuple(self._seats.values()), self._why, parked=self._parked)

    async def _last_checkpoint(self) -> None:
        if self._kept.dirty:
            self._bring_up.continuity.melt()
            try:
                self._final = await self._kept.capture(CheckpointReason.BEFORE_STOP)
            except (JamError, OSError) as error:
                self._why = f"{self._why}; the final checkpoint failed: {error}"
