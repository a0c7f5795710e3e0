"""The records of a fake daemon: one room and everything that belongs to it."""

# ruff: noqa: D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import anyio

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import (
    Cell,
    Configuration,
    Placement,
    WorkspaceSource,
)
from jamcore.domain.continuity import (
    Checkpoint,
    CheckpointReason,
    CheckpointSession,
    ContinuityFailure,
)
from jamcore.domain.events import (
    RoomEvent,
    RoomPayload,
    TurnStateChanged,
)
from jamcore.domain.limits import Limits
from jamcore.domain.requests import (
    RoomRequest,
    RoomView,
    TurnRequest,
)
from jamcore.domain.resets import FreshStart
from jamcore.domain.safekeeping import CaptureTrouble, Kept, Safety, UnsavedHost
from jamcore.domain.sessions import (
    HostState,
    Room,
    RuntimeHost,
    RuntimeSession,
    SessionState,
    SessionWorkspace,
    Turn,
    TurnState,
    WorkspaceState,
)
from jamcore.system.ids import SystemIds

EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egpj.exe tail\x7f\r\n\tok"
IDS = SystemIds()
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LIMITS = Limits(finalise_s=2.0, forced_exit_s=12.0)
COMMAND = "touch \x1b[31mf"
CELL = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=Placement.DEDICATED)


@dataclass
class Conversation:
    """One room of the fake."""

    request: RoomRequest
    room: Room
    session: RuntimeSession
    host: RuntimeHost
    workspace: SessionWorkspace
    live: bool = True
    unsaved: UnsavedHost | None = None
    turns: dict[UUID, Turn] = field(default_factory=dict)
    events: list[RoomEvent] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)
    interrupt: anyio.Event = field(default_factory=anyio.Event)

    def emit(self, turn: UUID | None, payload: RoomPayload) -> None:
        self.events.append(RoomEvent(room_id=self.room.id, seq=len(self.events) + 1, at=AT, turn_id=turn, payload=payload))
        self.changed.set()
        self.changed = anyio.Event()

    def move(self, turn: UUID, state: TurnState, detail: str = "") -> None:
        ended = AT if state is not TurnState.RUNNING else None
        self.turns[turn] = self.turns[turn].model_copy(update={"state": state, "detail": detail, "ended_at": ended})
        self.emit(turn, TurnStateChanged(state=state.value, detail=detail))

    def view(self) -> RoomView:
        turns = list(self.turns.values())
        return RoomView(
            room=self.room,
            session=self.session,
            host=self.host,
            workspace=self.workspace,
            isolation="none" if self.host.engine == "local" else "namespace",
            live=self.live,
            busy=any(turn.state in {TurnState.ACCEPTED, TurnState.RUNNING} for turn in turns),
            last_turn=turns[-1] if turns else None,
            last_seq=len(self.events),
            safety=safety(self),
            fresh_starts=(fresh_start(self),) if self.room.name.startswith("afresh") else (),
        )


def fresh_start(room: Conversation) -> FreshStart:
    """Return the fresh start that a room came from which is called so."""
    return FreshStart(
        at=AT,
        failure=ContinuityFailure.CORRUPT,
        source_session_id=UUID(int=21),
        source_host_id=room.host.id,
        source_sandbox="jam-old",
    )


def checkpoint(room: Conversation) -> Checkpoint:
    """Return some checkpoint of the room."""
    return Checkpoint(
        id=UUID(int=5),
        host_id=room.host.id,
        agent_id=room.host.agent_id,
        provider="codex",
        provider_version="0.163.0",
        reason=CheckpointReason.BEFORE_STOP,
        root_digest="c" * 64,
        sessions=(CheckpointSession(session_id=room.session.id, provider_identity="thread-1", last_turn_id=None),),
        files=3,
        bytes_total=4096,
        bytes_written=1024,
        generation=2,
        created_at=AT,
    )


def unsaved(room: Conversation) -> UnsavedHost:
    """Return a failed final checkpoint of the room."""
    return UnsavedHost(
        id=UUID(int=11), host_id=room.host.id, code="continuity.checkpoint_failed", problem="full \x1b[2J", failed_at=AT
    )


def safety(room: Conversation) -> Safety:
    """Return how the room's conversation is kept; a room that is called ``troubled`` cannot be captured.

    One called ``sibling`` shares its sandbox and has nothing to capture.
    """
    row = checkpoint(room)
    trouble = CaptureTrouble(
        since=AT, code="continuity.host_busy", why="the turn of room \x1b[2J is running", deferred=True, attempts=2, next_try=AT
    )
    return Safety(
        kept=Kept(
            checkpoint_id=row.id,
            generation=row.generation,
            created_at=AT,
            files=row.files,
            bytes_total=row.bytes_total,
            verified_at=AT,
        ),
        turns_outside=1 if room.room.name == "troubled" else 0,
        trouble=trouble if room.room.name in ("troubled", "sibling") else None,
        unsaved=room.unsaved,
    )


def turn_of(room: Conversation, request: TurnRequest) -> Turn:
    """Return the turn that a request asks for."""
    return Turn(
        id=request.id,
        room_id=room.room.id,
        session_id=room.session.id,
        text=request.text,
        state=TurnState.ACCEPTED,
        provider_turn=None,
        detail="",
        checkpoint_id=None,
        workspace_digest=None,
        process_epoch=1,
        accepted_at=AT,
        ended_at=None,
    )


def conversation_of(request: RoomRequest) -> Conversation:
    """Return a new room."""
    agent, host, session = IDS.uuid(), IDS.uuid(), IDS.uuid()
    cell = Cell(configuration=request.configuration, workspace=request.workspace, placement=request.placement)
    return Conversation(
        request=request,
        room=Room(id=request.id, name=request.name or f"room-{str(request.id)[-4:]}", agent_id=agent, created_at=AT),
        session=RuntimeSession(
            id=session,
            host_id=host,
            agent_id=agent,
            state=SessionState.LIVE,
            provider_identity="thread-1",
            model=request.model,
            approvals=request.approvals or ApprovalPolicy.NEVER,
            created_at=AT,
        ),
        host=RuntimeHost(
            id=host,
            agent_id=agent,
            provider=request.provider,
            engine=request.engine or "bubblewrap",
            cell=cell,
            sandbox="jam-x",
            plan_json=f'{{"resources":{request.resources.canonical_json().decode()}}}',  # all of a plan that its tests look at
            state=HostState.ACTIVE,
            daemon_id=UUID(int=7),
            fence_epoch=1,
            created_at=AT,
        ),
        workspace=SessionWorkspace(
            id=IDS.uuid(),
            session_id=session,
            host_id=host,
            source=request.workspace,
            path=request.path,
            commit=None,
            guest_path="/jam/work/x",
            state=WorkspaceState.READY,
            created_at=AT,
        ),
    )
