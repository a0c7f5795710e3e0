"""Agents, hosts, sessions, workspaces, leases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import ColumnElement, RowMapping, Table, bindparam, delete, insert, select, update

from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalState
from jamcore.domain.cells import Cell
from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.operations import UNFINISHED
from jamcore.domain.reconciling import WorkspacePlace
from jamcore.domain.sessions import (
    HOST,
    SESSION,
    WORKSPACE,
    Agent,
    HostState,
    RuntimeHost,
    RuntimeSession,
    SessionState,
    SessionWorkspace,
    WorkspaceState,
)
from jamcore.store.errors import FencedError
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.tables.approvals import APPROVALS
from jamcore.store.tables.host_native import HOST_NATIVE_WORKSPACES
from jamcore.store.tables.hosts import AGENTS, BINDINGS, HOSTS, LEASES, SESSIONS, WORKSPACES
from jamcore.store.tables.operations import OPERATIONS


class Agents(Repository):
    """Identities that own hosts."""

    table, kind = AGENTS, "agent"

    def insert(self, agent: Agent) -> Agent:
        """Keep an agent; the same again is fine.

        Raises:
            ConflictError: The id or the name is another agent's.
        """
        self._insert_once(agent.id, agent.model_dump(), compare=("name", "provider"), taken="another agent has the name")
        return self.get(agent.id)

    def get(self, identifier: UUID) -> Agent:
        """Return an agent."""
        return read_row(Agent, self._need(self._by_id(identifier), identifier))

    def by_name(self, name: str) -> Agent | None:
        """Return the agent of a name."""
        row = self._one(AGENTS.c.name == name)
        return None if row is None else read_row(Agent, row)

    def list(self) -> tuple[Agent, ...]:
        """Return all agents by name."""
        return tuple(read_row(Agent, row) for row in self._rows(order=[AGENTS.c.name]))


class Hosts(Repository):
    """Runtime hosts; every change is conditional on the fence."""

    table, kind = HOSTS, "host"

    def insert(self, host: RuntimeHost) -> RuntimeHost:
        """Keep a new host; it belongs to this daemon.

        Raises:
            ConflictError: The id or the sandbox name is another host's, or the agent has a live Shared host already: read it by
                :meth:`live_shared` in the same transaction and go on with the winner (SHARE-1).
        """
        values = (
            host.model_dump()
            | self._ownership()
            | {
                "cell": host.cell.canonical_json().decode(),
                "placement": host.cell.placement.value,
                "state": host.state.value,
            }
        )
        same = ("agent_id", "provider", "engine", "cell", "sandbox", "plan_json")
        self._insert_once(host.id, values, compare=same, taken="the agent has a live Shared host, or the sandbox name is taken")
        return self.get(host.id)

    def get(self, identifier: UUID) -> RuntimeHost:
        """Return a host."""
        return _host(self._need(self._by_id(identifier), identifier))

    def list(self) -> tuple[RuntimeHost, ...]:
        """Return all hosts, oldest first."""
        return tuple(_host(row) for row in self._rows(order=[HOSTS.c.created_at, HOSTS.c.id]))

    def own(self) -> tuple[RuntimeHost, ...]:
        """Return this daemon's hosts, oldest first: of no other's can its engines and its app directory say anything."""
        mine = HOSTS.c.daemon_id == self._context.fence.daemon_id
        return tuple(_host(row) for row in self._rows(mine, order=[HOSTS.c.created_at, HOSTS.c.id]))

    def of_others(self) -> frozenset[str]:
        """Return the names of the sandboxes of other daemons' hosts that were not removed."""
        theirs = HOSTS.c.daemon_id != self._context.fence.daemon_id
        query = select(HOSTS.c.sandbox).where(theirs, HOSTS.c.state != HostState.REMOVED.value)
        return frozenset(self._connection.execute(query).scalars())

    def require_own(self, host: RuntimeHost) -> RuntimeHost:
        """Return a host that is this daemon's.

        Raises:
            FencedError: It is another daemon's.
        """
        if host.daemon_id != self._context.fence.daemon_id:
            raise FencedError(kind=self.kind, ref=host.sandbox)
        return host

    def ids(self, *, daemon: UUID | None = None) -> tuple[UUID, ...]:
        """Return the ids of all hosts, or of one daemon's, oldest first. No row is read: a damaged one hides no other (START-1)."""
        where = () if daemon is None else (HOSTS.c.daemon_id == daemon,)
        query = select(HOSTS.c.id).where(*where).order_by(HOSTS.c.created_at, HOSTS.c.id)
        return tuple(self._connection.execute(query).scalars())

    def left_live(self) -> tuple[UUID, ...]:
        """Return the ids of this daemon's hosts that are not known to be down, oldest first: after a start, what a dead life left.

        That is a host in any state but the lasting ones, or with a live session, a lease or a question that is open. No row is read: a
        damaged one hides no other (START-1).
        """
        down = [state.value for state in (HostState.PARKED, HostState.ARCHIVED, HostState.REMOVED)]
        seated = select(SESSIONS.c.host_id).where(SESSIONS.c.state != SessionState.DORMANT.value)
        asking = select(APPROVALS.c.session_id).where(APPROVALS.c.state == ApprovalState.PENDING.value)
        asked = select(SESSIONS.c.host_id).where(SESSIONS.c.id.in_(asking))
        left = HOSTS.c.state.not_in(down) | HOSTS.c.id.in_(seated.union(select(LEASES.c.host_id), asked))
        query = select(HOSTS.c.id).where(HOSTS.c.daemon_id == self._context.fence.daemon_id, left)
        return tuple(self._connection.execute(query.order_by(HOSTS.c.created_at, HOSTS.c.id)).scalars())

    def unreadable(self) -> tuple[UUID, ...]:
        """Return the ids of this daemon's hosts whose cell or state cannot be read, so that a start can name them (START-1).

        Cells are few, and each is read once.
        """
        query = select(HOSTS.c.id, HOSTS.c.cell, HOSTS.c.state).where(HOSTS.c.daemon_id == self._context.fence.daemon_id)
        rows = self._connection.execute(query.order_by(HOSTS.c.created_at, HOSTS.c.id)).all()
        sound = {cell for cell in {row.cell for row in rows} if _is_cell(cell)}
        return tuple(row.id for row in rows if row.cell not in sound or row.state not in set(HostState))

    def live_shared(self, agent: UUID) -> RuntimeHost | None:
        """Return the agent's live Shared host."""
        gone = (HostState.ARCHIVED.value, HostState.REMOVED.value)
        row = self._one((HOSTS.c.agent_id == agent) & (HOSTS.c.placement == "shared") & HOSTS.c.state.not_in(gone))
        return None if row is None else _host(row)

    def move(self, identifier: UUID, new: HostState) -> RuntimeHost:
        """Move a host along its table.

        Raises:
            NotFoundError, FencedError, IllegalTransitionError: Why it was not moved.
            ConflictError: It would be the agent's second live Shared host (SHARE-1, WS-6).
        """
        with self._unless_taken(identifier, "the agent has a live Shared host"):
            return _host(self._move(identifier, HOST, new, {}, fenced=True))


