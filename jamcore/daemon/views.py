"""Joins records into what clients are shown, inside one read."""

from __future__ import annotations

from dataclasses import dataclass

from jamcore.domain.sessions import Room, RuntimeHost, RuntimeSession, SessionWorkspace, Turn
from jamcore.store import Repos


@dataclass(frozen=True, slots=True)
class RoomRecords:
    """Everything stored about a room's live binding."""

    room: Room
    session: RuntimeSession
    host: RuntimeHost
    workspace: SessionWorkspace
    last_turn: Turn | None
    last_seq: int


def room_records(repos: Repos, room: Room) -> RoomRecords:
    """Read a room with its live session, host, workspace and last turn."""
    binding = repos.bindings.live_of_room(room.id)
    session = repos.sessions.get(binding.session_id)
    return RoomRecords(
        room=room,
        session=session,
        host=repos.hosts.get(session.host_id),
        workspace=repos.workspaces.of_session(session.id),
        last_turn=repos.turns.last_of_session(session.id),
        last_seq=repos.events.last_seq(room.id),
    )
