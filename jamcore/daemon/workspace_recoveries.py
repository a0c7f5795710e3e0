"""Workspaces that something is wrong with: shown, and recovered in one of three ways that remove nothing (START-3, START-5)."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from uuid import UUID

from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.exports import Exports
from jamcore.daemon.journaled import Journaled
from jamcore.daemon.reconciling import Places
from jamcore.daemon.recover_sources import RecoverMaking
from jamcore.daemon.removed_hosts import require_there
from jamcore.daemon.workspace_looks import KEPT_WORKSPACE, StoredWorkspace, WorkspaceLooks, stored_workspace
from jamcore.daemon.workspaces import require_managed
from jamcore.domain import layout
from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.exports import ExportDamagedError
from jamcore.domain.keeping import RoomExportRequest, WorkspaceArchivedError, WorkspaceBusyError
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.operations import Operation
from jamcore.domain.sessions import WorkspaceState
from jamcore.domain.workspace_care import NotRecoverableError, RecoverRequest, RecoverResult, RecoveryWay, WorkspaceView
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.sandbox.override import HostInUseError
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.workspace.keeping.recovering import KIND, RecoverIntent, recover_action

_FROM = (WorkspaceState.READY, WorkspaceState.NEEDS_RECONCILIATION)


class WorkspaceRecoveries:
    """See :class:`~jamcore.daemon.workspace_service.WorkspaceService`; adds the journaled recovery to the kinds."""

    def __init__(
        self,
        *,
        store: Store,
        looks: WorkspaceLooks,
        places: Places,
        exports: Exports,
        making: ExportMaking,
        recovering: RecoverMaking,
        pool: WorkerPool,
        gate: StopGate,
        clock: Clock,
        journaled: Journaled,
    ) -> None:
        self._store = store
        self._looks = looks
        self._places = places
        self._exports = exports
        self._making = making
        self._recovering = recovering
        self._pool = pool
        self._gate = gate
        self._clock = clock
        self._journaled = journaled
        self._action = recover_action(recovering)
        journaled.actions.register(self._action)

    async def inspect(self, ref: str) -> WorkspaceView:
        """See :class:`WorkspaceLooks`."""
        return await self._looks.inspect(ref)

    async def recover(self, ref: str, request: RecoverRequest) -> RecoverResult:
        """Recover a room's workspace.

        Raises:
            NotRecoverableError: This way is not open as things are.
            HostRemovedError, WorkspaceArchivedError, WorkspaceElsewhereError: There is nothing here to recover.
            WorkspaceBusyError, ConflictError: Another operation of the workspace has not ended.
            HostInUseError: The room is live.
            JamError: What the way itself met; what is there is as it was.
        """
        stored = await self._store.read(partial(stored_workspace, ref))
        await self._store.read(lambda repos: require_there(repos, stored.kept.host))
        if stored.kept.workspace.state is WorkspaceState.ARCHIVED and not stored.unfinished:
            raise WorkspaceArchivedError(room=stored.kept.room.name)
        if stored.never_came is not None:
            await self._require_export_of_what_is_there(stored, request.way)
        ways = {RecoveryWay.RETRY: self._retry, RecoveryWay.EXPORT: self._export, RecoveryWay.RESTORE_LATEST: self._restore}
        with self._gate.until_stop("recover a workspace"):
            return await ways[request.way](stored, request)

    async def _require_export_of_what_is_there(self, stored: StoredWorkspace, way: RecoveryWay) -> None:
        """Require the one way that is open where the files of a confirmed export never came: it takes nothing for them."""
        there = (await self._places.reconciler.found(stored.place)).directory
        if there and way is RecoveryWay.EXPORT:
            return
        wrong = f"its files never came: export {stored.never_came} was not what was confirmed"
        if there:
            wrong = f"what is in its place is not what was confirmed of export {stored.never_came}, and can be exported alone"
        raise NotRecoverableError(room=stored.kept.room.name, problem=f"{wrong}; import the export once more, as another room")

    # ----------------------------------------------------------------------------------------------------------------- retry

    async def _retry(self, stored: StoredWorkspace, request: RecoverRequest) -> RecoverResult:
        """Finish what was begun, or make or put right the place again."""
        kept, state = stored.kept, stored.kept.workspace.state
        if stored.unfinished:
            done = await self._finish(UUID(stored.unfinished))
            return await self._result(stored, request, f"the {done.kind} that was cut short has ended: {done.state}")
        if state in _FROM:
            if state is WorkspaceState.READY and (await self._places.reconciler.found(stored.place)).sound:
                return await self._result(stored, request, "nothing was wrong")
            accepted = state is WorkspaceState.NEEDS_RECONCILIATION
            put_right = await self._places.reconciler.reconcile(stored.place, accepted=accepted)
            seen = put_right.seen()
            wrong = "; ".join(seen.words()) or "nothing was wrong any more"
            if not seen.directory:
                wrong += "; an empty one was made"
            return await self._result(stored, request, wrong, kept_aside=put_right.kept_as)
        await self._places.provisioner.require_ready(kept.workspace)
        return await self._result(stored, request, "its directories are there")

    async def _finish(self, operation: UUID) -> Operation:
        found, initial = await self._store.read(
            lambda repos: (repos.operations.get(operation), repos.operations.initial(operation))
        )
        await self._journaled.actions.finish(self._journaled.runner, operation, found.kind, initial or "")
        return await self._store.read(lambda repos: repos.operations.get(operation))

    # ---------------------------------------------------------------------------------------------------------------- export

    async def _export(self, stored: StoredWorkspace, request: RecoverRequest) -> RecoverResult:
        """Export what is there, and verify it."""
        made = await self._exports.new(str(stored.kept.room.id), RoomExportRequest(id=request.id))
        return await self._result(stored, request, f"what is there is exported: {made.path}", export=made.export.id)

    # --------------------------------------------------------------------------------------------------------------- restore

    async def _restore(self, stored: StoredWorkspace, request: RecoverRequest) -> RecoverResult:
        """Put the newest sound export in the place, beside what is there."""
        intent = await self._intended(stored, request)
        done = await self._journaled.runner.run(self._action, intent.id, intent)
        if not (await self._places.reconciler.found(stored.place)).sound:
            await self._places.reconciler.reconcile(stored.place, accepted=True)
        kept = done.kept_as if await self._recovering.is_kept(done) else ""
        return await self._result(stored, request, f"{done.files} files are back", export=done.export_id, kept_aside=kept)

    async def _intended(self, stored: StoredWorkspace, request: RecoverRequest) -> RecoverIntent:
        """Return the intent: of the recovery that was begun under this id or was cut, otherwise a new one."""
        kept = stored.kept
        require_managed(kept)
        if (known := await self._store.read(partial(_known, stored, request.id))) is not None:
            return known
        if kept.workspace.state not in _FROM:
            raise NotRecoverableError(room=kept.room.name, problem=f"its workspace is {kept.workspace.state}: try `retry` first")
        if self._pool.get(kept.host.id, kept.session.id) is not None:
            raise HostInUseError(host=kept.host.sandbox)
        export, digest = await self._newest_sound(stored)
        stamp, tree = self._clock.now().strftime("%Y%m%dT%H%M%SZ"), self._making.tree(kept)
        return RecoverIntent(
            id=request.id,
            room_id=kept.room.id,
            host_id=kept.host.id,
            session_id=kept.session.id,
            workspace_id=kept.workspace.id,
            export_id=export.id,
            digest=digest,
            tree=tree,
            copied=str(PurePosixPath(tree).with_name(f".recovered-{request.id}")),
            kept_as=f"{layout.host_root(kept.host.id)}/{KEPT_WORKSPACE}{stamp}-{str(request.id)[-8:]}",
            was_ready=kept.workspace.state is WorkspaceState.READY,
        )

    async def _newest_sound(self, stored: StoredWorkspace) -> tuple[KeptExport, str]:
        """Read exports whole, the newest first, and return the first that is sound."""
        damaged = []
        for row in stored.exports:
            if row.export.state is not ExportState.PUBLISHED or row.export.maker is not ExportMaker.HERE:
                continue
            try:
                return row.export, (await self._making.verified(row.export.id, row.export.manifest_sha256)).digest
            except (ExportDamagedError, NotFoundError):
                damaged.append(str(row.export.id))
        why = f"damaged: {', '.join(damaged)}" if damaged else "none was made"
        raise NotRecoverableError(room=stored.kept.room.name, problem=f"there is no sound export of it ({why})")

    async def _result(
        self, stored: StoredWorkspace, request: RecoverRequest, said: str, *, export: UUID | None = None, kept_aside: str = ""
    ) -> RecoverResult:
        state = (await self._store.read(lambda repos: repos.workspaces.get(stored.kept.workspace.id))).state
        return RecoverResult(
            room=stored.kept.room.name, way=request.way, state=state, said=said, export_id=export, kept_aside=kept_aside
        )


def _known(stored: StoredWorkspace, request: UUID, repos: Repos) -> RecoverIntent | None:
    """Return the recovery that was begun under this id, or the one of this workspace that was cut; ``None``: neither.

    Raises:
        ConflictError: The id was used for something else (WS-11).
        WorkspaceBusyError: Another kind of operation has not ended.
    """
    known = request if repos.operations.knows(request) else UUID(stored.unfinished) if stored.unfinished else None
    if known is None:
        return None
    begun = repos.operations.get(known)
    if (begun.kind, begun.workspace_id) == (KIND, stored.kept.workspace.id):
        return RecoverIntent.model_validate_json(repos.operations.initial(known) or "")
    if known == request:
        raise ConflictError(kind="operation", ref=str(known), problem="the id was used for something else")
    raise WorkspaceBusyError(room=stored.kept.room.name, operation=str(known), kind=begun.kind)
