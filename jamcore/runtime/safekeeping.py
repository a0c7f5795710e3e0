"""How far a host's provider state is in a generation, counted over all its seats (CONT-2, CONT-11).

Seats change the state at the same time and each asks for captures. A flag would be wrong: a capture that was begun before a sibling's turn
ended must not make that turn read as safe. So changes are numbered, and a capture makes safe what had happened when it was begun.

Turns that end together ask for a capture each, and each capture waits for the turns that run. So one is made at a time, and one that is
asked for after a turn is not made when the one before it, which was begun later than that turn ended, holds the turn already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import anyio

from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.runtime.continuity import HostContinuity


@dataclass(slots=True)
class Safekeeping:
    """Owned by one worker."""

    continuity: HostContinuity
    _changes: int = 0
    _kept: int = 0
    _opened: dict[UUID, str] = field(default_factory=dict)
    _last: Checkpoint | None = None
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def dirty(self) -> bool:
        """Whether something is in no generation yet."""
        return self._changes > self._kept

    def changed(self) -> None:
        """Note that the provider's state changed."""
        self._changes += 1

    def opened(self, session: UUID, identity: str) -> None:
        """Note a thread that was just opened.

        From now on every generation names it, also those that siblings ask for before the store knows it: the newest generation decides
        whether a session can be resumed (CONT-7).
        """
        self._opened[session] = identity

    async def capture(self, reason: CheckpointReason) -> Checkpoint | None:
        """Publish a generation of the whole host, or return the one that holds everything; ``None`` without continuity of the provider.

        Raises:
            JamError, OSError: It was not published.
        """
        asked_at = self._changes
        async with self._one:
            if reason is CheckpointReason.AFTER_TURN and self._kept >= asked_at:
                return self._last
            begun_at = self._changes
            self._last = await self.continuity.capture(reason, self._opened)
            self._kept = begun_at
            return self._last
