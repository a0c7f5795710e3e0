"""The seats of one live host: each is taken, served and given back by a task of its own, without touching its siblings (SHARE-2).

A session's claim is counted before it asks for a seat. Whatever becomes of the seat, the claim is given back once, and whoever gives the
last one back ends the host. The host's own life, from bring-up to park, is :mod:`jamcore.runtime.worker`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from jamcore.domain.continuity import CheckpointReason
from jamcore.domain.errors import FaultError, JamError
from jamcore.domain.limits import Limits
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.leases import LeaseKey, Leases
from jamcore.runtime.safekeeping import Safekeeping
from jamcore.runtime.seat import Seat
from jamcore.runtime.seating import Seating
from jamcore.sandbox.prepared import PreparedExec

QUIET = 1 / 3
"""By which part of a finalisation's budget no turn runs any more, on a seat or on a host that ends."""
LEFT = "stopped; the shared sandbox goes on for its other rooms"
"""Said in a room that left a host on which others go on."""


@dataclass(eq=False)
class HostWentDownError(FaultError):
    """The shared host went down while a room was joining it; the room is parked, as it was."""

    code: ClassVar[str] = "runtime.host_went_down"
    hint: ClassVar[str] = "Resume the room again: it brings the host up."

    host: str
    why: str


@dataclass(slots=True)
class HostEnd:
    """Whether a host is ending and why; ``begin`` starts the end. Shared by a worker and its roster."""

    begin: Callable[[], None]
    begun: anyio.Event = field(default_factory=anyio.Event)
    why: str = "stopped"


@dataclass(frozen=True, slots=True)
class LiveHost:
    """What a host that is up offers its seats. Without a ``runtime`` every seat opens one of its own."""

    tasks: TaskGroup
    prepared: PreparedExec
    runtime: ProviderRuntime | None


