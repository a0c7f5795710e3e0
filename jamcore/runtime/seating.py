"""What happens on one seat of a live host: its session is brought back exactly, its turns are run, and what waited is settled.

A seat knows its own thread and directory and nobody else's. What concerns the host as a whole is asked of :class:`Safekeeping` and of the
worker that owns the seat.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio
import structlog

from jamcore.continuity.coordinator import HostBusyError
from jamcore.domain.continuity import CheckpointReason
from jamcore.domain.errors import JamError
from jamcore.domain.ids import ProviderIdentity, provider_identity
from jamcore.domain.limits import PROVIDER_REQUEST_S, Limits
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError, ProviderTimeoutError
from jamcore.domain.sessions import Turn, TurnState
from jamcore.plugins.runtime import ProviderRuntime, ReleasesThreads
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.deadlines import TurnStuckError
from jamcore.runtime.safekeeping import Safekeeping
from jamcore.runtime.seat import Seat
from jamcore.runtime.turns import TurnRunner


@dataclass(frozen=True, slots=True)
class Seating:
    """Owned by one worker. ``provider_lost`` is told which seat saw its provider go wrong, and how."""

    bring_up: BringUp
    runner: TurnRunner
    kept: Safekeeping
    limits: Limits
    provider_lost: Callable[[Seat, str], None]

    async def bring_back(self, seat: Seat, runtime: ProviderRuntime) -> bool:
        """Resume the seat's thread exactly, or fail with an observation (CONT-1, CONT-7).

        Returns:
            Whether something waits to be captured: a turn that was kept, or everything, because the last generation is damaged.
        """
        seat.runtime = runtime
        continuity = self.bring_up.continuity
        expected = seat.session.provider_identity
        if expected is None:
            await continuity.settle(seat, ())
            return False
        async with self.runner.resuming(seat.session.id, said_as=f"the resume of {seat.said_as}"):
            try:
                state = await runtime.resume_thread(ProviderIdentity(expected), seat.thread_request())
            except BaseException as error:
                # Every attempt leaves its observation, also one that was cancelled (CONT-7).
                with anyio.move_on_after(self.limits.finalise_s, shield=True):
                    await continuity.observe(seat, reported=None, detail=str(error) or type(error).__name__)
                raise
            await continuity.observe(seat, reported=state.identity, detail="", remembered=state.turns)
        seat.identity = ProviderIdentity(expected)
        self.kept.changed()
        await continuity.compare_files(seat, await self.bring_up.files_of(seat), partial(self.bring_up.between, seat))
        waiting = await continuity.settle(seat, state.turns)
        return waiting or continuity.needs_new_generation(seat)

    async def release(self, seat: Seat) -> None:
        """Have the program that others share let go of a thread that was not taken; it is resumed as any other when it is tried again."""
        runtime: object = seat.runtime
        identity, seat.runtime = seat.session.provider_identity, None
        if identity is None or not isinstance(runtime, ReleasesThreads):
            return
        with anyio.move_on_after(self.limits.child_shutdown_s):
            try:
                await runtime.release_thread(ProviderIdentity(identity))
            except Exception as error:  # noqa: BLE001 - isolation: no turn of it is run either way, and the others' host goes on
                structlog.get_logger("jam.worker").warning("a thread is still loaded", seat=seat.said_as, error=str(error))

    async def serve(self, seat: Seat) -> None:
        """Run the seat's turns, one at a time, until cancelled."""
        while True:
            turn = await seat.next_turn()
            seat.begin(turn)
            asked = False
            try:
                asked = await self._turn(seat, turn)
            finally:
                seat.end()
                self.kept.turn_ended(asked=asked)

    async def interrupt(self, seat: Seat) -> None:
        """Interrupt the running turn; idle: does nothing. A turn that is only just beginning is interrupted as soon as it can be."""
        if seat.runtime is None or seat.running is None:
            return
        with anyio.move_on_after(PROVIDER_REQUEST_S):
            await seat.interruptible.wait()
        if not seat.idle.is_set() and seat.identity is not None:
            await seat.runtime.interrupt(seat.identity)

    async def quieten(self, seat: Seat) -> None:
        """Interrupt the running turn and wait until its end is recorded."""
        if seat.running is not None:
            with suppress(JamError):  # a provider that is gone cannot be interrupted: its turn ends in doubt
                await self.interrupt(seat)
            await seat.idle.wait()

    async def capture(self, seat: Seat) -> None:
        """Checkpoint after a turn; what keeps it from being made is said in the room, and it is tried again (START-5)."""
        trouble = await self.kept.after_turn()
        if trouble is None:
            return
        what = "not captured yet" if trouble.deferred else "the checkpoint after this turn failed"
        with suppress(JamError):  # a full disk takes no notice either; the room's view says the same
            await self.bring_up.standing.say((seat,), trouble.code, f"{what}: {trouble.why}")

    async def put_down(self, seats: tuple[Seat, ...], why: str, *, parked: bool) -> None:
        """Settle the turns that still waited, and record the end. ``parked``: nothing runs in the sandbox any more."""
        try:
            for seat in seats:
                for turn in seat.leftover():
                    await self.runner.settle(turn, TurnState.INTERRUPTED, f"it had not begun: {why}")
            await self.bring_up.standing.down(seats, why, parked=parked)
        except JamError as error:
            structlog.get_logger("jam.worker").error("the end could not be recorded", why=why, error=str(error))

    async def _turn(self, seat: Seat, turn: Turn) -> bool:
        """Run a turn, and say whether a capture was asked for after it."""
        assert seat.runtime is not None
        try:
            if seat.identity is None:
                seat.identity = await self._open_thread(seat, seat.runtime)
            state = await self.runner.run(
                turn, seat.runtime, seat.identity, started=seat.interruptible.set, said_as=f"the turn of {seat.said_as}"
            )
        except (ProviderGoneError, ProviderProtocolError, ProviderTimeoutError, TurnStuckError) as error:
            # A turn whose start was not answered may run all the same: only the provider's state can tell.
            await self.runner.doubt(turn, error)
            self.provider_lost(seat, str(error))
        except JamError as error:
            await self.runner.settle(turn, TurnState.FAILED, f"{error}. {error.hint}")
        else:
            self.kept.changed()
            await self.bring_up.continuity.note_files(turn, await self.bring_up.files_of(seat))
            if state is TurnState.COMPLETED:
                await self.capture(seat)
                return True
        return False

    async def _open_thread(self, seat: Seat, runtime: ProviderRuntime) -> ProviderIdentity:
        """Open a thread and publish a generation that names it, so that a kill in the first turn can be resumed (CONT-7)."""
        identity = provider_identity((await runtime.open_thread(seat.thread_request())).identity)
        self.kept.opened(seat.session.id, identity)

        async def waits(why: str) -> None:
            await self.bring_up.standing.say((seat,), HostBusyError.code, f"the first turn waits for its checkpoint: {why}")

        await self.kept.capture(CheckpointReason.FIRST_TURN, waits)
        return identity
