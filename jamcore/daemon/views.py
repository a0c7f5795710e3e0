"""Joins records into what clients are shown, inside one read."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from jamcore.domain.sessions import Room, RuntimeHost, RuntimeSession, SessionWorkspace, Turn
from jamcore.store import Repos


@dataclass(frozen=True, slots=True)
class BoundRoom:
    """A room with what its live binding leads to."""

    room: Room
    session: RuntimeSession
    host: RuntimeHost
    workspace: SessionWorkspace


@dataclass(frozen=True, slots=True)
class RoomRecords(BoundRoom):
    """Everything stored about a room's live binding, and how far the conversation is."""

    last_turn: Turn | None
    last_seq: int


def bound_room(repos: Repos, room: Room) -> BoundRoom:
    """Read a room with its live session, host and workspace."""
    session, host, workspace = repos.sessions.bound_to(room.id)
    return BoundRoom(room=room, session=session, host=host, workspace=workspace)


def room_records(repos: Repos, room: Room) -> RoomRecords:
    """Read a room with its live session, host, workspace and last turn."""
    bound = bound_room(repos, room)
    return RoomRecords(
        room=room,
        session=bound.session,
        host=bound.host,
        workspace=bound.workspace,
        last_turn=repos.turns.last_of_session(bound.session.id),
        last_seq=repos.events.last_seq(room.id),
    )


def readable_rooms(repos: Repos) -> tuple[RoomRecords, ...]:
    """Read all rooms, newest first; what is wrong with the records of one is logged and hides no other."""
    found = []
    for room in repos.rooms.list():
        try:
            found.append(room_records(repos, room))
        except Exception:  # noqa: BLE001 - see below
            # Named boundary: a damaged row shows in as many ways as it can be damaged.
            structlog.get_logger("jam.rooms").exception("a room cannot be read", room=str(room.id), name=room.name)
    return tuple(found)
