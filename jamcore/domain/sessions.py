"""Agents, hosts, sessions, rooms, workspaces, turns: the records and the tables of what may follow what (WS-15, CONT-11)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Cell, WorkspaceSource
from jamcore.domain.records import Record
from jamcore.domain.transitions import TransitionTable


class HostState(StrEnum):
    """A runtime host's life."""

    PROVISIONING = "provisioning"
    ACTIVE = "active"
    PARKED = "parked"
    ARCHIVED = "archived"
    REMOVED = "removed"


HOST = TransitionTable(
    "host",
    {
        HostState.PROVISIONING: frozenset({HostState.ACTIVE, HostState.PARKED}),
        HostState.ACTIVE: frozenset({HostState.PARKED}),
        HostState.PARKED: frozenset({HostState.ACTIVE, HostState.ARCHIVED, HostState.REMOVED}),
        HostState.ARCHIVED: frozenset({HostState.PARKED, HostState.REMOVED}),
        HostState.REMOVED: frozenset(),
    },
)


class SessionState(StrEnum):
    """A session's seat on its host: LIVE while a worker may route to it, DORMANT otherwise."""

    LIVE = "live"
    DORMANT = "dormant"


SESSION = TransitionTable(
    "session",
    {
        SessionState.LIVE: frozenset({SessionState.DORMANT}),
        SessionState.DORMANT: frozenset({SessionState.LIVE}),
    },
)


class WorkspaceState(StrEnum):
    """A session workspace's life (WS-15)."""

    PLANNED = "planned"
    PROVISIONING = "provisioning"
    READY = "ready"
    RECOVERING = "recovering"
    PROVISION_FAILED = "provision-failed"
    NEEDS_RECONCILIATION = "needs-reconciliation"
    REMOVAL_BLOCKED = "removal-blocked"
    ARCHIVED = "archived"


_W = WorkspaceState
WORKSPACE = TransitionTable(
    "workspace",
    {
        _W.PLANNED: frozenset({_W.PROVISIONING}),
        _W.PROVISIONING: frozenset({_W.READY, _W.PROVISION_FAILED, _W.NEEDS_RECONCILIATION}),
        _W.READY: frozenset({_W.RECOVERING, _W.NEEDS_RECONCILIATION, _W.REMOVAL_BLOCKED, _W.ARCHIVED}),
        _W.RECOVERING: frozenset({_W.READY, _W.NEEDS_RECONCILIATION, _W.ARCHIVED}),
        _W.PROVISION_FAILED: frozenset({_W.PROVISIONING}),
        _W.NEEDS_RECONCILIATION: frozenset({_W.RECOVERING, _W.READY}),
        _W.REMOVAL_BLOCKED: frozenset({_W.READY, _W.ARCHIVED}),
        _W.ARCHIVED: frozenset({_W.RECOVERING}),
    },
)


class TurnState(StrEnum):
    """What Jam knows of a turn (CONT-11). Only CAPTURED reads as safe."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    COMPLETED = "completed"
    CAPTURED = "captured"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    CUT = "cut"


_T = TurnState
TURN = TransitionTable(
    "turn",
    {
        _T.ACCEPTED: frozenset({_T.RUNNING, _T.FAILED, _T.INTERRUPTED, _T.CUT}),
        _T.RUNNING: frozenset({_T.COMPLETED, _T.INTERRUPTED, _T.FAILED, _T.CUT}),
        _T.COMPLETED: frozenset({_T.CAPTURED, _T.CUT}),
        _T.CAPTURED: frozenset(),
        _T.INTERRUPTED: frozenset(),
        _T.FAILED: frozenset(),
        _T.CUT: frozenset(),
    },
)


class Agent(Record):
    """An identity that owns hosts."""

    id: UUID
    name: str
    provider: str
    created_at: datetime


class RuntimeHost(Record):
    """One sandbox and what lives in it. ``plan_json`` is the exact stored plan; ``sandbox`` its derived name (PLAN-6)."""

    id: UUID
    agent_id: UUID
    provider: str
    engine: str
    cell: Cell
    sandbox: str
    plan_json: str
    state: HostState
    daemon_id: UUID
    fence_epoch: int
    created_at: datetime


class RuntimeSession(Record):
    """One room's seat on a host. ``provider_identity`` is bound once and never changes (CONT-1)."""

    id: UUID
    host_id: UUID
    agent_id: UUID
    state: SessionState
    provider_identity: str | None
    model: str | None
    approvals: ApprovalPolicy = ApprovalPolicy.NEVER
    created_at: datetime


class SessionWorkspace(Record):
    """The directory a session owns, or the path it works on."""

    id: UUID
    session_id: UUID
    host_id: UUID
    source: WorkspaceSource
    path: str | None
    commit: str | None
    guest_path: str
    state: WorkspaceState
    created_at: datetime


class Room(Record):
    """A conversation. ``request_digest`` is of the request that made it: a retry under its id must ask for the same (WS-11)."""

    id: UUID
    name: str
    agent_id: UUID
    created_at: datetime
    request_digest: str = ""


class Binding(Record):
    """A room's connection with a session; one live binding per room."""

    id: UUID
    room_id: UUID
    session_id: UUID
    live: bool


class Turn(Record):
    """One exchange: accepted → running → completed → captured, or how it ended otherwise.

    ``id`` is minted by the client, which is what makes a retry exact. ``provider_turn`` is the provider's own id, known from RUNNING on.
    ``checkpoint_id`` is the generation that holds it, once CAPTURED. ``workspace_digest`` is the work tree's state at its end.
    """

    id: UUID
    room_id: UUID
    session_id: UUID
    text: str
    state: TurnState
    provider_turn: str | None
    detail: str
    checkpoint_id: UUID | None
    workspace_digest: str | None
    process_epoch: int
    accepted_at: datetime
    ended_at: datetime | None