class Roster:
    """Owned by one worker."""

    def __init__(
        self, bring_up: BringUp, *, leases: Leases, seating: Seating, kept: Safekeeping, limits: Limits, end: HostEnd
    ) -> None:
        self.key = LeaseKey.of(bring_up.continuity.host)
        self._bring_up = bring_up
        self._leases = leases
        self._seating = seating
        self._kept = kept
        self._limits = limits
        self._end = end
        self._seats: dict[UUID, Seat] = {}
        self._host: LiveHost | None = None

    def get(self, session: UUID) -> Seat | None:
        """Return a session's seat, routable or not."""
        return self._seats.get(session)

    def seats(self) -> tuple[Seat, ...]:
        """Return every seat, also those that are being taken or given back."""
        return tuple(self._seats.values())

    def expect(self, first: Seat) -> None:
        """Note the seat for which the host is brought up."""
        self._seats[first.session.id] = first

    async def open(self, host: LiveHost, first: Seat) -> None:
        """Take the first seat; from then on others may join.

        Raises:
            JamError: The session could not be brought back.
        """
        self._host = host
        host.tasks.start_soon(self._sit, host, first, True)
        await first.settled.wait()
        if first.failure is not None:
            raise first.failure

    async def join(self, seat: Seat) -> None:
        """Take a seat on a host that is up. A claim that was counted for it is given back when this fails (PREP-5).

        The siblings' turns go on meanwhile. A session whose state would have to be restored is refused: its siblings' provider has the
        state open (CONT-11).

        Raises:
            JamError: The session could not be brought back; nothing of it is left on the host.
            HostWentDownError: The host ended meanwhile.
        """
        if self._host is None or self._end.begun.is_set():
            self.give_back(seat.session.id)
            raise HostWentDownError(host=self.key.sandbox, why=self._end.why)
        self._seats[seat.session.id] = seat
        self._host.tasks.start_soon(self._sit, self._host, seat, False)
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

    def begin_to_leave(self, session: UUID) -> Seat | None:
        """Begin to give a seat back while siblings go on, whatever becomes of the caller; ``gone`` says that it is done.

        Returns:
            The seat; ``None`` when it is the last one, whose end is the host's.
        """
        seat = self._seats.get(session)
        if seat is None or self._host is None or self._end.begun.is_set():
            return None
        if not self._leases.held_by_others(self.key, session):
            return None
        if seat.takes_turns:
            seat.close()
            self._host.tasks.start_soon(self._rise, seat)
        return seat

    def give_back(self, session: UUID) -> None:
        """Give a claim back; with the last one the host ends."""
        if self._leases.release(self.key, session) == 0:
            self._end.begin()

    def close(self) -> None:
        """Route no more turns."""
        for seat in self._seats.values():
            seat.close()

    async def quieten(self) -> None:
        """Interrupt every running turn and wait until its end is recorded."""
        async with anyio.create_task_group() as tasks:
            for seat in self._seats.values():
                tasks.start_soon(self._seating.quieten, seat)

    def give_all_back(self) -> None:
        """Give every seat back at the host's end."""
        for seat in self._seats.values():
            self._leases.release(self.key, seat.session.id)
            seat.gone.set()

    def provider_lost(self, seat: Seat | None, why: str) -> None:
        """End what depended on a provider's process: one seat if it was its own, else the host, whose rooms are told why."""
        own = seat is not None and (seat.own_process or self._host is None or self._host.runtime is None)
        if seat is None or not own or self.begin_to_leave(seat.session.id) is None:
            if not self._end.begun.is_set():
                self._end.why = why
            self._end.begin()

    async def watch(self, runtime: ProviderRuntime, seat: Seat | None = None) -> None:
        """End the host, or the one seat whose own process it is, when the provider's program is gone."""
        reason = await runtime.closed()
        if seat is not None and not seat.takes_turns:
            return
        if not self._end.begun.is_set():
            await self._bring_up.standing.say(self.seats() if seat is None else (seat,), "provider.gone", reason)
        self.provider_lost(seat, f"the provider ended: {reason}")

    # ------------------------------------------------------------------------------------------------------- tasks of a seat

    async def _sit(self, host: LiveHost, seat: Seat, first: bool) -> None:
        """Everything on one seat, from the moment it is asked for. A failure before it is taken is the asker's, not the host's."""
        try:
            with seat.scope:
                async with AsyncExitStack() as own:
                    if not first:
                        await self._bring_up.admit(seat)
                    await self._take(host, seat, own)
                    await self._seating.serve(seat)
        except Exception as error:
            if seat.taken:
                raise
            seat.failure = error
        finally:
            if not seat.taken:
                with anyio.CancelScope(shield=True):
                    await self._not_taken(seat, first=first)

    async def _take(self, host: LiveHost, seat: Seat, own: AsyncExitStack) -> None:
        runtime = host.runtime
        if seat.own_process or runtime is None:
            runtime = await own.enter_async_context(await self._bring_up.open_runtime(host.prepared))
            host.tasks.start_soon(self.watch, runtime, seat)
        waiting = await self._seating.bring_back(seat, runtime)
        alone = len(self._seats) == 1
        if waiting and alone:
            await self._seating.capture(seat)
        await self._bring_up.standing.live((seat,))
        if seat.scope.cancel_called:  # whoever asked went away; from here on to the next line nothing may pause
            await anyio.lowlevel.checkpoint()
        seat.taken = True
        seat.settled.set()
        if waiting and not alone:  # behind the siblings' turns, which may take minutes
            await self._seating.capture(seat)

    async def _not_taken(self, seat: Seat, *, first: bool) -> None:
        if seat.failure is None:
            seat.failure = HostWentDownError(host=self.key.sandbox, why=self._end.why)
        if not first:  # the first one's failure is the host's, whose finaliser puts it down
            if not seat.own_process:
                await self._seating.release(seat)
            with anyio.move_on_after(self._limits.finalise_s):
                await self._seating.put_down((seat,), f"it did not come back: {seat.failure}", parked=False)
            self._forget(seat)
        seat.settled.set()

    async def _rise(self, seat: Seat) -> None:
        """Give a seat back while siblings go on; when they are gone by the end, the host ends instead."""
        with anyio.move_on_after(QUIET * self._limits.finalise_s):
            await self._seating.quieten(seat)
        why = await self._capture_leaving(seat) if self._kept.dirty else LEFT
        if not self._leases.held_by_others(self.key, seat.session.id):
            self._end.begin()  # decided in one step: whoever claims the host now brings it up anew
            return
        seat.scope.cancel()
        with anyio.move_on_after(self._limits.finalise_s, shield=True):
            await self._seating.put_down((seat,), why, parked=False)
        self._forget(seat)

    def _forget(self, seat: Seat) -> None:
        del self._seats[seat.session.id]
        self.give_back(seat.session.id)
        seat.gone.set()

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
