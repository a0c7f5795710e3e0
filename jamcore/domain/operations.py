"""Journaled operations: what each is about, its states, and what a restart does with a step that was cut (WS-2, WS-3, START-2)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from jamcore.domain.records import Record
from jamcore.domain.transitions import TransitionTable


class OperationState(StrEnum):
    """Exactly six arrows; terminal is terminal (WS-2). Pending: accepted, and nothing of what it will remove is touched yet."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = OperationState
OPERATION = TransitionTable(
    "operation",
    {
        _S.PENDING: frozenset({_S.RUNNING, _S.FAILED, _S.CANCELLED}),
        _S.RUNNING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED}),
        _S.SUCCEEDED: frozenset(),
        _S.FAILED: frozenset(),
        _S.CANCELLED: frozenset(),
    },
)
UNFINISHED = tuple(state for state in OperationState if not OPERATION.is_terminal(state))
"""The states that a start goes on with."""


class OnRestart(StrEnum):
    """What a restart does with a step that was begun and not recorded (START-2)."""

    REPLAY = "replay"
    OBSERVE_THEN_FINISH = "observe-then-finish"
    MARK_INTERRUPTED = "mark-interrupted"


class ExportRetention(StrEnum):
    """What becomes of a workspace's older exports when it is archived (WS-16)."""

    KEEP_ALL = "keep-all"
    KEEP_LATEST = "keep-latest"


OperationName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")]
"""A kind. One that this Jam does not know was begun by another version; it is shown, and never carried out."""
ResultClass = Annotated[str, Field(pattern=r"^[a-z0-9._-]{0,64}$", max_length=64)]
"""What came of an operation, as a class: a lower-case word with nothing that could carry a path, an option or an id's meaning (WS-3)."""


class About(Record):
    """What an operation is about and what was asked for, as columns of its row; never changed once it has begun (WS-2, WS-3).

    ``workspace_id`` is set for what must not run beside another operation on the same workspace. ``confirmed`` is the digest of the
    evidence that a person confirmed.
    """

    room_id: UUID | None = None
    host_id: UUID | None = None
    session_id: UUID | None = None
    workspace_id: UUID | None = None
    export_id: UUID | None = None
    retention: ExportRetention | None = None
    force: bool = False
    confirmed: str = ""


class Operation(About):
    """One operation. ``result`` is a bounded classification, never intent (WS-3)."""

    id: UUID
    kind: OperationName
    state: OperationState
    result: ResultClass
    daemon_id: UUID
    fence_epoch: int
    started_at: datetime
    ended_at: datetime | None

    @property
    def finished(self) -> bool:
        """Whether nothing follows."""
        return OPERATION.is_terminal(self.state)


class OperationEvent(Record):
    """One line of an operation's story: a change of its state, or a boundary of one of its steps.

    ``step`` and ``phase`` are empty for a change of state; ``result`` is then the operation's, otherwise the class of a failure.
    """

    seq: int
    state: OperationState
    step: str
    phase: str
    result: str
    at: datetime