_BOUND = (
    select(SESSIONS, HOSTS, WORKSPACES)
    .select_from(BINDINGS)
    .join(SESSIONS, SESSIONS.c.id == BINDINGS.c.session_id)
    .join(HOSTS, HOSTS.c.id == SESSIONS.c.host_id)
    .join(WORKSPACES, WORKSPACES.c.session_id == SESSIONS.c.id)
    .where(BINDINGS.c.room_id == bindparam("room"), BINDINGS.c.live)
)


class Sessions(Repository):
    """Seats on hosts."""

    table, kind = SESSIONS, "session"

    def insert(self, session: RuntimeSession) -> RuntimeSession:
        """Keep a new session."""
        values = session.model_dump() | {"state": session.state.value, "approvals": session.approvals.value}
        self._insert_once(session.id, values, compare=("host_id", "agent_id", "model", "approvals"))
        return self.get(session.id)

    def get(self, identifier: UUID) -> RuntimeSession:
        """Return a session."""
        return read_row(RuntimeSession, self._need(self._by_id(identifier), identifier))

    def of_host(self, host: UUID) -> tuple[RuntimeSession, ...]:
        """Return a host's sessions, oldest first."""
        rows = self._rows(SESSIONS.c.host_id == host, order=[SESSIONS.c.created_at, SESSIONS.c.id])
        return tuple(read_row(RuntimeSession, row) for row in rows)

    def bound_to(self, room: UUID) -> tuple[RuntimeSession, RuntimeHost, SessionWorkspace]:
        """Return the session that a room is bound to, with its host and its workspace: one look instead of four.

        Raises:
            NotFoundError: The room has no live binding.
        """
        row = self._need(self._connection.execute(_BOUND, {"room": room}).mappings().one_or_none(), room)
        session, host, workspace = (_part(row, table) for table in (SESSIONS, HOSTS, WORKSPACES))
        return read_row(RuntimeSession, session), _host(host), read_row(SessionWorkspace, workspace)

    def bind_identity(self, identifier: UUID, identity: str) -> RuntimeSession:
        """Bind the provider's id, once and for ever (CONT-1).

        Raises:
            ConflictError: Another one is bound.
        """
        session = self.get(identifier)
        if session.provider_identity is None:
            unbound = (SESSIONS.c.id == identifier) & SESSIONS.c.provider_identity.is_(None)
            self._connection.execute(update(SESSIONS).where(unbound).values(provider_identity=identity))
            session = self.get(identifier)
        if session.provider_identity != identity:
            raise ConflictError(kind="session", ref=str(identifier), problem="it is bound to another provider identity")
        return session

    def move(self, identifier: UUID, new: SessionState) -> RuntimeSession:
        """Move a session along its table."""
        return read_row(RuntimeSession, self._move(identifier, SESSION, new, {}))


