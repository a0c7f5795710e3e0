"""The stages of removing a whole host: forward only (WS-8, WS-17)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from jamcore.domain.records import Record
from jamcore.domain.transitions import TransitionTable


class CleanupStage(StrEnum):
    """How far the removal of a host is.

    PREPARED: everything was looked at and confirmed, and nothing is gone. SANDBOX_REMOVED: no sandbox of it exists. ROOT_REMOVED: its
    directory is gone; exports lie elsewhere and stay. SUCCEEDED: the host is Removed, and nothing follows.
    """

    PREPARED = "prepared"
    SANDBOX_REMOVED = "sandbox-removed"
    ROOT_REMOVED = "root-removed"
    SUCCEEDED = "succeeded"


_S = CleanupStage
CLEANUP = TransitionTable(
    "host clean-up",
    {
        _S.PREPARED: frozenset({_S.SANDBOX_REMOVED}),
        _S.SANDBOX_REMOVED: frozenset({_S.ROOT_REMOVED}),
        _S.ROOT_REMOVED: frozenset({_S.SUCCEEDED}),
        _S.SUCCEEDED: frozenset(),
    },
)


class HostCleanup(Record):
    """The record of one clean-up; its id is the operation's. One at most of a host has not ended.

    Attributes:
        confirmed: Digest of the evidence that a person confirmed.
        sandbox_absent: The sandbox was confirmed absent when it was looked at: a restart must confirm that again (WS-17).
        planned_bytes: What was to go, as confirmed.
        removed_bytes: What has gone.
        retained_bytes: What stays of the host: its exports.
    """

    id: UUID
    host_id: UUID
    stage: CleanupStage
    confirmed: str
    sandbox_absent: bool
    planned_bytes: int
    removed_bytes: int | None
    retained_bytes: int
    prepared_at: datetime
    ended_at: datetime | None
