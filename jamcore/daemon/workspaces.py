"""What is stored of a room's workspace, for everything that keeps it elsewhere or brings it back (WS-4, WS-5, WS-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.errors import ConflictError
from jamcore.domain.exports import ExportOrigin
from jamcore.domain.keeping import WorkspaceArchivedError, WorkspaceBusyError, WorkspaceElsewhereError
from jamcore.domain.records import Record
from jamcore.domain.sessions import Agent, Room, RuntimeHost, RuntimeSession, SessionWorkspace, WorkspaceState
from jamcore.engines.port import Engine
from jamcore.runtime.worktree import WorkTreeHiddenError, WorkTrees
from jamcore.store import Repos
from jamcore.workspace.keeping.exporting import KIND as EXPORT

A = TypeVar("A", bound=Record)


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """A session with its room, and with everything that says where its files are and whose they are."""

    room: Room
    agent: Agent
    host: RuntimeHost
    session: RuntimeSession
    workspace: SessionWorkspace

    def origin(self) -> ExportOrigin:
        """Return what an export says of where it comes from."""
        return ExportOrigin(
            agent_id=self.agent.id,
            agent_name=self.agent.name,
            host_id=self.host.id,
            session_id=self.session.id,
            room_id=self.room.id,
            room_name=self.room.name,
            provider=self.host.provider,
            engine=self.host.engine,
        )


def kept_room(repos: Repos, session: UUID) -> KeptRoom:
    """Read everything about a session."""
    stored = repos.sessions.get(session)
    return KeptRoom(
        room=repos.rooms.get(repos.bindings.of_session(session).room_id),
        agent=repos.agents.get(stored.agent_id),
        host=repos.hosts.get(stored.host_id),
        session=stored,
        workspace=repos.workspaces.of_session(session),
    )


def room_of_ref(repos: Repos, ref: str) -> KeptRoom:
    """Read everything about the session that a room is bound to."""
    return kept_room(repos, repos.bindings.live_of_room(repos.rooms.find(ref).id).session_id)


def move_workspace(repos: Repos, kept: KeptRoom, state: WorkspaceState) -> None:
    """Move a workspace, and what is its own of a host-native session; one that is there already stays."""
    if repos.workspaces.get(kept.workspace.id).state is state:
        return
    repos.workspaces.move(kept.workspace.id, state)
    if native := repos.host_native.of_session(kept.session.id):
        repos.host_native.move(native.id, state)


def asked_for(repos: Repos, kept: KeptRoom, request: UUID, kind: str, make: Callable[[UUID], A]) -> A:
    """Return the intent of what is asked for: of the operation that was begun for the same, under its id, otherwise a new one.

    Args:
        repos: The transaction.
        kept: Whose workspace.
        request: The id of the request.
        kind: Of the operation.
        make: Returns the intent under an id.

    Raises:
        ConflictError: The id was used for something else (WS-11).
        WorkspaceBusyError: Another operation of the workspace has not ended.
    """
    known = request if repos.operations.knows(request) else cut_operation(repos, kept, kind)
    intent = make(known or request)
    if known is None or repos.operations.initial(known) == intent.canonical_json().decode():
        return intent
    if known == request:
        raise ConflictError(kind="operation", ref=str(known), problem="the id was used for another request")
    raise WorkspaceBusyError(room=kept.room.name, operation=str(known), kind=kind)


def cut_operation(repos: Repos, kept: KeptRoom, kind: str) -> UUID | None:
    """Return the operation of this kind that has not ended: who repeats a command that was cut gets the rest of it.

    Raises:
        WorkspaceBusyError: Another operation of the workspace has not ended.
    """
    require_idle(repos, kept, but=kind)
    return repos.operations.unfinished_of_workspace(kept.workspace.id)


def require_idle(repos: Repos, kept: KeptRoom, *, but: str = "") -> None:
    """Require that no operation of a workspace has not ended, ``but`` one of this kind.

    Raises:
        WorkspaceBusyError: One has not.
    """
    unfinished = repos.operations.unfinished_of_workspace(kept.workspace.id)
    if unfinished is not None and (kind := repos.operations.get(unfinished).kind) != but:
        raise WorkspaceBusyError(room=kept.room.name, operation=str(unfinished), kind=kind)


def require_usable(repos: Repos, kept: KeptRoom) -> None:
    """Require that an agent may work on a workspace, in the transaction that brings its session up.

    An export lets it: whoever makes one holds the host still.

    Raises:
        WorkspaceArchivedError: Its files are in an export.
        WorkspaceBusyError: They are on their way.
    """
    if kept.workspace.state is WorkspaceState.ARCHIVED:
        raise WorkspaceArchivedError(room=kept.room.name)
    require_idle(repos, kept, but=EXPORT)


def tree_below(app: Path, trees: WorkTrees, kept: KeptRoom, engine: Engine) -> str:
    """Return where the work tree lies below the app directory.

    Raises:
        WorkspaceElsewhereError: It does not; the error says where it is.
    """
    if kept.workspace.source is WorkspaceSource.DIRECT_HOST:
        raise WorkspaceElsewhereError(room=kept.room.name, where=f"they are your own, in {kept.workspace.path}")
    try:
        return trees.locate(kept.host, kept.workspace, engine).relative_to(app.resolve()).as_posix()
    except (ValueError, WorkTreeHiddenError) as error:
        where = f"they are on the disk of the sandbox {kept.host.sandbox}, which only its guest sees"
        raise WorkspaceElsewhereError(room=kept.room.name, where=where) from error


def require_managed(kept: KeptRoom) -> None:
    """Require that the workspace is a directory that Jam made and owns, so that Jam may remove it.

    Raises:
        WorkspaceElsewhereError: It is not; the error says where the files are.
    """
    if kept.workspace.source is WorkspaceSource.MANAGED:
        return
    cloned = f"they are a private clone on the disk of the sandbox {kept.host.sandbox}, and go with that alone"
    own = kept.workspace.source is WorkspaceSource.DIRECT_HOST
    raise WorkspaceElsewhereError(room=kept.room.name, where=f"they are your own, in {kept.workspace.path}" if own else cloned)
