"""Who came back with something else than was captured, told from the store: for a host whose worker, which knew it, is gone (CONT-7)."""

from __future__ import annotations

from uuid import UUID

from jamcore.domain.continuity import ObservationOutcome
from jamcore.store import Repos


def unproven_of(host: UUID, repos: Repos) -> dict[UUID, str]:
    """Return the sessions of a host whose program came back with something else since its newest generation, with their rooms.

    A generation that is newer says that the host came up again since: then its state was proven or restored for all of them.
    """
    newest = repos.checkpoints.latest_of_host(host)
    found = {}
    for session in repos.sessions.of_host(host):
        last = repos.observations.last_of_session(session.id)
        if last is None or last.outcome is not ObservationOutcome.FAILED or last.reported_identity is None:
            continue
        if newest is None or newest.created_at <= last.observed_at:
            found[session.id] = f"room {repos.rooms.get(repos.bindings.of_session(session.id).room_id).name}"
    return found
