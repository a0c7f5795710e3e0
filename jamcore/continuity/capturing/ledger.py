"""What a publication reads from the store and writes to it, each in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from jamcore.continuity.generations.publish import Generation
from jamcore.continuity.ports import Rows
from jamcore.domain.continuity import Checkpoint, CheckpointSession, ObservationOutcome
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import TurnStateChanged
from jamcore.domain.sessions import RuntimeHost, Turn, TurnState


def inputs_of(
    host: RuntimeHost, identities: Mapping[UUID, str], rows: Rows, *, confirmed: bool = True
) -> tuple[tuple[CheckpointSession, ...], Checkpoint | None, frozenset[str]]:
    """Validate against the store and return the canonical list of sessions, the generation before, and the conversations that were refused.

    Those are of the sessions whose last resume failed: what they come back from is the generation before, and nothing newer (CONT-7).
    Not ``confirmed``: nobody compared the completed turns with the state, so the list names none of them (CONT-11).

    Raises:
        ConflictError: Host, agent, sessions or identities are not those of the store.
    """
    known = rows.hosts.get(host.id)
    if (known.agent_id, known.provider) != (host.agent_id, host.provider):
        raise ConflictError(kind="host", ref=str(host.id), problem="agent or provider is not the stored one")
    stored = {session.id: session for session in rows.sessions.of_host(host.id)}
    for session_id, identity in identities.items():
        if session_id not in stored:
            raise ConflictError(kind="session", ref=str(session_id), problem="it is not a session of this host")
        if stored[session_id].provider_identity not in (None, identity):
            raise ConflictError(kind="session", ref=str(session_id), problem="it is bound to another identity")
    previous = rows.checkpoints.latest_of_host(host.id)
    before = {held.session_id: held.last_turn_id for held in previous.sessions} if previous else {}
    refused = {session.id for session in stored.values() if session.provider_identity and _was_refused(rows, session.id)}

    def completed(session: UUID) -> list[Turn]:
        return _completed(rows, session) if confirmed and session not in refused else []

    sessions = tuple(
        CheckpointSession(
            session_id=session.id,
            provider_identity=session.provider_identity or identities.get(session.id),
            last_turn_id=next((turn.id for turn in reversed(completed(session.id))), before.get(session.id)),
        )
        for session in sorted(stored.values(), key=lambda session: session.id)
    )
    return sessions, previous, frozenset(stored[each].provider_identity or "" for each in refused)


def record_generation(generation: Generation, rows: Rows) -> Checkpoint:
    """Write the row, mark the turns that it contains as captured, and say so in their rooms, in one transaction (CONT-11)."""
    row = rows.checkpoints.insert(generation.row())
    for session in generation.sessions:
        completed = _completed(rows, session.session_id)
        contained = [turn.id for turn in completed]
        if session.last_turn_id in contained:
            for turn_id in contained[: contained.index(session.last_turn_id) + 1]:
                turn = rows.turns.move(turn_id, TurnState.CAPTURED, checkpoint_id=row.id)
                rows.events.append(turn.room_id, turn.id, [TurnStateChanged(state=TurnState.CAPTURED, detail=str(row.id))])
    return row


def _was_refused(rows: Rows, session_id: UUID) -> bool:
    last = rows.observations.last_of_session(session_id)
    return last is not None and last.outcome is ObservationOutcome.FAILED


def _completed(rows: Rows, session_id: UUID) -> list[Turn]:
    """Return the turns that ended and are in no generation yet, oldest first. The ones before them are in the last generation."""
    return [turn for turn in rows.turns.unfinished_of(session_id) if turn.state is TurnState.COMPLETED]
