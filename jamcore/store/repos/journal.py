"""The journal's rows: what was begun, and each boundary that was passed."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import insert, select, update

from jamcore.domain.errors import ConflictError
from jamcore.store.repos.base import Repository
from jamcore.store.tables.work import JOURNAL, JOURNAL_STEPS

RUNNING = "running"


class JournalRows(Repository):
    """Actions and their steps; the journal package gives them their meaning. Rows are added and never changed, but for the end."""

    table, kind = JOURNAL, "journaled action"

    def begin(self, identifier: UUID, kind: str, initial: str) -> str:
        """Keep an action's intent and return its state; the same again is fine.

        Raises:
            ConflictError: The id was used for something else (WS-11).
        """
        values = {"id": identifier, "kind": kind, "initial": initial, "state": RUNNING, "at": self._context.now}
        self._insert_once(identifier, values, compare=("kind", "initial"))
        state: str = self._need(self._by_id(identifier), identifier)["state"]
        return state

    def knows(self, identifier: UUID) -> bool:
        """Say whether an action of this id was begun, whatever became of it."""
        return self._by_id(identifier) is not None

    def steps(self, identifier: UUID) -> tuple[tuple[str, str, str], ...]:
        """Return (step, phase, record) in order."""
        query = select(JOURNAL_STEPS).where(JOURNAL_STEPS.c.action_id == identifier).order_by(JOURNAL_STEPS.c.seq)
        return tuple((row.step, row.phase, row.record) for row in self._connection.execute(query))

    def note(self, identifier: UUID, step: str, phase: str, record: str, *, failure: str | None = None) -> None:
        """Append a boundary; ``failure`` is the bounded class of what went wrong there."""
        self._connection.execute(
            insert(JOURNAL_STEPS).values(
                action_id=identifier,
                seq=self._next(JOURNAL_STEPS.c.seq, JOURNAL_STEPS.c.action_id == identifier),
                step=step,
                phase=phase,
                record=record,
                failure=failure,
                at=self._context.now,
            )
        )

    def failures(self, identifier: UUID) -> tuple[tuple[str, str], ...]:
        """Return (step, class) of every failed attempt, in order."""
        failed = (JOURNAL_STEPS.c.action_id == identifier) & JOURNAL_STEPS.c.failure.is_not(None)
        query = select(JOURNAL_STEPS).where(failed).order_by(JOURNAL_STEPS.c.seq)
        return tuple((row.step, row.failure) for row in self._connection.execute(query))

    def end(self, identifier: UUID, state: str) -> None:
        """Note how an action ended; an ended one stays as it is.

        Raises:
            ConflictError: It has ended otherwise.
        """
        done = self._connection.execute(
            update(JOURNAL).where(JOURNAL.c.id == identifier, JOURNAL.c.state == RUNNING).values(state=state)
        )
        if done.rowcount != 1 and self._need(self._by_id(identifier), identifier)["state"] != state:
            raise ConflictError(kind=self.kind, ref=str(identifier), problem="it has ended otherwise")

    def running(self) -> tuple[tuple[UUID, str, str], ...]:
        """Return (id, kind, initial record) of every action that has not ended, oldest first."""
        rows = self._rows(JOURNAL.c.state == RUNNING, order=[JOURNAL.c.at, JOURNAL.c.id])
        return tuple((row["id"], row["kind"], row["initial"]) for row in rows)
