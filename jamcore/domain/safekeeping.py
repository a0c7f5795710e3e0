"""How far a conversation is in a generation, and what stands in the way: what people are shown of it (CONT-8, CONT-11)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal
from uuid import UUID

from jamcore.domain.errors import RefusalError
from jamcore.domain.records import Record


class CaptureTrouble(Record):
    """Turns of a live host that are in no generation yet, why, and when it is tried again.

    ``deferred``: nothing failed; other rooms' turns run, and it is made when they end. Gone once a generation holds everything.
    """

    since: datetime
    code: str
    why: str
    deferred: bool
    attempts: int
    next_try: datetime


Settlement = Literal["checkpoint", "accepted"]
"""How it ended that a host was unsaved."""


class UnsavedHost(Record):
    """A host whose final checkpoint failed (CONT-8). It does not start again until ``settlement`` says how that ended.

    ``turns`` are those that were in the live state alone when a person accepted that, and ``detail`` what becomes of them.
    """

    id: UUID
    host_id: UUID
    code: str
    problem: str
    failed_at: datetime
    settlement: Settlement | None = None
    settled_at: datetime | None = None
    detail: str = ""
    turns: tuple[UUID, ...] = ()


class Verification(Record):
    """What it showed when a generation was last read whole. ``sound_at`` is the last time it was sound; ``problem`` of the last time."""

    checkpoint_id: UUID
    host_id: UUID
    checked_at: datetime
    sound_at: datetime | None
    problem: str = ""


class Kept(Record):
    """The newest generation of a room's host, if it holds the room's conversation: what the room comes back from."""

    checkpoint_id: UUID
    generation: int
    created_at: datetime
    files: int
    bytes_total: int
    verified_at: datetime | None = None
    damage: str = ""


class Safety(Record):
    """How a room's conversation is kept: in which generation, how many completed turns are in none, and what stands in the way."""

    kept: Kept | None = None
    turns_outside: int = 0
    trouble: CaptureTrouble | None = None
    unsaved: UnsavedHost | None = None


@dataclass(eq=False)
class HostUnsavedError(RefusalError):
    """The last checkpoint before the sandbox was parked failed, so it is not started until that is settled (CONT-8)."""

    code: ClassVar[str] = "continuity.unsaved"
    hint: ClassVar[str] = (
        "Type `jam room stop ROOM`: it makes the checkpoint from the state as it lies on disk. If that can never succeed, "
        "`jam room stop ROOM --accept-unsaved` says which turns are in no checkpoint, and lets the room come back."
    )

    rooms: str
    problem: str
    failed_at: str
