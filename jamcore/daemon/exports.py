"""Exports of workspaces as clients see them: made, listed, looked into, verified (WS-5)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import UUID

from anyio import to_thread

from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.removed_hosts import require_there
from jamcore.daemon.workspaces import KeptRoom, asked_for, room_of_ref
from jamcore.domain import layout
from jamcore.domain.errors import JamError, NotFoundError
from jamcore.domain.exports import ExportDamagedError, ExportManifest
from jamcore.domain.keeping import ExportRow, ExportVerdict, ExportView, RoomExportRequest, WorkspaceArchivedError
from jamcore.domain.kept_exports import ExportState, KeptExport
from jamcore.domain.sessions import WorkspaceState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.gate import StopGate
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.workspace.keeping.exporting import KIND, ExportIntent, export_action


class Exports:
    """See :class:`~jamcore.daemon.services.ExportService`; adds the journaled export to ``actions``."""

    def __init__(
        self,
        app: Path,
        *,
        store: Store,
        making: ExportMaking,
        gate: StopGate,
        clock: Clock,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._app = app
        self._store = store
        self._making = making
        self._gate = gate
        self._clock = clock
        self._runner = runner
        self._action = export_action(making)
        actions.register(self._action)

    async def new(self, ref: str, request: RoomExportRequest) -> ExportView:
        """Export a room's workspace with its latest checkpoint. An exact retry verifies the export and returns the same.

        Who asks for the same while it is made, or after it was cut, gets that one.

        Raises:
            WorkspaceElsewhereError: The files are in no directory of Jam's.
            WorkspaceArchivedError, HostRemovedError: They are in an export already, and the second: there is no sandbox any more.
            WorkspaceBusyError: Another operation of the workspace has not ended.
            ConflictError: One was begun in this very moment, or the id was used for something else.
            ExportRefusedError, TreeChangedError: It cannot be exported exactly; nothing was published.
        """
        intent, new = await self._store.read(partial(_asked, ref, request))
        if new is not None:
            self._making.tree(new)
        with self._gate.until_stop("export a workspace"):
            done = (await self._runner.run(self._action, intent.id, intent)).row()
            if new is None:
                await self._making.verified(done.id, done.manifest_sha256)
        return await self._view(done)

    async def list(self, room: str | None) -> tuple[ExportRow, ...]:
        """Return exports, newest first, of one room or of all."""
        return await self._store.read(partial(_rows, room))

    async def show(self, ref: str) -> ExportView:
        """Return one with what its manifest says."""
        return await self._view(await self._store.read(lambda repos: repos.exports.find(ref)))

    async def verify(self, ref: str) -> ExportVerdict:
        """Read one whole; that it is damaged or not there is an answer."""
        row = await self._store.read(lambda repos: repos.exports.find(ref))
        if row.state is ExportState.DELETED:
            return ExportVerdict(export=row, sound=False, total=1, named=("it was deleted",))
        try:
            await self._making.verified(row.id, row.manifest_sha256)
        except ExportDamagedError as error:
            return ExportVerdict(export=row, sound=False, total=error.total, named=error.named)
        except NotFoundError:
            return ExportVerdict(export=row, sound=False, total=1, named=("its directory is gone",))
        return ExportVerdict(export=await self._store.transact(partial(_note_sound, self._clock, row)), sound=True)

    async def _view(self, row: KeptExport) -> ExportView:
        room = await self._store.read(lambda repos: repos.rooms.get(row.room_id).name if row.room_id else "")
        manifest, problem = await to_thread.run_sync(self._manifest, row)
        path = str(self._app.resolve() / layout.export_root(row.id))
        return ExportView(export=row, room=room, path=path, manifest=manifest, problem=problem)

    def _manifest(self, row: KeptExport) -> tuple[ExportManifest | None, str]:
        """Return what the manifest says, or why it cannot be read: an answer all the same."""
        if row.state is ExportState.DELETED:
            return None, "it was deleted"
        try:
            return self._making.manifest(row), ""
        except JamError as error:
            return None, f"{error.code}: {error}"
        except OSError as error:
            return None, error.strerror or "it cannot be read"


def _asked(ref: str, request: RoomExportRequest, repos: Repos) -> tuple[ExportIntent, KeptRoom | None]:
    """Return the intent, and for a new one the room whose files are to be in their place."""
    kept = room_of_ref(repos, ref)
    intent = asked_for(repos, kept, request.id, KIND, partial(_intent, kept, request))
    if repos.operations.knows(intent.id):
        return intent, None
    require_there(repos, kept.host)
    if kept.workspace.state is WorkspaceState.ARCHIVED:
        raise WorkspaceArchivedError(room=kept.room.name)
    return intent, kept


def _intent(kept: KeptRoom, request: RoomExportRequest, identifier: UUID) -> ExportIntent:
    return ExportIntent(
        id=identifier,
        room_id=kept.room.id,
        host_id=kept.host.id,
        session_id=kept.session.id,
        workspace_id=kept.workspace.id,
        export_id=identifier,
        leave_out=request.leave_out,
    )


def _rows(ref: str | None, repos: Repos) -> tuple[ExportRow, ...]:
    room = None if ref is None else repos.rooms.find(ref)
    names = {each.id: each.name for each in repos.rooms.list()}
    found = (each for each in repos.exports.list() if room is None or each.room_id == room.id)
    return tuple(ExportRow(export=each, room=names.get(each.room_id, "") if each.room_id else "") for each in found)


def _note_sound(clock: Clock, row: KeptExport, repos: Repos) -> KeptExport:
    repos.exports.verified(row.id, clock.now())
    return repos.exports.get(row.id)
