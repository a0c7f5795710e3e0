"""Decides which host a new session sits on, and commits everything about it in one transaction before anything is made.

A Dedicated host is made for its session and bears its UUID. A Shared one has a UUID of its own: the first room of an agent makes it, later
ones join it if they ask for the same (SHARE-3). Two first rooms at once: the database lets one host in, and the other room joins that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import CellTable, Placement, WorkspaceSource
from jamcore.domain.errors import ConflictError, InvalidInputError
from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.plan import Plan, RuntimeHostOwner, Toolchain
from jamcore.domain.providers import PlacementAnswer, PlacementRequest
from jamcore.domain.requests import RoomRequest
from jamcore.domain.sandboxes import Resources
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
from jamcore.domain.shared_hosts import HostInputs, SharedHostContendedError, SharedHostFullError, require_compatible
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.provision import ProvisionIntent, begin_provision
from jamcore.sandbox.planning import EngineFacts, PlanInputs, plan_for, require_stored_name, session_directory
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


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
    resources: Resources = field(default_factory=Resources)
    approvals: ApprovalPolicy = ApprovalPolicy.NEVER


@dataclass(frozen=True, slots=True)
class Allocation:
    """The records of a new room, committed, and its plan. ``joined``: the host was there already."""

    room: Room
    host: RuntimeHost
    session: RuntimeSession
    workspace: SessionWorkspace
    native: HostNativeWorkspace | None
    provision: ProvisionIntent
    plan: Plan
    joined: bool


@dataclass(frozen=True, slots=True)
class GivenIds:
    """Ids that a new room has before it is planned: those that an export from elsewhere was given (WS-6)."""

    agent_id: UUID
    session_id: UUID


LOOKS = 2
"""How often the agent and its shared host are read: a second time when somebody else was faster with the first room (SHARE-1)."""


class Allocator:
    """Places new sessions on hosts."""

    def __init__(self, *, store: Store, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def allocate(self, asked: Resolved) -> Allocation:
        """Plan and commit a new room: agent, host unless it joins one, session, workspace, binding and the running provision.

        Raises:
            JamError: The plan is refused; nothing was committed.
            ConflictError: The id or the name is taken by another room (WS-11).
            SharedHostIncompatibleError, SharedHostFullError: The agent's shared host does not take this session (SHARE-3, SHARE-5).
            SharedHostContendedError: It came and went while it was looked for.
        """
        session_id = self._ids.uuid()
        for _ in range(LOOKS):
            agent = await self._agent(asked.request)
            found = await self._shared_host(asked.request, agent)
            host_id = found.id if found else self._new_host_id(asked.request, session_id)
            plan = await plan_for(
                self._inputs(asked, agent.id, host_id, session_id), hooks=asked.hooks, table=asked.table, engine=asked.engine
            )
            if found is not None:
                await self._require_place(asked, found, plan)
            allocation = self._records(asked, agent, found, session_id, plan)
            try:
                await self._store.transact(partial(_insert, agent, allocation, _begin_provision))
            except ConflictError as error:
                if error.kind not in ("agent", "host"):
                    raise
                continue  # somebody made the agent or its host in between, or archived the host: look again
            return allocation
        raise SharedHostContendedError(agent=asked.request.agent or asked.request.provider)

    async def allocate_given(self, asked: Resolved, ids: GivenIds, begin: Callable[[Repos, Allocation], None]) -> Allocation:
        """Plan and commit a new room of a new agent, with a host of its own, under given ids.

        Args:
            asked: The request; its placement is Dedicated.
            ids: The ids.
            begin: Keeps the intent of what fills the workspace, in the same transaction.

        Raises:
            JamError: The plan is refused; nothing was committed.
            ConflictError: An id or the name is taken (WS-11).
        """
        name = f"{asked.request.provider}-{str(ids.agent_id)[-6:]}"
        agent = Agent(id=ids.agent_id, name=name, provider=asked.request.provider, created_at=self._clock.now())
        inputs = self._inputs(asked, agent.id, ids.session_id, ids.session_id)
        plan = await plan_for(inputs, hooks=asked.hooks, table=asked.table, engine=asked.engine)
        allocation = self._records(asked, agent, None, ids.session_id, plan)
        await self._store.transact(partial(_insert, agent, allocation, begin))
        return allocation

    async def _agent(self, request: RoomRequest) -> Agent:
        """Return the agent that owns the hosts: the named one, or the provider's own.

        Raises:
            InvalidInputError: The name is another provider's agent, or is no name.
        """
        name = request.agent or request.provider
        if not _NAME.fullmatch(name):
            raise InvalidInputError(field="agent", problem="a name has 1 to 64 letters, digits, dots, dashes and underscores")
        found = await self._store.read(lambda repos: repos.agents.by_name(name))
        if found is not None and found.provider != request.provider:
            raise InvalidInputError(field="agent", problem=f"{name} is an agent of {found.provider}")
        return found or Agent(id=self._ids.uuid(), name=name, provider=request.provider, created_at=self._clock.now())

    async def _shared_host(self, request: RoomRequest, agent: Agent) -> RuntimeHost | None:
        if request.placement is not Placement.SHARED:
            return None
        return await self._store.read(lambda repos: repos.hosts.live_shared(agent.id))

    def _new_host_id(self, request: RoomRequest, session: UUID) -> UUID:
        """A Dedicated host is named after its only session; a Shared one after none of them (PLAN-2)."""
        return self._ids.uuid() if request.placement is Placement.SHARED else session

    async def _require_place(self, asked: Resolved, host: RuntimeHost, plan: Plan) -> None:
        """Require that the host was made with what this session asks for, and that the provider takes one more (SHARE-3, SHARE-5)."""
        stored = Plan.model_validate_json(host.plan_json)
        require_compatible(HostInputs.of(stored), HostInputs.of(plan, model=asked.request.model), ref=host.sandbox)
        require_stored_name(plan, host.sandbox)
        seats = len(await self._store.read(lambda repos: repos.leases.live_of_host(host.id)))
        await require_seat(asked.hooks, host.sandbox, seats)

    def _inputs(self, asked: Resolved, agent: UUID, host: UUID, session: UUID) -> PlanInputs:
        request = asked.request
        return PlanInputs(
            owner=RuntimeHostOwner(agent_id=agent, host_id=host),
            host_id=host,
            session_id=session,
            configuration=request.configuration,
            workspace=request.workspace,
            placement=request.placement,
            path=asked.path,
            commit=asked.commit,
            environment_files=request.environment_files,
            endpoint=request.endpoint,
            resources=asked.resources,
            toolchain=asked.toolchain,
            account_id=self._store.fence.daemon_id if _host_native(asked) else None,
        )

    def _records(self, asked: Resolved, agent: Agent, found: RuntimeHost | None, session: UUID, plan: Plan) -> Allocation:
        request, now = asked.request, self._clock.now()
        host = found or self._host(asked, agent, plan)
        workspace = SessionWorkspace(
            id=self._ids.uuid(),
            session_id=session,
            host_id=host.id,
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
                host_id=host.id,
                agent_id=agent.id,
                state=SessionState.DORMANT,
                provider_identity=None,
                model=request.model,
                approvals=asked.approvals,
                created_at=now,
            ),
            workspace=workspace,
            native=self._native(agent.id, session) if _host_native(asked) else None,
            provision=ProvisionIntent(id=self._ids.uuid(), host_id=host.id, session_id=session, workspace_id=workspace.id),
            plan=plan,
            joined=found is not None,
        )

    def _native(self, agent: UUID, session: UUID) -> HostNativeWorkspace:
        """Allocate the directory of a host-native session: an UUID of its own, never one of a sandboxed session's (WS-14)."""
        return HostNativeWorkspace(
            id=self._ids.uuid(),
            account_id=self._store.fence.daemon_id,
            agent_id=agent,
            session_id=session,
            state=WorkspaceState.PROVISIONING,
            created_at=self._clock.now(),
        )

    def _host(self, asked: Resolved, agent: Agent, plan: Plan) -> RuntimeHost:
        fence = self._store.fence
        assert isinstance(plan.owner, RuntimeHostOwner)
        return RuntimeHost(
            id=plan.owner.host_id,
            agent_id=agent.id,
            provider=asked.request.provider,
            engine=plan.engine,
            cell=plan.cell,
            sandbox=plan.name,
            plan_json=plan.canonical_json().decode(),
            state=HostState.PROVISIONING,
            daemon_id=fence.daemon_id,
            fence_epoch=fence.epoch,
            created_at=self._clock.now(),
        )


