"""Operations, runs, change requests."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import RowMapping, insert, select, update

from jamcore.domain.changes import ChangeDecision, ChangeRequest, Run
from jamcore.domain.errors import ConflictError, IllegalTransitionError
from jamcore.domain.operations import OPERATION, Operation, OperationKind, OperationState
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.repos.rooms import find_by_ref
from jamcore.store.tables.work import CHANGE_DECISIONS, CHANGES, OPERATION_EVENTS, OPERATIONS, RUNS

IMMUTABLE = ("workspace_id", "host_id", "session_id", "kind", "started_at")


class Operations(Repository):
    """Operations on workspaces (WS-2)."""

    table, kind = OPERATIONS, "operation"

    def upsert(self, operation: Operation) -> Operation:
        """Keep an operation or its next state. The same again appends nothing; each accepted change appends an event.

        A new one is Pending or Running, and belongs to this daemon. A Running one may get another result while it runs.

        Raises:
            ConflictError: An immutable field differs, or the workspace has a Running operation.
            IllegalTransitionError: The state does not follow.
            FencedError: Another daemon owns it.
        """
        found = self._one(OPERATIONS.c.id == operation.id)
        if found is not None and not self._changes(operation, read_row(Operation, found)):
            return self.get(operation.id)
        with self._unless_taken(operation.workspace_id, "the workspace has a running operation"):
            if found is None:
                self._begin(operation)
            else:
                self._advance(operation, found)
        self._append(operation)
        return self.get(operation.id)

    def get(self, identifier: UUID) -> Operation:
        """Return an operation."""
        return read_row(Operation, self._need(self._by_id(identifier), identifier))

    def running(self) -> tuple[Operation, ...]:
        """Return the Running operations, oldest first."""
        rows = self._rows(OPERATIONS.c.state == OperationState.RUNNING.value, order=[OPERATIONS.c.started_at])
        return tuple(read_row(Operation, row) for row in rows)

    def running_ids(self, kind: OperationKind) -> tuple[UUID, ...]:
        """Return the ids of the Running operations of a kind, oldest first. No row is read: a damaged one hides no other (START-1)."""
        wanted = (OPERATIONS.c.state == OperationState.RUNNING.value) & (OPERATIONS.c.kind == kind.value)
        query = select(OPERATIONS.c.id).where(wanted).order_by(OPERATIONS.c.started_at)
        return tuple(self._connection.execute(query).scalars())

    def events(self, identifier: UUID) -> tuple[tuple[int, str, str], ...]:
        """Return (number, state, result) of every accepted change."""
        query = select(OPERATION_EVENTS).where(OPERATION_EVENTS.c.operation_id == identifier).order_by(OPERATION_EVENTS.c.seq)
        return tuple((row.seq, row.state, row.result) for row in self._connection.execute(query))

    def _changes(self, new: Operation, old: Operation) -> bool:
        if changed := [name for name in IMMUTABLE if getattr(new, name) != getattr(old, name)]:
            raise ConflictError(kind="operation", ref=str(new.id), problem=f"another {', '.join(changed)} is stored")
        if (new.state, new.result, new.ended_at) == (old.state, old.result, old.ended_at):
            return False
        if not (new.state is old.state is OperationState.RUNNING):
            OPERATION.require(old.state, new.state, ref=str(new.id))
        return True

    def _begin(self, operation: Operation) -> None:
        if operation.state not in (OperationState.PENDING, OperationState.RUNNING):
            raise IllegalTransitionError(machine=OPERATION.machine, ref=str(operation.id), old="new", new=operation.state)
        values = operation.model_dump() | {"state": operation.state.value, "kind": operation.kind.value} | self._ownership()
        self._connection.execute(insert(OPERATIONS).values(**values))

    def _advance(self, operation: Operation, found: RowMapping) -> None:
        still = [OPERATIONS.c.id == operation.id, OPERATIONS.c.state == found["state"], *self._fence()]
        values = {"state": operation.state.value, "result": operation.result, "ended_at": operation.ended_at}
        if self._connection.execute(update(OPERATIONS).where(*still).values(**values)).rowcount != 1:
            self._require_ours(found, operation.id)
            raise ConflictError(kind="operation", ref=str(operation.id), problem="somebody was faster")

    def _append(self, operation: Operation) -> None:
        seq = self._next(OPERATION_EVENTS.c.seq, OPERATION_EVENTS.c.operation_id == operation.id)
        values = {"operation_id": operation.id, "seq": seq, "state": operation.state.value, "result": operation.result}
        self._connection.execute(insert(OPERATION_EVENTS).values(at=self._context.now, **values))


class Runs(Repository):
    """Runs: which change request belongs to which room and turn."""

    table, kind = RUNS, "run"

    def insert(self, run: Run) -> Run:
        """Keep a run; the same again is fine."""
        found = self._one(RUNS.c.room_id == run.room_id)
        if found is None:
            with self._unless_taken(run.room_id, "the change request's id belongs to another run"):
                self._connection.execute(insert(RUNS).values(**run.model_dump()))
        elif read_row(Run, found) != run:
            raise ConflictError(kind="run", ref=str(run.room_id), problem="another run is stored")
        return run

    def of_room(self, room: UUID) -> Run:
        """Return a room's run."""
        return read_row(Run, self._need(self._one(RUNS.c.room_id == room), room))

    def unfinished_rooms(self) -> tuple[UUID, ...]:
        """Return the rooms whose run has no change request. No row is read: a damaged one hides no other (START-1)."""
        query = select(RUNS.c.room_id).where(RUNS.c.change_id.not_in(select(CHANGES.c.id)))
        return tuple(self._connection.execute(query).scalars())


