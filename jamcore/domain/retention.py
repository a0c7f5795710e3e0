"""Removing the payload of checkpoints: what may go, what stands against it, and how far a removal is (WS-9).

The payload is the bytes in the packs. The row of a checkpoint is never deleted: it says for ever what was there, and that it was removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain.continuity import Checkpoint
from jamcore.domain.errors import RefusalError
from jamcore.domain.records import Record
from jamcore.domain.transitions import TransitionTable

REMOVED_TOGETHER = 1000
"""Checkpoints that one removal may name: their list is part of each of its journal's entries."""


class DeletionStage(StrEnum):
    """How far the removal of one payload is; it goes forward only.

    PREPARED: checked and journaled, and nothing is gone. PAYLOAD_REMOVED: its bytes are gone. SUCCEEDED: every checkpoint that stays was
    looked at again and still has all it needs.
    """

    PREPARED = "prepared"
    PAYLOAD_REMOVED = "payload-removed"
    SUCCEEDED = "succeeded"


_S = DeletionStage
PAYLOAD_DELETION = TransitionTable(
    "payload deletion",
    {
        _S.PREPARED: frozenset({_S.PAYLOAD_REMOVED}),
        _S.PAYLOAD_REMOVED: frozenset({_S.SUCCEEDED}),
        _S.SUCCEEDED: frozenset(),
    },
)


class PayloadDeletion(Record):
    """The row of one removed payload. ``removal_id`` is the removal that it went with.

    ``planned_bytes`` and ``freed_bytes`` are its share of what the removal frees: over one removal they add up to the exact figure.
    """

    id: UUID
    checkpoint_id: UUID
    host_id: UUID
    removal_id: UUID
    stage: DeletionStage
    planned_bytes: int
    freed_bytes: int | None
    prepared_at: datetime
    removed_at: datetime | None
    ended_at: datetime | None


class Blocker(StrEnum):
    """Why the payload of a checkpoint stays (WS-9).

    CORRUPT is damaged itself. DAMAGE_BESIDE is not: one that would be left is damaged, so that what it needs cannot be told, or so that
    this one may be the last that is sound.
    """

    NEWEST = "newest"
    IN_USE = "in-use"
    REFERENCED = "referenced"
    MISSING = "missing"
    CORRUPT = "corrupt"
    DAMAGE_BESIDE = "damage-beside"
    REMOVED = "removed"


class Retention(Record):
    """How one checkpoint stands to a removal. Without a ``blocker`` it may go.

    ``bytes_freed`` is its share of what the removal frees; ``bytes_stay`` is what it holds that checkpoints which stay need as well.
    """

    checkpoint_id: UUID
    generation: int
    blocker: Blocker | None = None
    detail: str = ""
    bytes_freed: int = 0
    bytes_stay: int = 0


class RemovalEvidence(Record):
    """What a person confirms: these checkpoints, and exactly these bytes.

    ``bytes_freed`` is by how much the files of the packs become smaller together; ``bytes_copied`` must be free on the disk meanwhile,
    since what others need is written anew before anything is removed. ``kind`` binds the digest to this action (WS-10).
    """

    kind: Literal["payload-deletion"] = "payload-deletion"
    host_id: UUID
    items: tuple[Retention, ...]
    bytes_freed: int
    bytes_stay: int
    bytes_copied: int

    @property
    def blocked(self) -> tuple[Retention, ...]:
        """The checkpoints that something stands against."""
        return tuple(item for item in self.items if item.blocker is not None)


class CheckpointStanding(Record):
    """A checkpoint as lists show it: with what keeps it, as far as the store knows, and when its payload was removed."""

    checkpoint: Checkpoint
    kept_because: Blocker | None = None
    detail: str = ""
    removed_at: datetime | None = None


class RemovalPlan(Record):
    """The evidence with its digest, which confirms it; empty while something stands against the removal."""

    evidence: RemovalEvidence
    digest: str


class RemovalQuestion(Record):
    """Which checkpoints a removal would be about: ids or their beginnings."""

    checkpoints: tuple[str, ...] = Field(min_length=1, max_length=REMOVED_TOGETHER)


class RemovalRequest(Record):
    """Remove the payload of these checkpoints. The id is the client's; ``confirmed`` is the digest of the plan that was shown."""

    id: UUID
    checkpoints: tuple[str, ...] = Field(min_length=1, max_length=REMOVED_TOGETHER)
    confirmed: str = Field(pattern=r"^[0-9a-f]{64}$")


class RemovalResult(Record):
    """The payload is gone; the rows stay."""

    id: UUID
    host_id: UUID
    checkpoints: tuple[UUID, ...]
    bytes_freed: int


@dataclass(eq=False)
class RemovalRefusedError(RefusalError):
    """The confirmation does not fit what is there now, or something stands against the removal; nothing was removed."""

    code: ClassVar[str] = "continuity.removal_refused"
    hint: ClassVar[str] = "Look at the plan again: the same command without `--confirm` shows it, with the digest to confirm."

    host: str
    problem: str


@dataclass(eq=False)
class RemovalSpaceError(RefusalError):
    """What other checkpoints need is copied before anything goes, and there is no room for the copy; nothing was removed."""

    code: ClassVar[str] = "continuity.removal_space"
    hint: ClassVar[str] = (
        "Free as many bytes as are missing on the disk of the app directory, then repeat the command. Or remove checkpoints first whose "
        "plan copies nothing or less: those of other rooms, or all of this room but the newest."
    )

    host: str
    needed: int
    free: int
    missing: int


@dataclass(eq=False)
class PayloadRemovedError(RefusalError):
    """The bytes of this checkpoint were removed on a person's word; its row is all that is left."""

    code: ClassVar[str] = "continuity.payload_removed"
    hint: ClassVar[str] = "Run `jam checkpoint ls ROOM` for those that have their payload."

    checkpoint: str
    removed_at: str
    room: str = ""
