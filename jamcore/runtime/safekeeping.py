"""How far a host's provider state is in a generation, counted over all its seats, and when the next one is made (CONT-2, CONT-11).

Seats change the state at the same time and each asks for captures. A flag would be wrong: a capture that was begun before a sibling's turn
ended must not make that turn read as safe. So changes are numbered, and a capture makes safe what had happened when it was begun.

Turns that end together ask for a capture each. So one is made at a time, and one that is asked for after a turn is not made when the one
before it, which was begun later than that turn ended, holds the turn already.

A capture needs the host alone, and whoever queues for that keeps later turns waiting. So while other rooms' turns run, a capture steps
back and asks again when one of them ends: a turn of minutes, or a question that waits for a person, delays nobody. One that stepped back
for long queues like everybody. What failed after a turn is tried again with growing pauses for as long as the host is up; until it is
made, :attr:`Safekeeping.trouble` says why not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import anyio

from jamcore.continuity.coordinator import HostBusyError
from jamcore.domain import limits
from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import JamError
from jamcore.domain.safekeeping import CaptureTrouble
from jamcore.runtime.continuity import HostContinuity


async def _silently(_why: str) -> None:
    """Say nothing."""


@dataclass(slots=True)
class Safekeeping:
    """Owned by one worker."""

    continuity: HostContinuity
    _changes: int = 0
    _kept: int = 0
    _opened: dict[UUID, str] = field(default_factory=dict)
    _last: Checkpoint | None = None
    _one: anyio.Lock = field(default_factory=anyio.Lock)
    _trouble: CaptureTrouble | None = None
    _wanted: int = 0
    _deferred_since: float = 0.0
    _next_try: float = 0.0
    _ended: anyio.Event = field(default_factory=anyio.Event)
    _news: anyio.Event = field(default_factory=anyio.Event)

    @property
    def dirty(self) -> bool:
        """Whether something is in no generation yet."""
        return self._changes > self._kept

    @property
    def trouble(self) -> CaptureTrouble | None:
        """Why a turn that a capture was asked for is in no generation yet."""
        return self._trouble

    def changed(self) -> None:
        """Note that the provider's state changed."""
        self._changes += 1

    def opened(self, session: UUID, identity: str) -> None:
        """Note a thread that was just opened.

        From now on every generation names it, also those that siblings ask for before the store knows it: the newest generation decides
        whether a session can be resumed (CONT-7).
        """
        self._opened[session] = identity

    def turn_ended(self, *, asked: bool = False) -> None:
        """Let captures that stepped back ask again.

        ``asked``: a capture was asked for after that turn already. If it stepped back, then from turns that run still.
        """
        ended, self._ended = self._ended, anyio.Event()
        ended.set()
        if self._trouble is not None and self._trouble.deferred and not asked:
            self._next_try = anyio.current_time()
            self._news.set()

    async def after_turn(self) -> CaptureTrouble | None:
        """Capture after a turn that the provider completed (CONT-13).

        Returns:
            Why it was not made, in which case :meth:`keep_trying` goes on with it; ``None``: everything is in a generation.
        """
        try:
            await self.capture(CheckpointReason.AFTER_TURN)
        except JamError as error:
            return self._note(error)
        return None

    async def make_safe(self) -> None:
        """Capture what is in no generation yet, queueing for it like everybody.

        Raises:
            JamError: It was not captured.
        """
        if self.dirty:
            await self.capture(CheckpointReason.AFTER_TURN)

    async def capture(self, reason: CheckpointReason, waits: Callable[[str], Awaitable[None]] = _silently) -> Checkpoint | None:
        """Publish a generation of the whole host, or return the one that holds everything; ``None`` without continuity of the provider.

        Every reason passes through here. After a turn the caller is told at once that other rooms' turns run; all others wait, and
        ``waits`` is told once why.

        Raises:
            JamError, OSError: It was not published.
        """
        asked_at, queues_at = self._changes, anyio.current_time() + limits.CAPTURE_DEFERRED_S
        if reason is CheckpointReason.AFTER_TURN and self._trouble is not None and self._trouble.deferred:
            queues_at = self._deferred_since + limits.CAPTURE_DEFERRED_S
        while True:
            ended, queues = self._ended, anyio.current_time() >= queues_at
            try:
                return await self._make(reason, asked_at, limits.CHECKPOINT_WAIT_S if queues else limits.CAPTURE_ASK_S)
            except HostBusyError as busy:
                if queues or reason is CheckpointReason.AFTER_TURN:
                    raise
                await waits(busy.why)
                waits = _silently
            with anyio.move_on_after(min(limits.CAPTURE_RETRY_S, queues_at - anyio.current_time())):
                await ended.wait()

    async def keep_trying(self) -> None:
        """Make what could not be made after a turn: when another turn ends, and after pauses. Runs for as long as the host is up."""
        while True:
            self._news = anyio.Event()
            pause = None if self._trouble is None else max(0.0, self._next_try - anyio.current_time())
            if pause is None or pause > 0:
                with anyio.move_on_after(pause):
                    await self._news.wait()
            if self._trouble is not None and anyio.current_time() >= self._next_try:
                await self.after_turn()

    async def _make(self, reason: CheckpointReason, asked_at: int, bound_s: float) -> Checkpoint | None:
        async with self._one:
            if reason is CheckpointReason.AFTER_TURN and self._kept >= asked_at:
                return self._last
            begun_at = self._changes
            self._last = await self.continuity.capture(reason, self._opened, bound_s=bound_s)
            self._kept = begun_at
            if self._kept >= self._wanted:
                self._trouble = None
            return self._last

    def _note(self, error: JamError) -> CaptureTrouble:
        """Keep why nothing was captured, and when it is tried again."""
        before, now = self._trouble, anyio.current_time()
        self._wanted = self._changes
        deferred = isinstance(error, HostBusyError)
        again = before is not None and before.deferred == deferred
        if not again:
            self._deferred_since = now
        tries = before.attempts + 1 if before is not None and again else 1
        pause = min(limits.CAPTURE_RETRY_S * 2 ** min(tries - 1, 16), limits.CAPTURE_RETRY_MAX_S)
        at = self.continuity.clock.now()
        self._next_try = now + pause
        self._trouble = CaptureTrouble(
            since=before.since if before is not None else at,
            code=error.code,
            why=error.why if isinstance(error, HostBusyError) else f"{error}. {error.hint}",
            deferred=deferred,
            attempts=tries,
            next_try=at + timedelta(seconds=pause),
        )
        self._news.set()
        return self._trouble
