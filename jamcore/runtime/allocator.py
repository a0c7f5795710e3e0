"""Decides which host a new session sits on, and commits everything about it in one transaction before anything is made."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from jamcore.domain.cells import CellTable
from jamcore.domain.errors import ConflictError
from jamcore.domain.operations import Operation, OperationKind, OperationState
from jamcore.domain.plan import Plan, RuntimeHostOwner, Toolchain
from jamcore.domain.requests import RoomRequest
from jamcore.domain.sessions import (
    Agent,
    Binding,
    HostState,
    Room,
    RuntimeHost,
    RuntimeSession,
    SessionState,
    SessionWorkspace,
    WorkspaceState,
)
from jamcore.plugins.provider import ProviderHooks
from jamcore.sandbox.planning import EngineFacts, PlanInputs, plan_for, session_directory
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource


@dataclass(frozen=True, slots=True)
class Resolved:
    """A room request after everything it names was looked at: the plugin, the engine, the program, the repository's commit."""

    request: RoomRequest
    hooks: ProviderHooks
    engine: EngineFacts
    table: CellTable
    toolchain: Toolchain | None
    path: str | None
    commit: str | None


@dataclass(frozen=True, slots=True)
class Allocation:
    """The records of a new room, committed, and its plan."""

    room: Room
    host: RuntimeHost
    session: RuntimeSession
    workspace: SessionWorkspace
    operation: Operation
    plan: Plan


class Allocator:
    """Allocates Dedicated hosts: each is named after its only session (PLAN-2)."""

    def __init__(self, *, store: Store, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def allocate(self, asked: Resolved) -> Allocation:
        """Plan and commit a new room: agent, host, session, workspace, binding and the running provision operation.

        Raises:
            JamError: The plan is refused; nothing was committed.
            ConflictError: The id or the name is taken by another room (WS-11).
        """
        agent = await self._agent(asked.request.provider)
        session_id = self._ids.uuid()
        plan = await plan_for(self._inputs(asked, agent.id, session_id), hooks=asked.hooks, table=asked.table, engine=asked.engine)
        allocation = self._records(asked, agent, session_id, plan)

        def write(repos: Repos) -> None:
            _insert(repos, agent, allocation)

        await self._store.transact(write)
        return allocation

    async def _agent(self, provider: str) -> Agent:
        """Return the agent that owns this provider's hosts; one for each provider is enough until a person names more."""
        agents = await self._store.read(lambda repos: repos.agents.list())
        found = next((agent for agent in agents if agent.name == provider), None)
        return found or Agent(id=self._ids.uuid(), name=provider, provider=provider, created_at=self._clock.now())

    def _inputs(self, asked: Resolved, agent: UUID, session: UUID) -> PlanInputs:
        request = asked.request
        return PlanInputs(
            owner=RuntimeHostOwner(agent_id=agent, host_id=session),
            host_id=session,
            session_id=session,
            configuration=request.configuration,
            workspace=request.workspace,
            placement=request.placement,
            path=asked.path,
            commit=asked.commit,
            endpoint=request.endpoint,
            toolchain=asked.toolchain,
        )

    def _records(self, asked: Resolved, agent: Agent, session: UUID, plan: Plan) -> Allocation:
        request, now = asked.request, self._clock.now()
        fence = self._store.fence
        host = RuntimeHost(
            id=session,
            agent_id=agent.id,
            provider=request.provider,
            engine=plan.engine,
            cell=plan.cell,
            sandbox=plan.name,
            plan_json=plan.canonical_json().decode(),
            state=HostState.PROVISIONING,
            daemon_id=fence.daemon_id,
            fence_epoch=fence.epoch,
            created_at=now,
        )
        workspace = SessionWorkspace(
            id=self._ids.uuid(),
            session_id=session,
            host_id=session,
            source=request.workspace,
            path=asked.path,
            commit=asked.commit,
            guest_path=session_directory(session),
            state=WorkspaceState.PROVISIONING,
            created_at=now,
        )
        return Allocation(
            room=Room(
                id=request.id,
                name=request.name or f"{request.provider}-{str(request.id)[-6:]}",
                agent_id=agent.id,
                request_digest=request.content_digest(),
                created_at=now,
            ),
            host=host,
            session=RuntimeSession(
                id=session,
                host_id=session,
                agent_id=agent.id,
                state=SessionState.DORMANT,
                provider_identity=None,
                model=request.model,
                created_at=now,
            ),
            workspace=workspace,
            operation=Operation(
                id=self._ids.uuid(),
                workspace_id=workspace.id,
                host_id=session,
                session_id=session,
                kind=OperationKind.PROVISION,
                state=OperationState.RUNNING,
                result="",
                daemon_id=fence.daemon_id,
                fence_epoch=fence.epoch,
                started_at=now,
                ended_at=None,
            ),
            plan=plan,
        )


def require_same_request(room: Room, request: RoomRequest) -> None:
    """Accept a retry under an existing room id only when it asks for the same (WS-11).

    Raises:
        ConflictError: It asks for something else.
    """
    if room.request_digest != request.content_digest():
        raise ConflictError(kind="room", ref=str(room.id), problem="the id was used for another request")


def _insert(repos: Repos, agent: Agent, new: Allocation) -> None:
    repos.agents.insert(agent)
    repos.rooms.insert(new.room)
    repos.hosts.insert(new.host)
    repos.sessions.insert(new.session)
    repos.workspaces.insert(new.workspace)
    repos.bindings.insert(Binding(id=new.operation.id, room_id=new.room.id, session_id=new.session.id, live=True))
    repos.operations.upsert(new.operation)
