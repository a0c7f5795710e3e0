"""Journaled work on a workspace: kinds, states, and what a restart does with each kind (WS-2, START-2)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated
from uuid import UUID

from pydantic import Field

from jamcore.domain.records import Record
from jamcore.domain.transitions import TransitionTable


class OperationKind(StrEnum):
    """What is done. A kind without a row in :data:`ON_RESTART` cannot exist (START-6)."""

    PROVISION = "provision"
    RECONCILE = "reconcile"


class OperationState(StrEnum):
    """Exactly six arrows; terminal is terminal (WS-2)."""

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


class OnRestart(StrEnum):
    """What start-up does with work that was running (START-2)."""

    REPLAY = "replay"
    OBSERVE_THEN_FINISH = "observe-then-finish"
    MARK_INTERRUPTED = "mark-interrupted"


ON_RESTART = MappingProxyType({OperationKind.PROVISION: OnRestart.REPLAY, OperationKind.RECONCILE: OnRestart.REPLAY})


ResultClass = Annotated[str, Field(pattern=r"^[a-z0-9.-]{0,64}$")]
"""What came of an operation, as a class: a lower-case word with nothing that could carry a path, an option or an id's meaning (WS-3)."""


class Operation(Record):
    """One operation on one workspace. ``result`` is a bounded classification, never intent (WS-3)."""

    id: UUID
    workspace_id: UUID
    host_id: UUID
    session_id: UUID
    kind: OperationKind
    state: OperationState
    result: ResultClass
    daemon_id: UUID
    fence_epoch: int
    started_at: datetime
    ended_at: datetime | None
