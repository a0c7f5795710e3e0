"""Which export may be brought back to a room, as far as the store knows (WS-6)."""

from __future__ import annotations

from uuid import UUID

from jamcore.daemon.removed_hosts import require_there
from jamcore.daemon.workspaces import KeptRoom, cut_operation, require_managed, room_of_ref
from jamcore.domain.cells import Placement
from jamcore.domain.errors import ConflictError
from jamcore.domain.keeping import ExportNotUsableError, RestoreRequest, WorkspaceNotArchivedError
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.sessions import WorkspaceState
from jamcore.store import Repos
from jamcore.workspace.keeping.restoring import KIND, RestoreIntent


def begun_restore(ref: str, request: RestoreRequest, repos: Repos) -> RestoreIntent:
    """Return the intent of what is asked for: of the restore that was begun already, otherwise a new one.

    Raises:
        JamError: As :meth:`Restores.restore`.
    """
    kept = room_of_ref(repos, ref)
    require_managed(kept)
    known = request.id if repos.operations.knows(request.id) else cut_operation(repos, kept, KIND)
    if known is not None:
        begun = repos.operations.get(known)
        asked = repos.exports.find(request.export).id if request.export else begun.export_id
        if (begun.kind, begun.session_id, begun.export_id) != (KIND, kept.session.id, asked):
            raise ConflictError(kind="operation", ref=str(known), problem="it was begun for something else")
        return RestoreIntent.model_validate_json(repos.operations.initial(known) or "")
    require_there(repos, kept.host)
    if kept.workspace.state is not WorkspaceState.ARCHIVED:
        raise WorkspaceNotArchivedError(room=kept.room.name, state=kept.workspace.state)
    intent = RestoreIntent(
        id=request.id,
        room_id=kept.room.id,
        host_id=kept.host.id,
        session_id=kept.session.id,
        workspace_id=kept.workspace.id,
        export_id=_chosen(repos, kept, request.export),
    )
    usable_export(intent, kept, repos)
    return intent


def _chosen(repos: Repos, kept: KeptRoom, ref: str | None) -> UUID:
    if ref is not None:
        return repos.exports.find(ref).id
    exports = (each.id for each in repos.exports.of_workspace(kept.workspace.id) if not _unusable(each, kept))
    if (newest := next(exports, None)) is None:
        raise ExportNotUsableError(export="-", problem=f"there is none of the workspace of {kept.room.name}")
    return newest


def _unusable(export: KeptExport, kept: KeptRoom) -> str:
    """Return why an export cannot be brought back to a room; empty when it can. Its owner never changes (WS-6)."""
    owner = (export.agent_id, export.host_id, export.session_id, export.workspace_id)
    if export.maker is not ExportMaker.HERE or owner != (kept.agent.id, kept.host.id, kept.session.id, kept.workspace.id):
        return "it is of another workspace"
    return "" if export.state is ExportState.PUBLISHED else f"it is {export.state}"


def usable_export(intent: RestoreIntent, kept: KeptRoom, repos: Repos) -> KeptExport:
    """Return the export.

    Raises:
        ExportNotUsableError: It is not this workspace's, or not there.
        HostRemovedError: The host was removed, and the room's place with it.
        ConflictError: Another Shared host of the agent lives.
        CleanupUnfinishedError: The host is on its way out: what came back would go with it.
    """
    export = repos.exports.get(intent.export_id)
    if problem := _unusable(export, kept):
        raise ExportNotUsableError(export=str(export.id), problem=problem)
    require_there(repos, kept.host)
    live = repos.hosts.live_shared(kept.agent.id) if kept.host.cell.placement is Placement.SHARED else None
    if live is not None and live.id != kept.host.id:
        raise ConflictError(
            kind="host", ref=kept.host.sandbox, problem=f"the agent has another live shared sandbox: {live.sandbox}"
        )
    return export
