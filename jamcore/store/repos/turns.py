"""Turns."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, update

from jamcore.domain.errors import InvalidInputError, NotFoundError
from jamcore.domain.sessions import TURN, Turn, TurnState
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.tables.conversation import TURNS
from jamcore.store.tables.hosts import BINDINGS, SESSIONS

UNFINISHED = (TurnState.ACCEPTED.value, TurnState.RUNNING.value, TurnState.COMPLETED.value)


class Turns(Repository):
    """One exchange each; ids are the client's."""

    table, kind = TURNS, "turn"

    def accept(self, turn: Turn) -> Turn:
        """Keep a new turn; an exact retry returns the stored one, whatever became of it (WS-11).

        Raises:
            ConflictError: The id was used for another text, room or session.
        """
        seq = self._next(TURNS.c.seq, TURNS.c.session_id == turn.session_id)
        values = turn.model_dump() | {"state": turn.state.value, "seq": seq}
        if self._insert_once(turn.id, values, compare=("room_id", "session_id", "text")):
            return turn
        return self.get(turn.id)

    def get(self, identifier: UUID) -> Turn:
        """Return a turn."""
        return read_row(Turn, self._need(self._by_id(identifier), identifier))

    def find_id(self, identifier: UUID) -> Turn | None:
        """Return a turn or ``None``."""
        row = self._by_id(identifier)
        return None if row is None else read_row(Turn, row)

    def move(
        self,
        identifier: UUID,
        new: TurnState,
        *,
        provider_turn: str | None = None,
        detail: str | None = None,
        checkpoint_id: UUID | None = None,
        workspace_digest: str | None = None,
        ended_at: datetime | None = None,
    ) -> Turn:
        """Move a turn along its table, with what became known at that moment.

        Raises:
            NotFoundError, IllegalTransitionError: The turn is not there, or its state does not allow it.
            InvalidInputError: It is to be captured and no generation is named: only what is in one reads as safe (CONT-11).
        """
        if new is TurnState.CAPTURED and checkpoint_id is None:
            raise InvalidInputError(field="checkpoint_id", problem="a captured turn names the generation that holds it")
        known: dict[str, Any] = {
            "provider_turn": provider_turn,
            "detail": detail,
            "checkpoint_id": checkpoint_id,
            "workspace_digest": workspace_digest,
            "ended_at": ended_at,
        }
        return read_row(
            Turn, self._move(identifier, TURN, new, {name: value for name, value in known.items() if value is not None})
        )

    def note_workspace(self, identifier: UUID, digest: str) -> None:
        """Note the work tree's state at the end of a turn (CONT-11).

        Raises:
            NotFoundError: There is no such turn.
        """
        done = self._connection.execute(update(TURNS).where(TURNS.c.id == identifier).values(workspace_digest=digest))
        if done.rowcount != 1:
            raise NotFoundError(kind=self.kind, ref=str(identifier))

    def of_session(self, session: UUID) -> tuple[Turn, ...]:
        """Return a session's turns, in the order in which they were accepted."""
        rows = self._rows(TURNS.c.session_id == session, order=[TURNS.c.seq])
        return tuple(read_row(Turn, row) for row in rows)

    def of_room(self, room: UUID) -> tuple[Turn, ...]:
        """Return a room's turns, in the order in which they were accepted; those of a conversation that was given up come first."""
        columns = (BINDINGS.c.session_id, BINDINGS.c.live, SESSIONS.c.created_at)
        bound = select(*columns).join(SESSIONS, SESSIONS.c.id == BINDINGS.c.session_id).where(BINDINGS.c.room_id == room)
        order = {row.session_id: (row.live, row.created_at) for row in self._connection.execute(bound)}
        rows = self._rows(TURNS.c.room_id == room, order=[TURNS.c.seq])
        return tuple(read_row(Turn, row) for row in sorted(rows, key=lambda row: (order[row["session_id"]], row["seq"])))

    def last_of_session(self, session: UUID) -> Turn | None:
        """Return the turn that was accepted last, or ``None``."""
        rows = self._rows(TURNS.c.session_id == session, order=[TURNS.c.seq.desc()], limit=1)
        return read_row(Turn, rows[0]) if rows else None

    def captured_by(self, checkpoint: UUID) -> tuple[Turn, ...]:
        """Return the turns that a generation made safe, in the order in which they were accepted."""
        rows = self._rows(TURNS.c.checkpoint_id == checkpoint, order=[TURNS.c.seq])
        return tuple(read_row(Turn, row) for row in rows)

    def unfinished_of(self, session: UUID) -> tuple[Turn, ...]:
        """Return a session's turns that are accepted, running, or completed and not captured, in order."""
        rows = self._rows(TURNS.c.session_id == session, TURNS.c.state.in_(UNFINISHED), order=[TURNS.c.seq])
        return tuple(read_row(Turn, row) for row in rows)
