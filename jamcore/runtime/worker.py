"""One live host: its sandbox, its provider's runtime and the seats of its sessions, from bring-up to park.

The worker's task owns everything it opens, each seat's task included (:mod:`jamcore.runtime.roster`). With the last seat given back the
host is parked. Whatever ends the host (the last seat, a stop, the provider's death, the daemon's shutdown, a
failure on the way up), the same finaliser runs, shielded and bounded: final checkpoint where there is something to lose, then park. All of
it, from the first interrupt to the last row, shares one budget.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from uuid import UUID

import anyio

from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import JamError
from jamcore.domain.limits import DEFAULTS, Limits
from jamcore.domain.safekeeping import CaptureTrouble
from jamcore.domain.sessions import Turn
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.leases import Leases
from jamcore.runtime.roster import QUIET, HostEnd, LiveHost, Roster
from jamcore.runtime.safekeeping import Safekeeping
from jamcore.runtime.seat import Seat
from jamcore.runtime.seating import Seating
from jamcore.runtime.turns import TurnRunner
from jamcore.sandbox.teardown import Sleep
from jamcore.system.files import typed_storage
from jamcore.system.tasks import owned_tasks

CLOSED, SAFE, PARKED = 1 / 2, 5 / 6, 1.0
"""By which part of its budget an ending worker, which has no running turn by :data:`~jamcore.runtime.roster.QUIET`, has no provider, its
final checkpoint, and a parked sandbox."""
ROWS_S = 2.0
"""The rows that say how it ended are written also when everything before them took the whole budget."""
UNFINISHED = ("continuity.checkpoint_unfinished", "it took longer than it may")
"""What is said of a final checkpoint that neither was made nor said why not."""


class HostWorker:
    """Made by the pool, run as one task of it."""

    def __init__(self, *, bring_up: BringUp, leases: Leases, runner: TurnRunner, limits: Limits = DEFAULTS) -> None:
        self._bring_up = bring_up
        self._leases = leases
        self._kept = Safekeeping(bring_up.continuity)
        self._seating = Seating(bring_up, runner, self._kept, limits, self._provider_lost)
        self._end = HostEnd(self._begin_to_end)
        self._roster = Roster(bring_up, leases=leases, seating=self._seating, kept=self._kept, limits=limits, end=self._end)
        self.key = self._roster.key
        self._limits = limits
        self._ending_since = 0.0
        self._life = anyio.CancelScope()
        self._ended = anyio.Event()
        self._final: Checkpoint | None = None
        self._unsaved: tuple[str, str] | None = None
        self._proven = False
        self._parked = False
        self._up = False

    @property
    def takes_seats(self) -> bool:
        """Whether it has come up and is not stopping."""
        return self._up and not self._end.begun.is_set()

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

    @property
    def capture_trouble(self) -> CaptureTrouble | None:
        """Why turns of the host are in no generation yet."""
        return self._kept.trouble

    def seat(self, session: UUID) -> Seat | None:
        """Return the seat of a session to which turns may be routed."""
        seat = self._roster.get(session)
        return seat if seat is not None and seat.takes_turns and self.takes_seats else None

    def sessions(self) -> frozenset[UUID]:
        """Return the sessions to which turns may be routed."""
        return frozenset(seat.session.id for seat in self._roster.seats() if self.seat(seat.session.id))

    def busy_rooms(self) -> frozenset[UUID]:
        """Return the rooms in which a turn runs or waits to run."""
        return frozenset(seat.room_id for seat in self._roster.seats() if seat.busy)

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
        if seat := self._roster.get(session):
            await self._seating.interrupt(seat)

    async def join(self, seat: Seat) -> None:
        """Take a seat on the host. See :meth:`~jamcore.runtime.roster.Roster.join`."""
        with typed_storage():
            await self._roster.join(seat)

    def give_back(self, session: UUID) -> None:
        """Give back the claim of a session that got no seat; with the last one the host ends."""
        self._roster.give_back(session)

    async def leave(self, session: UUID) -> Checkpoint | None:
        """Give a seat back: its turn is interrupted, what is not safe is captured, and the last one parks the host (SHARE-2).

        Once begun it goes on whatever becomes of the caller. Returns the checkpoint that was made for it. A session without a seat is fine:
        its siblings go on.
        """
        if self._roster.get(session) is None:
            return None
        seat = self._roster.begin_to_leave(session)
        if seat is None:
            return await self.stop()
        await seat.gone.wait()
        if self._end.begun.is_set() and self._roster.get(session) is not None:
            return await self.stop()  # its siblings were gone by the end of it
        return seat.final

    async def make_safe(self) -> None:
        """Capture what is in no generation yet.

        Raises:
            JamError: It was not captured.
        """
        await self._kept.make_safe()

    async def stop(self) -> Checkpoint | None:
        """End the host: interrupt what runs, checkpoint, park, and return the final checkpoint when one was made."""
        self._begin_to_end()
        await self._ended.wait()
        return self._final

    async def run(self, first: Seat, report_up: Callable[[], None]) -> None:
        """Bring the host up for its first seat, report it, serve, and park it.

        Raises:
            JamError: Only before it has reported that it is up; later ends are said in the rooms.
        """
        self._roster.expect(first)
        try:
            with typed_storage():
                await self._live(first, report_up)
        except JamError as error:
            self._end.why = str(error)
            raise
        finally:
            self._begin_to_end()
            try:
                with anyio.CancelScope(shield=True):
                    await self._finalise()
            finally:
                self._ended.set()
                self._roster.give_all_back()

    async def park_on(self, pause: Sleep) -> None:
        """Go on parking a sandbox that the finaliser could not park (START-5). ``pause`` waits between attempts, and may end them."""
        await self._bring_up.park(self._note_park, pause)
        self._parked = True
        self._leases.settled(self.key)
        await self._bring_up.standing.down((), "", parked=True)

    async def _live(self, first: Seat, report_up: Callable[[], None]) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._life)
            prepared = await self._bring_up.start(stack, first, self._note_proven)
            runtime = None
            if not first.own_process:
                runtime = await stack.enter_async_context(await self._bring_up.open_runtime(prepared))
            async with owned_tasks() as tasks:
                if runtime is not None:
                    tasks.start_soon(self._roster.watch, runtime)
                tasks.start_soon(self._kept.keep_trying)
                await self._roster.open(LiveHost(tasks, prepared, runtime), first)
                self._up = True
                report_up()
                await self._end.begun.wait()
                with anyio.CancelScope(deadline=self._by(QUIET)):
                    await self._roster.quieten()
                tasks.cancel_scope.cancel()

    def _provider_lost(self, seat: Seat, why: str) -> None:
        self._roster.provider_lost(seat, why)

    def _note_proven(self) -> None:
        self._proven = True
        self._leases.settled(self.key)

    def _note_park(self, attempts: int, problem: str) -> None:
        self._leases.not_parked(self.key, attempts, problem)

    def _begin_to_end(self) -> None:
        """Take no more turns; from here on the budget runs, and a provider that will not close is cut off at its part of it."""
        if not self._end.begun.is_set():
            self._end.begun.set()
            self._roster.close()
            self._ending_since = anyio.current_time()
            self._life.deadline = self._by(CLOSED)

    def _by(self, part: float) -> float:
        return self._ending_since + part * self._limits.finalise_s

    async def _finalise(self) -> None:
        """Checkpoint what is not yet safe, then park. The provider is closed by now, so nothing needs to be frozen.

        The sandbox is parked whatever became of the checkpoint and of the rows: with a full disk they stay behind, and the next bring-up or
        start mends them. A sandbox that was not proven to be this plan's is left alone. One that cannot be parked in time is the pool's to
        go on with; until then the host is not said to be parked.
        """
        try:
            with anyio.CancelScope(deadline=self._by(SAFE)):
                await self._last_checkpoint()
        finally:
            if self._unsaved is not None:
                self._end.why = f"{self._end.why}; the final checkpoint failed: {self._unsaved[1]}"
            with anyio.CancelScope(deadline=self._by(PARKED)):
                if self._proven:
                    await self._bring_up.park(self._note_park)
                    self._leases.settled(self.key)
                self._parked = True
            if not self._parked and self._leases.trouble_of(self.key.host) is None:
                self._note_park(1, "the engine did not answer in time")
            if self._unsaved is not None:
                with anyio.move_on_after(ROWS_S):
                    await self._bring_up.standing.unsaved(*self._unsaved)
            with anyio.CancelScope(deadline=max(self._by(PARKED), anyio.current_time() + ROWS_S)):
                await self._seating.put_down(self._roster.seats(), self._end.why, parked=self._parked)

    async def _last_checkpoint(self) -> None:
        """Checkpoint what is not safe. Whatever does not let it happen, the end of its time included, leaves the host unsaved (CONT-8)."""
        if not self._kept.dirty:
            return
        self._unsaved = UNFINISHED
        self._bring_up.continuity.melt()
        try:
            self._final = await self._kept.capture(CheckpointReason.BEFORE_STOP)
            self._unsaved = None
        except JamError as error:
            self._unsaved = (error.code, str(error))
        except OSError as error:
            self._unsaved = (CheckpointFailedError.code, str(error))
