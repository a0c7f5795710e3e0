"""Runs, change requests and what became of them."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import insert, select

from jamcore.domain.changes import ChangeDecision, ChangeRequest, Run
from jamcore.domain.errors import ConflictError
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.repos.rooms import find_by_ref
from jamcore.store.tables.hosts import BINDINGS, HOSTS, SESSIONS
from jamcore.store.tables.work import CHANGE_DECISIONS, CHANGES, RUNS


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
        """Return the rooms on this daemon's hosts whose run has no change request.

        No row is read: a damaged one hides no other (START-1).
        """
        ours = HOSTS.c.daemon_id == self._context.fence.daemon_id
        query = (
            select(RUNS.c.room_id)
            .join(BINDINGS, BINDINGS.c.room_id == RUNS.c.room_id)
            .join(SESSIONS, SESSIONS.c.id == BINDINGS.c.session_id)
            .join(HOSTS, HOSTS.c.id == SESSIONS.c.host_id)
            .where(BINDINGS.c.live, ours, RUNS.c.change_id.not_in(select(CHANGES.c.id)))
        )
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
