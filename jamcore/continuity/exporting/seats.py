"""Which session of a host takes up which conversation of an export, held against the store (CONT-1, CONT-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from jamcore.continuity.ports import Rows
from jamcore.domain.checkpoint_exports import ExportedCheckpoint
from jamcore.domain.continuity import CheckpointSession
from jamcore.domain.errors import ConflictError
from jamcore.domain.sessions import RuntimeHost


@dataclass(frozen=True, slots=True)
class Seat:
    """The session that takes up a conversation, and the last of its turns that is in it, if any (of an import, unknown here)."""

    session_id: UUID
    last_turn_id: UUID | None = None


def seats_of(
    host: RuntimeHost, exported: ExportedCheckpoint, seats: Mapping[UUID, Seat], rows: Rows
) -> tuple[CheckpointSession, ...]:
    """Return the canonical list of the sessions that a generation of this export holds: all of the host.

    Raises:
        ConflictError: Host, provider, sessions or identities do not fit, or a conversation of the host is not in the export: its next
            checkpoint would be one without it.
    """
    known = rows.hosts.get(host.id)
    if (known.agent_id, known.provider) != (host.agent_id, host.provider):
        raise _conflict("host", host.id, "agent or provider is not the stored one")
    if exported.provider != host.provider:
        raise _conflict("host", host.id, f"the export is of {exported.provider}")
    identities = {one.session_id: one.provider_identity for one in exported.sessions}
    if seats.keys() != identities.keys() or len({seat.session_id for seat in seats.values()}) != len(seats):
        raise _conflict("host", host.id, "not every conversation of the export has one session of its own")
    taken = {seat.session_id: (identities[old], seat.last_turn_id) for old, seat in seats.items()}
    stored = {session.id: session.provider_identity for session in rows.sessions.of_host(host.id)}
    for session in taken.keys() - stored.keys():
        raise _conflict("session", session, "it is not a session of this host")
    for session, bound in stored.items():
        if bound is not None and bound != taken.get(session, (None, None))[0]:
            raise _conflict("session", session, "it has a conversation that is not the export's")
    found = sorted((session, *taken.get(session, (None, None))) for session in stored)
    return tuple(
        CheckpointSession(session_id=session, provider_identity=identity, last_turn_id=turn) for session, identity, turn in found
    )


def bind(host: RuntimeHost, exported: ExportedCheckpoint, seats: Mapping[UUID, Seat], rows: Rows) -> tuple[CheckpointSession, ...]:
    """Bind each conversation's id to its session, once and for ever, and return :func:`seats_of`.

    Raises:
        ConflictError: As there.
    """
    found = seats_of(host, exported, seats, rows)
    for one in found:
        if one.provider_identity is not None:
            rows.sessions.bind_identity(one.session_id, one.provider_identity)
    return found


def _conflict(kind: str, ref: UUID, problem: str) -> ConflictError:
    return ConflictError(kind=kind, ref=str(ref), problem=problem)