def _host_native(asked: Resolved) -> bool:
    """Whether the session gets a directory of Jam's own without a sandbox around it."""
    return asked.engine.host_native and asked.request.workspace is WorkspaceSource.MANAGED


async def require_seat(hooks: ProviderHooks, sandbox: str, seats: int) -> PlacementAnswer:
    """Ask the provider whether one more session fits on a shared host that has ``seats`` live ones.

    Raises:
        SharedHostFullError: It does not; with the provider's reason.
    """
    answer = await hooks.place_session(PlacementRequest(seats=seats))
    if not answer.accepted:
        raise SharedHostFullError(host=sandbox, seats=seats, reason=answer.reason)
    return answer


def require_same_request(room: Room, request: RoomRequest) -> None:
    """Accept a retry under an existing room id only when it asks for the same (WS-11).

    Raises:
        ConflictError: It asks for something else.
    """
    if room.request_digest != request.content_digest():
        raise ConflictError(kind="room", ref=str(room.id), problem="the id was used for another request")


def _begin_provision(repos: Repos, new: Allocation) -> None:
    begin_provision(repos, new.provision)


def _insert(agent: Agent, new: Allocation, begin: Callable[[Repos, Allocation], None], repos: Repos) -> None:
    repos.agents.insert(agent)
    repos.rooms.insert(new.room)
    if new.joined:
        live = repos.hosts.live_shared(agent.id)
        if live is None or live.id != new.host.id or repos.continuity_resets.of_source(live.id):
            raise ConflictError(kind="host", ref=str(new.host.id), problem="it is not the agent's live Shared host any more")
    else:
        repos.hosts.insert(new.host)
    repos.sessions.insert(new.session)
    repos.workspaces.insert(new.workspace)
    if new.native is not None:
        repos.host_native.insert(new.native)
    repos.bindings.insert(Binding(id=new.provision.id, room_id=new.room.id, session_id=new.session.id, live=True))
    begin(repos, new)
