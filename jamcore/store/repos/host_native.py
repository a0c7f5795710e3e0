"""Work directories of host-native sessions (WS-14)."""

from __future__ import annotations

from uuid import UUID

from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.sessions import WORKSPACE, WorkspaceState
from jamcore.store.repos.base import Repository, read_row
from jamcore.store.tables.host_native import HOST_NATIVE_WORKSPACES


class HostNativeWorkspaces(Repository):
    """Allocations of host-native sessions; no other repository knows them."""

    table, kind = HOST_NATIVE_WORKSPACES, "host-native workspace"

    def insert(self, workspace: HostNativeWorkspace) -> HostNativeWorkspace:
        """Keep a new allocation."""
        values = workspace.model_dump() | {"state": workspace.state.value}
        same = ("account_id", "agent_id", "session_id")
        self._insert_once(workspace.id, values, compare=same, taken="the session has a host-native workspace")
        return read_row(HostNativeWorkspace, self._need(self._by_id(workspace.id), workspace.id))

    def of_session(self, session: UUID) -> HostNativeWorkspace | None:
        """Return the allocation of a session; ``None`` for a sandboxed one, and for one that works on a person's own directory."""
        row = self._one(HOST_NATIVE_WORKSPACES.c.session_id == session)
        return None if row is None else read_row(HostNativeWorkspace, row)

    def list(self) -> tuple[HostNativeWorkspace, ...]:
        """Return all, oldest first."""
        order = [HOST_NATIVE_WORKSPACES.c.created_at, HOST_NATIVE_WORKSPACES.c.id]
        return tuple(read_row(HostNativeWorkspace, row) for row in self._rows(order=order))

    def move(self, identifier: UUID, new: WorkspaceState) -> HostNativeWorkspace:
        """Move an allocation along the table of workspaces."""
        return read_row(HostNativeWorkspace, self._move(identifier, WORKSPACE, new, {}))