_PLACES = (
    select(
        WORKSPACES.c.id,
        WORKSPACES.c.session_id,
        HOSTS.c.id,
        HOSTS.c.agent_id,
        HOSTS.c.provider,
        HOSTS.c.sandbox,
        WORKSPACES.c.source,
        HOSTS.c.created_at,
        HOST_NATIVE_WORKSPACES.c.account_id,
    )
    .join(HOSTS, HOSTS.c.id == WORKSPACES.c.host_id)
    .outerjoin(HOST_NATIVE_WORKSPACES, HOST_NATIVE_WORKSPACES.c.session_id == WORKSPACES.c.session_id)
    .order_by(WORKSPACES.c.created_at, WORKSPACES.c.id)
)


def _place(row: Sequence[Any]) -> WorkspacePlace:
    workspace, session, host, agent, provider, sandbox, source, created_at, account = row
    return WorkspacePlace(
        workspace_id=workspace,
        session_id=session,
        host_id=host,
        agent_id=agent,
        provider=provider,
        sandbox=sandbox,
        source=source,
        created_at=created_at,
        native=layout.host_native_sessions(account, agent) if account else None,
    )


class Workspaces(Repository):
    """Session workspaces."""

    table, kind = WORKSPACES, "workspace"

    def insert(self, workspace: SessionWorkspace) -> SessionWorkspace:
        """Keep a new workspace."""
        values = workspace.model_dump() | {"state": workspace.state.value, "source": workspace.source.value}
        same = ("session_id", "host_id", "source", "path", "commit", "guest_path")
        self._insert_once(workspace.id, values, compare=same, taken="the session has a workspace")
        return self.get(workspace.id)

    def get(self, identifier: UUID) -> SessionWorkspace:
        """Return a workspace."""
        return read_row(SessionWorkspace, self._need(self._by_id(identifier), identifier))

    def of_session(self, session: UUID) -> SessionWorkspace:
        """Return the workspace of a session."""
        return read_row(SessionWorkspace, self._need(self._one(WORKSPACES.c.session_id == session), session))

    def usable_places(self) -> tuple[WorkspacePlace, ...]:
        """Return the places of this daemon's workspaces that are Ready and that no operation holds, oldest first.

        It is one statement for all: a start reads it for thousands.
        """
        return tuple(_place(row) for row in self._connection.execute(_PLACES.where(*self._usable())))

    def usable_ids(self) -> tuple[UUID, ...]:
        """Return the ids of the same, for a start that finds a damaged row among them (START-1)."""
        query = _PLACES.with_only_columns(WORKSPACES.c.id).where(*self._usable())
        return tuple(self._connection.execute(query).scalars())

    def _usable(self) -> tuple[ColumnElement[bool], ...]:
        unfinished = OPERATIONS.c.state.in_([state.value for state in UNFINISHED])
        held = select(OPERATIONS.c.workspace_id).where(OPERATIONS.c.workspace_id.is_not(None), unfinished)
        return (
            HOSTS.c.daemon_id == self._context.fence.daemon_id,
            HOSTS.c.state.not_in([HostState.REMOVED.value, HostState.ARCHIVED.value]),
            WORKSPACES.c.state == WorkspaceState.READY.value,
            WORKSPACES.c.id.not_in(held),
        )

    def place(self, identifier: UUID) -> WorkspacePlace:
        """Return the place of a workspace, whatever its state."""
        row = self._connection.execute(_PLACES.where(WORKSPACES.c.id == identifier)).one_or_none()
        if row is None:
            raise NotFoundError(kind=self.kind, ref=str(identifier))
        return _place(row)

    def move(self, identifier: UUID, new: WorkspaceState) -> SessionWorkspace:
        """Move a workspace along its table."""
        return read_row(SessionWorkspace, self._move(identifier, WORKSPACE, new, {}))


