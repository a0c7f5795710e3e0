"""One live host: its sandbox, its provider's runtime and the turns of its sessions, from bring-up to park.

The worker's task owns everything it opens. Whatever ends it (a stop, the provider's death, the daemon's shutdown, a failure on the way
up), the same finaliser runs, shielded and bounded: final checkpoint where there is something to lose, then park. All of it, from the first
interrupt to the last row, shares one budget (:data:`QUIET` and what follows it).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from uuid import UUID

import anyio
import structlog

from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import JamError
from jamcore.domain.ids import ProviderIdentity, provider_identity
from jamcore.domain.limits import DEFAULTS, PROVIDER_REQUEST_S, Limits
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError, ProviderTimeoutError
from jamcore.domain.sessions import Turn, TurnState
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.seat import Seat
from jamcore.runtime.turns import TurnRunner
from jamcore.system.tasks import owned_tasks

INBOX = 64
"""Turns that may wait on one seat; one more is refused rather than held in memory without bound."""

QUIET, CLOSED, SAFE, PARKED = 1 / 3, 1 / 2, 5 / 6, 1.0
"""By which part of its budget an ending worker has no running turn, no provider, its final checkpoint, and a parked sandbox."""
ROWS_S = 2.0
"""The rows that say how it ended are written also when everything before them took the whole budget."""


class HostWorker:
    """Made by the pool, run as one task of it."""

    def __init__(self, *, bring_up: BringUp, seats: tuple[Seat, ...], runner: TurnRunner, limits: Limits = DEFAULTS) -> None:
        self._bring_up = bring_up
        self._continuity = bring_up.continuity
        self._standing = bring_up.standing
        self._runner = runner
        self._seats = {seat.session.id: seat for seat in seats}
        self._inboxes = {s: anyio.create_memory_object_stream[Turn](INBOX) for s in self._seats}
        self._limits = limits
        self._ending_since = 0.0
        self._life = anyio.CancelScope()
        self._stopping = anyio.Event()
        self._ended = anyio.Event()
        self._runtime: ProviderRuntime | None = None
        self._final: Checkpoint | None = None
        self._dirty = False
        self._proven = False
        self._up = False
        self._why = "stopped"

    @property
    def takes_turns(self) -> bool:
        """Whether it has come up and is not stopping."""
        return self._up and not self._stopping.is_set()

    @property
    def is_up(self) -> bool:
        """Whether it has come up."""
        return self._up

    def seat(self, session: UUID) -> Seat:
        """Return the seat of a session."""
        return self._seats[session]

    def submit(self, turn: Turn) -> None:
        """Queue an accepted turn on its session's seat.

        Raises:
            anyio.WouldBlock: Too many turns wait already.
            anyio.ClosedResourceError: The worker takes no more turns.
        """
        if self._stopping.is_set():
            raise anyio.ClosedResourceError
        self._inboxes[turn.session_id][0].send_nowait(turn)

    async def interrupt(self, session: UUID) -> None:
        """Interrupt the running turn; idle: does nothing. A turn that is only just beginning is interrupted as soon as it can be."""
        seat = self._seats[session]
        if self._runtime is None or seat.running is None:
            return
        with anyio.move_on_after(PROVIDER_REQUEST_S):
            await seat.interruptible.wait()
        if not seat.idle.is_set() and seat.identity is not None:
            await self._runtime.interrupt(seat.identity)

    async def stop(self) -> Checkpoint | None:
        """Interrupt what runs, checkpoint, park, and return the final checkpoint when one was made."""
        self._begin_to_end()
        await self._ended.wait()
        return self._final

    async def run(self, report_up: Callable[[], None]) -> None:
        """Bring the host up, report it, serve, and park it.

        Raises:
            JamError: Only before it has reported that it is up; later ends are said in the rooms.
        """
        try:
            await self._live(report_up)
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

    def _begin_to_end(self) -> None:
        """Take no more turns; from here on the budget runs, and a provider that will not close is cut off at its part of it."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._ending_since = anyio.current_time()
            self._life.deadline = self._by(CLOSED)

    def _by(self, part: float) -> float:
        return self._ending_since + part * self._limits.finalise_s

    async def _live(self, report_up: Callable[[], None]) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._life)
            seats = tuple(self._seats.values())
            runtime = self._runtime = await self._bring_up.start(stack, seats, self._note_proven)
            for seat in seats:
                await self._bring_back(seat, runtime)
            await self._standing.live(seats)
            self._up = True
            report_up()
            async with owned_tasks() as tasks:
                tasks.start_soon(self._watch, runtime)
                for seat in seats:
                    tasks.start_soon(self._serve, seat, runtime)
                await self._stopping.wait()
                await self._quieten()
                tasks.cancel_scope.cancel()

    def _note_proven(self) -> None:
        self._proven = True

    async def _bring_back(self, seat: Seat, runtime: ProviderRuntime) -> None:
        """Resume the seat's thread exactly, or fail with an observation (CONT-1, CONT-7)."""
        expected = seat.session.provider_identity
        if expected is None:
            await self._continuity.settle(seat, ())
            return
        request = seat.thread_request()
        try:
            state = await runtime.resume_thread(ProviderIdentity(expected), request)
        except BaseException as error:
            # Every attempt leaves its observation, also one that was cancelled (CONT-7).
            with anyio.move_on_after(self._limits.finalise_s, shield=True):
                await self._continuity.observe(seat, reported=None, detail=str(error) or type(error).__name__)
            raise
        await self._continuity.observe(seat, reported=state.identity, detail="")
        seat.identity = ProviderIdentity(expected)
        self._dirty = True
        await self._continuity.compare_files(seat, await self._bring_up.files_of(seat))
        if await self._continuity.settle(seat, state.turns):
            await self._capture(CheckpointReason.AFTER_TURN, seat)

    async def _serve(self, seat: Seat, runtime: ProviderRuntime) -> None:
        inbox = self._inboxes[seat.session.id][1]
        while not self._stopping.is_set():
            turn = await inbox.receive()
            seat.begin(turn)
            try:
                await self._turn(seat, runtime, turn)
            finally:
                seat.end()

    async def _turn(self, seat: Seat, runtime: ProviderRuntime, turn: Turn) -> None:
        try:
            if seat.identity is None:
                seat.identity = await self._open_thread(seat, runtime)
            state = await self._runner.run(turn, runtime, seat.identity, started=seat.interruptible.set)
        except (ProviderGoneError, ProviderProtocolError, ProviderTimeoutError) as error:
            # A turn whose start was not answered may run all the same: only the provider's state can tell.
            await self._runner.doubt(turn, error)
            self._begin_to_end()
        except JamError as error:
            await self._runner.settle(turn, TurnState.FAILED, f"{error.code}: {error}")
        else:
            self._dirty = True
            await self._continuity.note_files(turn, await self._bring_up.files_of(seat))
            if state is TurnState.COMPLETED:
                await self._capture(CheckpointReason.AFTER_TURN, seat)

    async def _open_thread(self, seat: Seat, runtime: ProviderRuntime) -> ProviderIdentity:
        """Open a thread and publish a generation that names it, so that a kill in the first turn can be resumed (CONT-7)."""
        request = seat.thread_request()
        identity = provider_identity((await runtime.open_thread(request)).identity)
        await self._continuity.capture(CheckpointReason.FIRST_TURN, {seat.session.id: identity})
        return identity

    async def _capture(self, reason: CheckpointReason, seat: Seat) -> None:
        """Checkpoint; a failure is said in the room and tried once more before the stop (START-5)."""
        try:
            await self._continuity.capture(reason)
            self._dirty = False
        except JamError as error:
            self._dirty = True
            await self._standing.say((seat,), error.code, f"the checkpoint after this turn failed: {error}")

    async def _watch(self, runtime: ProviderRuntime) -> None:
        reason = await runtime.closed()
        if not self._stopping.is_set():
            self._why = f"the provider ended: {reason}"
            await self._standing.say(tuple(self._seats.values()), "provider.gone", reason)
        self._begin_to_end()

    async def _quieten(self) -> None:
        """Interrupt every running turn and wait until its end is recorded."""
        with anyio.CancelScope(deadline=self._by(QUIET)):
            for seat in self._seats.values():
                if seat.running is not None:
                    with suppress(JamError):  # a provider that is gone cannot be interrupted: its turn ends in doubt
                        await self.interrupt(seat.session.id)
                    await seat.idle.wait()

    async def _finalise(self) -> None:
        """Checkpoint what is not yet safe, then park. The provider is closed by now, so nothing needs to be frozen.

        The sandbox is parked whatever became of the checkpoint and of the rows: with a full disk they stay behind, and the next bring-up or
        start mends them. A sandbox that was not proven to be this plan's is left alone.
        """
        try:
            with anyio.CancelScope(deadline=self._by(SAFE)) as scope:
                await self._last_checkpoint()
            if scope.cancelled_caught:
                self._why = f"{self._why}; the final checkpoint took longer than it may"
        finally:
            with anyio.CancelScope(deadline=self._by(PARKED)):
                if self._proven:
                    await self._bring_up.park()
            with anyio.CancelScope(deadline=max(self._by(PARKED), anyio.current_time() + ROWS_S)):
                await self._put_down(tuple(self._seats.values()))

    async def _last_checkpoint(self) -> None:
        if self._dirty:
            self._continuity.melt()
            try:
                self._final = await self._continuity.capture(CheckpointReason.BEFORE_STOP)
            except (JamError, OSError) as error:
                self._why = f"{self._why}; the final checkpoint failed: {error}"

    async def _put_down(self, seats: tuple[Seat, ...]) -> None:
        """Settle the turns that still waited, and record the end."""
        try:
            for send, receive in self._inboxes.values():
                send.close()
                with receive, suppress(anyio.EndOfStream):
                    while True:
                        turn = receive.receive_nowait()
                        await self._runner.settle(turn, TurnState.INTERRUPTED, f"it had not begun: {self._why}")
            await self._standing.parked(seats, self._why)
        except JamError as error:
            structlog.get_logger("jam.worker").error("the end could not be recorded", why=self._why, error=str(error))
