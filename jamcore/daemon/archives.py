"""Archives of workspaces as clients ask for them: the plan, and the archive on a person's word (WS-4, WS-10, WS-16)."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from jamcore.daemon.archive_sources import ArchiveMaking, size_of
from jamcore.daemon.removed_hosts import require_there
from jamcore.daemon.workspaces import KeptRoom, asked_for, require_managed, room_of_ref
from jamcore.domain.exports import ExportedKind, Listed
from jamcore.domain.keeping import (
    ArchivePlan,
    ArchiveQuestion,
    ArchiveRequest,
    ArchiveResult,
    KeptBytes,
    WorkspaceArchivedError,
)
from jamcore.domain.kept_exports import ExportState, KeptExport
from jamcore.domain.sessions import WorkspaceState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.runtime.provision import WorkspaceNotReadyError
from jamcore.store import Repos, Store
from jamcore.system.files import StorageFailedError
from jamcore.workspace.exports.survey import ON_REQUEST, Named, Survey
from jamcore.workspace.keeping.archiving import KIND, ArchiveIntent, archive_action

USABLE = (WorkspaceState.READY, WorkspaceState.REMOVAL_BLOCKED)


class Archives:
    """See :class:`~jamcore.daemon.services.ArchiveService`; adds the journaled archive to ``actions``."""

    def __init__(
        self,
        *,
        store: Store,
        archiving: ArchiveMaking,
        pool: WorkerPool,
        gate: StopGate,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._store = store
        self._archiving = archiving
        self._pool = pool
        self._gate = gate
        self._runner = runner
        self._action = archive_action(archiving)
        actions.register(self._action)

    async def plan(self, ref: str, question: ArchiveQuestion) -> ArchivePlan:
        """Return what an archive would take away, and what stands against it. Changes nothing.

        Raises:
            WorkspaceElsewhereError: Jam does not own the files; the error says where they are.
            WorkspaceArchivedError, WorkspaceNotReadyError, HostRemovedError: There is nothing to archive.
            NothingToOverrideError, NotLeftOutError: An option names what is not there.
        """
        kept = await self._store.read(partial(_archivable, ref))
        live = self._pool.get(kept.host.id, kept.session.id) is not None
        evidence = await self._archiving.evidence(kept, question.retention, question.leave_out)
        evidence.inspection.require_meant(question.overrides)
        standing = evidence.inspection.standing(question.overrides)
        seen = await self._survey(kept, question.leave_out)
        refused = tuple(seen.refused.first)
        exports = await self._store.read(lambda repos: repos.exports.of_workspace(kept.workspace.id))
        return ArchivePlan(
            evidence=evidence,
            standing=standing,
            live=live,
            holds=seen.totals(),
            left_out=_left_out(seen),
            not_exportable=refused,
            exports_that_stay=_staying(exports, evidence.exports_that_go),
            digest="" if live or standing or refused else evidence.content_digest(),
        )

    async def archive(self, ref: str, request: ArchiveRequest) -> ArchiveResult:
        """Archive what was confirmed. An exact retry changes nothing and returns the same; one that was cut is finished.

        Raises:
            WorkspaceElsewhereError, WorkspaceArchivedError, WorkspaceNotReadyError: There is nothing of Jam's to archive.
            WorkspaceBusyError: Another operation of the workspace has not ended.
            RemovalEvidenceChangedError, OtherPlanError: The work tree is not what was confirmed, or a plan with other options was.
            NothingToOverrideError, NotLeftOutError: An option names what is not there.
            RemovalBlockedError: Something stands against it; the workspace is marked so, and is as it was.
            ExportRefusedError, TreeChangedError: It cannot be exported, so nothing of it goes.
            ArchiveUnfinishedError: The files are in the export and not all of them gone; every start goes on with it.
        """
        intent = await self._store.read(partial(_begun, ref, request))
        with self._gate.until_stop("archive a workspace"):
            done = await self._runner.run(self._action, intent.id, intent)
        return await self._store.read(partial(_result, done))

    async def _survey(self, kept: KeptRoom, leave_out: tuple[str, ...]) -> Survey:
        try:
            return await self._archiving.survey(kept, leave_out)
        except StorageFailedError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return Survey()  # what that means, the look at the work tree says
            raise


def _left_out(seen: Survey) -> Listed:
    """Return what no export holds, and nobody asked to leave out."""
    named = Named()
    for item in seen.items:
        if item.kind is ExportedKind.LEFT_OUT and item.why != ON_REQUEST:
            named.add(item.path, item.why)
    return named.listed()


def _archivable(ref: str, repos: Repos) -> KeptRoom:
    kept = room_of_ref(repos, ref)
    _require_archivable(repos, kept)
    return kept


def _require_archivable(repos: Repos, kept: KeptRoom) -> None:
    require_managed(kept)
    require_there(repos, kept.host)
    if kept.workspace.state is WorkspaceState.ARCHIVED:
        raise WorkspaceArchivedError(room=kept.room.name)
    if kept.workspace.state not in USABLE:
        raise WorkspaceNotReadyError(session=str(kept.session.id), state=kept.workspace.state)


def _begun(ref: str, request: ArchiveRequest, repos: Repos) -> ArchiveIntent:
    """Return the intent: of the archive that was begun for the same, otherwise a new one."""
    kept = room_of_ref(repos, ref)
    intent = asked_for(repos, kept, request.id, KIND, partial(_intent, kept, request))
    if not repos.operations.knows(intent.id):
        _require_archivable(repos, kept)
    return intent


def _intent(kept: KeptRoom, request: ArchiveRequest, identifier: UUID) -> ArchiveIntent:
    return ArchiveIntent(
        id=identifier,
        room_id=kept.room.id,
        host_id=kept.host.id,
        session_id=kept.session.id,
        workspace_id=kept.workspace.id,
        export_id=identifier,
        leave_out=request.leave_out,
        retention=request.retention,
        force=bool(request.overrides),
        overrides=request.overrides,
        confirmed=request.confirmed,
    )


def _staying(exports: tuple[KeptExport, ...], going: tuple[KeptBytes, ...]) -> tuple[KeptBytes, ...]:
    gone = {each.id for each in going}
    return tuple(size_of(each) for each in exports if each.id not in gone and each.state is not ExportState.DELETED)


def _result(done: ArchiveIntent, repos: Repos) -> ArchiveResult:
    return ArchiveResult(
        id=done.id,
        room=repos.rooms.get(done.room_id).name,
        workspace_id=done.workspace_id,
        export=repos.exports.get(done.export_id),
        files=done.files_removed,
        bytes_removed=done.bytes_removed,
        exports_removed=tuple(size_of(repos.exports.get(each)) for each in done.exports_that_go),
    )
