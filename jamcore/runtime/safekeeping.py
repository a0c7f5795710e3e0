"""How far a host's provider state is in a generation, counted over all its seats (CONT-2, CONT-11).

Seats change the state at the same time and each asks for captures. A flag would be wrong: a capture that was begun before a sibling's turn
ended must not make that turn read as safe. So changes are numbered, and a capture makes safe what had happened when it was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.runtime.continuity import HostContinuity


@dataclass(slots=True)
class Safekeeping:
    """Owned by one worker."""

    continuity: HostContinuity
    _changes: int = 0
    _kept: int = 0
    _opened: dict[UUID, str] = field(default_factory=dict)

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
        """Publish a generation of the whole host; ``None`` when the provider declares no continuity.

        Raises:
            JamError, OSError: It was not published.
        """
        asked_at = self._changes
        row = await self.continuity.capture(reason, self._opened)
        self._kept = max(self._kept, asked_at)
        return row
