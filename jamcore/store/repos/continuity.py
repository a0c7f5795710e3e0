"""Checkpoints, decisions, observations."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import insert, select

from jamcore.domain.continuity import ActivationDecision, Checkpoint, CheckpointReason, Observation
from jamcore.domain.errors import ConflictError
from jamcore.store.repos.base import Repository
from jamcore.store.repos.rooms import find_by_ref
from jamcore.store.tables.continuity import ACTIVATIONS, CHECKPOINTS, OBSERVATIONS


class Checkpoints(Repository):
    """Generations: never changed, never deleted."""

    table, kind = CHECKPOINTS, "checkpoint"

    def insert(self, checkpoint: Checkpoint) -> Checkpoint:
        """Keep a row under the host's next generation number; an exact retry returns the stored one.

        Raises:
            ConflictError: The id is stored with other content.
        """
        if found := self._one(CHECKPOINTS.c.id == checkpoint.id):
            stored = Checkpoint.model_validate_json(found["record"])
            if checkpoint.model_copy(update={"generation": stored.generation}) != stored:
                raise ConflictError(kind="checkpoint", ref=str(checkpoint.id), problem="another content is stored")
            return stored
        number = self._next(CHECKPOINTS.c.generation, CHECKPOINTS.c.host_id == checkpoint.host_id)
        numbered = checkpoint.model_copy(update={"generation": number})
        self._connection.execute(
            insert(CHECKPOINTS).values(
                id=numbered.id,
                host_id=numbered.host_id,
                generation=numbered.generation,
                record=numbered.canonical_json().decode(),
                created_at=numbered.created_at,
            )
        )
        return numbered

    def get(self, identifier: UUID) -> Checkpoint:
        """Return a row."""
        return Checkpoint.model_validate_json(self._need(self._by_id(identifier), identifier)["record"])

    def find(self, ref: str) -> Checkpoint:
        """Return the one that a person meant. See :func:`find_by_ref`."""
        return self.get(find_by_ref(self, ref, name=False))

    def ids_by_host(self) -> dict[UUID, set[UUID]]:
        """Return the ids of all rows by host. No row is read: a damaged one hides no other (START-1)."""
        found: dict[UUID, set[UUID]] = {}
        for host, identifier in self._connection.execute(select(CHECKPOINTS.c.host_id, CHECKPOINTS.c.id)):
            found.setdefault(host, set()).add(identifier)
        return found

    def latest_of_host(self, host: UUID) -> Checkpoint | None:
        """Return the newest row of a host."""
        rows = self._rows(CHECKPOINTS.c.host_id == host, order=[CHECKPOINTS.c.generation.desc()], limit=1)
        return Checkpoint.model_validate_json(rows[0]["record"]) if rows else None

    def numbers_of(self, host: UUID) -> dict[UUID, int]:
        """Return the number of each generation of a host. No row is read."""
        found = self._connection.execute(select(CHECKPOINTS.c.id, CHECKPOINTS.c.generation).where(CHECKPOINTS.c.host_id == host))
        return {row.id: row.generation for row in found}

    def from_exports_of(self, host: UUID) -> tuple[Checkpoint, ...]:
        """Return those rows of a host that were made from an export, oldest first. No other row is read."""
        said = CHECKPOINTS.c.record.contains(f'"{CheckpointReason.FROM_EXPORT.value}"')
        rows = self._rows(CHECKPOINTS.c.host_id == host, said, order=[CHECKPOINTS.c.generation])
        found = (Checkpoint.model_validate_json(row["record"]) for row in rows)
        return tuple(row for row in found if row.reason is CheckpointReason.FROM_EXPORT)

    def of_host(self, host: UUID) -> tuple[Checkpoint, ...]:
        """Return all rows of a host, oldest first."""
        rows = self._rows(CHECKPOINTS.c.host_id == host, order=[CHECKPOINTS.c.generation])
        return tuple(Checkpoint.model_validate_json(row["record"]) for row in rows)


class Activations(Repository):
    """Decisions before a start."""

    table, kind = ACTIVATIONS, "activation"

    def record(self, identifier: UUID, session: UUID, decision: ActivationDecision, decided_at: datetime) -> None:
        """Keep a decision; the same again is fine.

        Raises:
            ConflictError: The id is another decision's.
        """
        values = {
            "id": identifier,
            "session_id": session,
            "seq": self._next(ACTIVATIONS.c.seq, ACTIVATIONS.c.session_id == session),
            "decision": decision.canonical_json().decode(),
            "decided_at": decided_at,
        }
        self._insert_once(identifier, values, compare=("session_id", "decision"))

    def latest_of_session(self, session: UUID) -> ActivationDecision | None:
        """Return the decision about a session that was recorded last, whatever the clock did in between."""
        rows = self._rows(ACTIVATIONS.c.session_id == session, order=[ACTIVATIONS.c.seq.desc()], limit=1)
        return ActivationDecision.model_validate_json(rows[0]["decision"]) if rows else None


class Observations(Repository):
    """What resume attempts showed."""

    table, kind = OBSERVATIONS, "observation"

    def insert(self, observation: Observation) -> Observation:
        """Keep an observation; the same again is fine.

        Raises:
            ConflictError: The id is another observation's.
        """
        values = {
            "id": observation.id,
            "session_id": observation.session_id,
            "seq": self._next(OBSERVATIONS.c.seq, OBSERVATIONS.c.session_id == observation.session_id),
            "checkpoint_id": observation.checkpoint_id,
            "outcome": observation.outcome.value,
            "record": observation.canonical_json().decode(),
            "observed_at": observation.observed_at,
        }
        self._insert_once(observation.id, values, compare=("record",))
        return observation

    def latest(self, checkpoint: UUID, session: UUID) -> Observation | None:
        """Return the one for a checkpoint and session that was recorded last, whatever the clock did in between (CONT-12)."""
        rows = self._rows(
            OBSERVATIONS.c.checkpoint_id == checkpoint,
            OBSERVATIONS.c.session_id == session,
            order=[OBSERVATIONS.c.seq.desc()],
            limit=1,
        )
        return Observation.model_validate_json(rows[0]["record"]) if rows else None

    def last_of_session(self, session: UUID) -> Observation | None:
        """Return the one of a session that was recorded last, whichever checkpoint it was for."""
        rows = self._rows(OBSERVATIONS.c.session_id == session, order=[OBSERVATIONS.c.seq.desc()], limit=1)
        return Observation.model_validate_json(rows[0]["record"]) if rows else None

    def of_session(self, session: UUID) -> tuple[Observation, ...]:
        """Return all observations of a session, oldest first."""
        rows = self._rows(OBSERVATIONS.c.session_id == session, order=[OBSERVATIONS.c.seq])
        return tuple(Observation.model_validate_json(row["record"]) for row in rows)