class Changes(Repository):
    """Change requests: never changed."""

    table, kind = CHANGES, "change request"

    def insert(self, change: ChangeRequest) -> ChangeRequest:
        """Keep a change request; the same again is fine."""
        values = {
            "id": change.id,
            "room_id": change.room_id,
            "session_id": change.session_id,
            "record": change.canonical_json().decode(),
            "created_at": change.created_at,
        }
        self._insert_once(change.id, values, compare=("record",))
        return change

    def find_id(self, identifier: UUID) -> ChangeRequest | None:
        """Return a change request or ``None``."""
        row = self._by_id(identifier)
        return None if row is None else ChangeRequest.model_validate_json(row["record"])

    def find(self, ref: str) -> ChangeRequest:
        """Return the one that a person meant."""
        identifier = find_by_ref(self, ref, name=False)
        return ChangeRequest.model_validate_json(self._need(self._by_id(identifier), ref)["record"])

    def list(self) -> tuple[ChangeRequest, ...]:
        """Return all, newest first."""
        rows = self._rows(order=[CHANGES.c.created_at.desc(), CHANGES.c.id.desc()])
        return tuple(ChangeRequest.model_validate_json(row["record"]) for row in rows)


class ChangeDecisions(Repository):
    """What became of change requests: one decision each, never changed."""

    table, kind = CHANGE_DECISIONS, "decision on a change request"

    def insert(self, decision: ChangeDecision) -> ChangeDecision:
        """Keep a decision; the same again is fine.

        Raises:
            ConflictError: The change request was judged already, or the id was used for another decision.
        """
        values = {
            "id": decision.id,
            "change_id": decision.change_id,
            "record": decision.canonical_json().decode(),
            "decided_at": decision.decided_at,
        }
        self._insert_once(decision.id, values, compare=("record",), taken="it was judged already")
        return decision

    def of_change(self, change: UUID) -> ChangeDecision | None:
        """Return what became of a change request, or ``None``."""
        row = self._one(CHANGE_DECISIONS.c.change_id == change)
        return None if row is None else ChangeDecision.model_validate_json(row["record"])

    def list(self) -> tuple[ChangeDecision, ...]:
        """Return all, newest first."""
        rows = self._rows(order=[CHANGE_DECISIONS.c.decided_at.desc(), CHANGE_DECISIONS.c.id.desc()])
        return tuple(ChangeDecision.model_validate_json(row["record"]) for row in rows)