class Leases(Repository):
    """Which sessions hold a host live (SHARE-2)."""

    table, kind = LEASES, "lease"

    def acquire(self, host: UUID, session: UUID) -> None:
        """Take a lease for this daemon; taking it again is fine.

        Raises:
            NotFoundError: There is no such host.
            FencedError: The host or the lease is another daemon's.
        """
        query = select(HOSTS.c.daemon_id, HOSTS.c.fence_epoch).where(HOSTS.c.id == host).with_for_update(read=True)
        self._require_ours(self._need(self._connection.execute(query).mappings().one_or_none(), host), host)
        held = self._one((LEASES.c.host_id == host) & (LEASES.c.session_id == session))
        if held is not None:
            self._require_ours(held, host)
            return
        self._connection.execute(insert(LEASES).values(host_id=host, session_id=session, **self._ownership()))

    def release(self, host: UUID, session: UUID) -> None:
        """Give a lease back; one that is not held is fine."""
        self._connection.execute(delete(LEASES).where(LEASES.c.host_id == host, LEASES.c.session_id == session, *self._fence()))

    def live_of_host(self, host: UUID) -> tuple[UUID, ...]:
        """Return the sessions that hold the host."""
        query = select(LEASES.c.session_id).where(LEASES.c.host_id == host, *self._fence())
        return tuple(self._connection.execute(query).scalars())


def _part(row: RowMapping, table: Table) -> dict[str, Any]:
    """Return one table's columns of a joined row."""
    return {column.name: row[column] for column in table.c}


def _is_cell(text: str) -> bool:
    try:
        Cell.model_validate_json(text)
    except ValidationError:
        return False
    return True


def _host(row: Mapping[Any, Any]) -> RuntimeHost:
    return read_row(RuntimeHost, row, cell=Cell.model_validate_json(row["cell"]))
