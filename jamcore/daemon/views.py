"""Joins records into what clients are shown, inside one read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import structlog

from jamcore.domain.resets import FreshStart
from jamcore.domain.safekeeping import Kept, Safety
from jamcore.domain.sessions import Room, RuntimeHost, RuntimeSession, SessionWorkspace, Turn, TurnState
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
    safety: Safety
    fresh_starts: tuple[FreshStart, ...]


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
        safety=_safety(repos, bound),
        fresh_starts=tuple(_fresh_starts(repos, bound.host.id, bound.session.id)),
    )


def _fresh_starts(repos: Repos, host: UUID, session: UUID) -> Iterator[FreshStart]:
    """Yield the fresh starts that a session came from, newest first; a room that was opened after one has none."""
    while reset := repos.continuity_resets.that_made(host):
        source = next((each.source_session_id for each in reset.sessions if each.session_id == session), None)
        if source is None:
            return
        host, session = reset.source_host_id, source
        yield FreshStart(
            at=reset.created_at,
            failure=reset.evidence.failure,
            source_session_id=source,
            source_host_id=host,
            source_sandbox=reset.evidence.sandbox,
        )


def _safety(repos: Repos, bound: BoundRoom) -> Safety:
    """Read how the conversation is kept: a generation counts if it holds this session as it is bound now."""
    session = bound.session
    outside = sum(turn.state is TurnState.COMPLETED for turn in repos.turns.unfinished_of(session.id))
    row = repos.checkpoints.latest_of_host(bound.host.id)
    if row is not None and any(held.session_id == session.id and held.provider_identity is not None for held in row.sessions):
        read = repos.verifications.of_checkpoint(row.id)
        kept = Kept(
            checkpoint_id=row.id,
            generation=row.generation,
            created_at=row.created_at,
            files=row.files,
            bytes_total=row.bytes_total,
            verified_at=read.sound_at if read else None,
            damage=read.problem if read else "",
        )
    else:
        kept = None
    return Safety(kept=kept, turns_outside=outside, unsaved=repos.unsaved_hosts.open_of_host(bound.host.id))


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
