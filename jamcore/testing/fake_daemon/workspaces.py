"""The fake's workspaces: one of a room called ``bad…`` needs a person, into one of ``dark…`` nobody can look; the others are sound."""

from __future__ import annotations

from jamcore.domain.reconciling import ManifestState, PlaceFound
from jamcore.domain.removal import RemovalBlocker, RemovalInspection, RemovalLosses, RemovalReason
from jamcore.domain.sessions import WorkspaceState
from jamcore.domain.workspace_care import NotRecoverableError, RecoverRequest, RecoverResult, RecoveryWay, WorkspaceView
from jamcore.testing.fake_daemon.exports import kept_export
from jamcore.testing.fake_daemon.operations import CUT
from jamcore.testing.fake_daemon.state import Part

_NOTHING = RemovalLosses(
    uncommitted=1, untracked=0, ignored=0, stashes=0, unpushed=0, tagged=0, forgotten=0, outside=0, files=3, bytes=4096
)
_BLOCKER = RemovalBlocker(reason=RemovalReason.UNCOMMITTED, path="src\x1b[2J", detail="1 path differs")


class FakeWorkspaces(Part):
    """Answers by the room's name."""

    async def inspect(self, ref: str) -> WorkspaceView:
        """See :class:`~jamcore.daemon.workspace_service.WorkspaceService`."""
        await self.fake.note("inspect_workspace", ref)
        room = self.fake.find(ref)
        bad, dark = (room.room.name.startswith(word) for word in ("bad", "dark"))
        inspection = RemovalInspection(losses=_NOTHING, blockers=(_BLOCKER,) if bad else ())
        state = WorkspaceState.NEEDS_RECONCILIATION if bad else WorkspaceState.READY
        return WorkspaceView(
            room=room.room.name,
            workspace=room.workspace.model_copy(update={"state": state}),
            host_state=room.host.state,
            sandbox=room.host.sandbox,
            live=False,
            path="/jam/work",
            place=PlaceFound(manifest=ManifestState.UNREADABLE if bad else ManifestState.SOUND, directory=True),
            manifest_path="/jam/manifest.json",
            manifest_found="\x1b[2Jno manifest" if bad else "",
            inspection=None if dark else inspection,
            inspection_problem="storage.full: detail=\x1b[2J" if dark else "",
            confirms_archive="" if bad or dark else "c" * 64,
            unfinished=CUT if bad else None,
            kept_aside=("manifest.json.found-20260101T000000Z-0",) if bad else (),
            next=("jam workspace recover ROOM retry",) if bad else ("jam resume ROOM",),
        )

    async def recover(self, ref: str, request: RecoverRequest) -> RecoverResult:
        """See :class:`~jamcore.daemon.workspace_service.WorkspaceService`."""
        await self.fake.note("recover_workspace", request)
        room = self.fake.find(ref)
        if request.way is RecoveryWay.RESTORE_LATEST and not room.room.name.startswith("bad"):
            raise NotRecoverableError(room=room.room.name, problem="there is no sound export of it (none was made)")
        export = kept_export(room, request.id).id if request.way is not RecoveryWay.RETRY else None
        kept = "kept-workspace-20260101T000000Z-0" if request.way is RecoveryWay.RESTORE_LATEST else ""
        return RecoverResult(
            room=room.room.name, way=request.way, state=WorkspaceState.READY, said="done", export_id=export, kept_aside=kept
        )
