"""What stands against a fresh start of a host, as far as the store knows (CONT-9, WS-6)."""

from __future__ import annotations

from uuid import UUID

from jamcore.daemon.reset_plan import source_sessions
from jamcore.domain.sessions import HostState, RuntimeHost, WorkspaceState
from jamcore.store import Repos
from jamcore.workspace.keeping.archiving import KIND as ARCHIVE
from jamcore.workspace.keeping.recovering import KIND as RECOVER
from jamcore.workspace.keeping.restoring import KIND as RESTORE

IN_USE = "a room of it is live, or comes up: while it lives its next turn makes a new checkpoint, and nothing needs to be given up"
MOVES_FILES = frozenset({ARCHIVE, RESTORE, RECOVER})
"""Kinds that take the files of a workspace away, or put them in their place."""


def standing_against(host_id: UUID, repos: Repos) -> tuple[RuntimeHost, str]:
    """Return a host, and why its conversations cannot be started afresh now; empty when nothing stands against it."""
    host = repos.hosts.get(host_id)
    return host, IN_USE if repos.leases.live_of_host(host_id) else _not_down(host) or _not_in_place(host, repos)


def _not_in_place(host: RuntimeHost, repos: Repos) -> str:
    """Say why a fresh start could not take its files along: an export is of the workspace that a room has, and of no later one."""
    if repos.host_cleanups.unfinished(host.id) is not None:
        return "a clean-up of it was begun"
    for source in source_sessions(repos, host.id):
        name = repos.rooms.get(source.binding.room_id).name
        if source.workspace.state is WorkspaceState.ARCHIVED:
            return f"the workspace of {name} is archived: bring it back first with `jam workspace restore {name}`"
        held = repos.operations.unfinished_of_workspace(source.workspace.id)
        if held is not None and repos.operations.get(held).kind in MOVES_FILES:
            return f"the operation {held} on the workspace of {name} has not ended"
    return ""


def _not_down(host: RuntimeHost) -> str:
    if host.state in (HostState.PARKED, HostState.PROVISIONING):
        return ""
    if host.state is HostState.ARCHIVED:
        return "its conversations were started afresh already"
    return "its sandbox is not parked yet; `jam daemon restart` parks it if it stays so"
