"""How an archive is made of what is stored and of what lives: satisfies :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import UUID

from anyio import from_thread

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.tree_users import SandboxUsers
from jamcore.daemon.workspaces import KeptRoom, kept_room, move_workspace
from jamcore.domain import layout
from jamcore.domain.checkpoint_exports import unspelled
from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.events import SessionNotice
from jamcore.domain.exports import ExportDamagedError
from jamcore.domain.keeping import ArchiveEvidence, KeptBytes
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.operations import ExportRetention
from jamcore.domain.plan import Plan
from jamcore.domain.removal import RemovalBlockedError, RemovalInspection, require_removable
from jamcore.domain.sessions import WorkspaceState
from jamcore.journal.steps import learned
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.pool import WorkerPool
from jamcore.sandbox.places import guest_view
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.system.files import StorageFailedError
from jamcore.workspace.exports.survey import Survey
from jamcore.workspace.inspection.inspect import Inspector
from jamcore.workspace.keeping.archiving import ArchiveIntent, Seen
from jamcore.workspace.keeping.aside import SetAside
from jamcore.workspace.keeping.exporting import Chosen, ExportPart

ARCHIVED = "workspace.archived"


class ArchiveMaking:
    """One object per daemon. Its exports are made as all are."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        feed: RoomFeed,
        engines: EngineHouse,
        hosts: HostWorkers,
        pool: WorkerPool,
        making: ExportMaking,
    ) -> None:
        self._options = options
        self._store = store
        self._feed = feed
        self._engines = engines
        self._hosts = hosts
        self._pool = pool
        self._making = making
        self._aside = SetAside(options.app, files=options.files)

    async def evidence(self, kept: KeptRoom, retention: ExportRetention, leave_out: tuple[str, ...]) -> ArchiveEvidence:
        """Look at everything that an archive takes away. Changes nothing."""
        inspection = await self._look(kept)
        exports = await self._store.read(lambda repos: repos.exports.of_workspace(kept.workspace.id))
        return ArchiveEvidence(
            workspace_id=kept.workspace.id,
            retention=retention,
            leave_out=leave_out,
            inspection=inspection,
            exports_that_go=_going(exports, retention),
        )

    async def stand_down(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`.

        From the beginning of the action nobody brings the session up, so that after this nobody has it up. What outlived a daemon is proven
        and stopped (SHARE-4).
        """
        await self._pool.leave(intent.host_id, intent.session_id)
        await self._hosts.unsaved.require_saved(intent.host_id)
        if not self._pool.is_up(intent.host_id):
            async with self._pool.kept_down(intent.host_id):
                if not self._pool.is_up(intent.host_id):
                    await self._hosts.fence(intent.host_id)

    async def inspect(self, intent: ArchiveIntent) -> Seen:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        kept = await self._kept(intent)
        evidence = await self.evidence(kept, intent.retention, intent.leave_out)
        evidence.require_confirmed(intent.confirmed, await self._others(kept, evidence))
        inspection = evidence.inspection
        inspection.require_meant(intent.overrides)
        require_removable(inspection, confirmed=inspection.digest, force=intent.overrides)
        holds = (await self.survey(kept, intent.leave_out)).totals()
        return Seen(
            inspected=inspection.digest,
            exports_that_go=tuple(each.id for each in evidence.exports_that_go),
            files_removed=holds.files,
            bytes_removed=holds.bytes_total,
        )

    async def survey(self, kept: KeptRoom, leave_out: tuple[str, ...]) -> Survey:
        """Look at the files as an export would.

        Raises:
            NotLeftOutError: What was to be left out is not there.
            TreeChangedError: They change meanwhile.
            JamError: They cannot be looked at.
        """
        names = frozenset(tuple(unspelled(path).split(b"/")) for path in leave_out)
        tree, writer = self._making.tree(kept), self._making.writer
        found = await in_thread(lambda: writer.inspect(tree, leave_out=names, alive=from_thread.check_cancelled))
        found.require_left_out()
        return found

    async def _others(self, kept: KeptRoom, evidence: ArchiveEvidence) -> tuple[ArchiveEvidence, ...]:
        """Return the evidence of this very look for the other options that can be known."""
        exports = await self._store.read(lambda repos: repos.exports.of_workspace(kept.workspace.id))
        return tuple(
            evidence.model_copy(
                update={"retention": retention, "leave_out": leave_out, "exports_that_go": _going(exports, retention)}
            )
            for retention in ExportRetention
            for leave_out in {evidence.leave_out, ()}
        )

    async def choose(self, part: ExportPart) -> Chosen:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        return await self._making.choose(part)

    async def write(self, part: ExportPart) -> str:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        return await self._making.write(part)

    async def keep(self, part: ExportPart, digest: str) -> KeptExport:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        return await self._making.keep(part, digest)

    async def withdraw(self, part: ExportPart) -> None:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        await self._making.withdraw(part)

    async def require_export(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        try:
            await self._making.verified(intent.export_id, learned(intent.digest))
        except NotFoundError as error:
            raise ExportDamagedError(export=str(intent.export_id), total=1, named=("its directory is gone",)) from error

    async def mark(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        await self._store.transact(partial(_mark, intent.exports_that_go))

    async def prune(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`.

        An archive that gave up let go of some; if that was not noted, and the export reads sound again, they are marked once more.
        """
        if await self._store.read(partial(_in_state, intent.exports_that_go, ExportState.PUBLISHED)):
            await self.mark(intent)
        for export in intent.exports_that_go:
            await in_thread(partial(self._remove_export, export))

    async def note(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        await self._store.transact(partial(_note, intent.exports_that_go))

    async def set_aside(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        found = await self._look(await self._kept(intent))
        require_removable(found, confirmed=learned(intent.inspected), force=intent.overrides)
        tree, aside = _places(intent)
        await in_thread(lambda: self._set_aside(intent, tree, aside))

    def _set_aside(self, intent: ArchiveIntent, tree: str, aside: str) -> None:
        """Hold the tree against its export, byte for byte, as the last thing before it goes: a look at the work in it is bounded."""
        same = self._making.reader.require_same
        same(intent.export_id, learned(intent.digest), tree, from_thread.check_cancelled)
        self._aside.move(tree, aside)

    async def is_aside(self, intent: ArchiveIntent) -> bool:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        tree, aside = _places(intent)
        return await in_thread(lambda: self._aside.is_there(aside) and not self._aside.is_there(tree))

    async def remove(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`.

        A damaged export gave the directory its name back; if that was not noted, and the export reads sound again, it goes after all.
        """
        tree, aside = _places(intent)
        if await in_thread(lambda: self._aside.is_there(tree) and not self._aside.is_there(aside)):
            await self.set_aside(intent)
        await in_thread(lambda: self._aside.remove(aside, from_thread.check_cancelled))

    async def put_back(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        tree, aside = _places(intent)
        await in_thread(lambda: self._put_back(intent, tree, aside))

    def _put_back(self, intent: ArchiveIntent, tree: str, aside: str) -> None:
        """Hold what is there against the lists of the export, which may be sound though a file of it is not: some of it may have gone."""
        there = aside if self._aside.is_there(aside) else tree
        self._making.reader.require_same(intent.export_id, learned(intent.digest), there, from_thread.check_cancelled)
        if there == aside:
            if self._aside.is_there(tree):
                raise ConflictError(kind="workspace", ref=str(intent.workspace_id), problem=f"something is there already: {tree}")
            self._aside.move(aside, tree)

    async def settle(self, intent: ArchiveIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        await self._store.transact(partial(_archived, intent))
        self._feed.announce(intent.room_id)

    async def give_up(self, intent: ArchiveIntent, error: Exception) -> None:
        """See :class:`~jamcore.workspace.keeping.archiving.ArchiveSources`."""
        await self.withdraw(intent)
        marked = await self._store.read(partial(_in_state, intent.exports_that_go, ExportState.DELETING))
        if marked:
            await in_thread(partial(self._require_disk, (intent.export_id, *marked)))
        for export in marked:
            await in_thread(partial(self._finish_removal, export))
        there = await in_thread(lambda: frozenset(each for each in marked if self._aside.is_there(layout.export_root(each))))
        await self._store.transact(partial(_let_go, marked, there))
        if isinstance(error, RemovalBlockedError):
            await self._store.transact(partial(_blocked, intent))

    async def _kept(self, intent: ArchiveIntent) -> KeptRoom:
        return await self._store.read(lambda repos: kept_room(repos, intent.session_id))

    async def _look(self, kept: KeptRoom) -> RemovalInspection:
        app, host = self._options.app, kept.host
        users = SandboxUsers(self._hosts.ownership(self._engines.get(host.engine)).calls, host.sandbox)
        scratch = await in_thread(partial(self._options.files.make_private, app / layout.CHANGES))
        inspector = Inspector(users=users, clock=self._options.clock, scratch=scratch)
        seen = guest_view(Plan.model_validate_json(host.plan_json), app).path(kept.workspace.guest_path)
        return await inspector.inspect(Path(app / self._making.tree(kept)), guest_path=seen)

    def _require_disk(self, exports: tuple[UUID, ...]) -> None:
        """Require that one of them is there: where none is, their disk may be missing, and nothing says that they are gone."""
        for export in exports:
            if self._aside.is_there(layout.export_root(export)) or self._aside.is_there(layout.removed_export(export)):
                return
        raise StorageFailedError(detail=f"none of the workspace's exports is there: {self._options.app / layout.EXPORTS}")

    def _remove_export(self, export: UUID) -> None:
        there, aside = layout.export_root(export), layout.removed_export(export)
        if self._aside.is_there(there):
            self._aside.move(there, aside)
        self._finish_removal(export)

    def _finish_removal(self, export: UUID) -> None:
        self._aside.remove(layout.removed_export(export), from_thread.check_cancelled)


def _going(exports: tuple[KeptExport, ...], retention: ExportRetention) -> tuple[KeptBytes, ...]:
    return tuple(size_of(each) for each in exports if may_go(each)) if retention is ExportRetention.KEEP_LATEST else ()


def may_go(export: KeptExport) -> bool:
    """Whether an archive that keeps the latest export alone takes this one along: never what came from elsewhere."""
    return export.state is ExportState.PUBLISHED and export.maker is ExportMaker.HERE


def size_of(export: KeptExport) -> KeptBytes:
    """Return an export as a list of what goes or stays has it."""
    return KeptBytes(id=export.id, bytes_total=export.bytes_total)


def _places(intent: ArchiveIntent) -> tuple[str, str]:
    """Return where the work tree is, and where it is on its way out."""
    return intent.what().tree, layout.archived_workspace(intent.host_id, intent.id)


def _in_state(exports: tuple[UUID, ...], state: ExportState, repos: Repos) -> tuple[UUID, ...]:
    return tuple(each for each in exports if repos.exports.get(each).state is state)


def _mark(exports: tuple[UUID, ...], repos: Repos) -> None:
    """Mark those that may be restored: of the others the deletion has begun, or is done."""
    for export in _in_state(exports, ExportState.PUBLISHED, repos):
        repos.exports.move(export, ExportState.DELETING)


def _note(exports: tuple[UUID, ...], repos: Repos) -> None:
    for export in exports:
        repos.exports.move(export, ExportState.DELETED)


def _let_go(marked: tuple[UUID, ...], there: frozenset[UUID], repos: Repos) -> None:
    """Undo a mark: what nobody has touched may be restored again, and what was set aside is gone."""
    for export in marked:
        repos.exports.move(export, ExportState.PUBLISHED if export in there else ExportState.DELETED)


def _archived(intent: ArchiveIntent, repos: Repos) -> None:
    kept = kept_room(repos, intent.session_id)
    if kept.workspace.state is WorkspaceState.ARCHIVED:
        return
    move_workspace(repos, kept, WorkspaceState.ARCHIVED)
    detail = f"the workspace is archived: its files are in export {intent.export_id}, and `jam workspace restore` brings them back"
    repos.events.append(intent.room_id, None, [SessionNotice(code=ARCHIVED, detail=detail)])


def _blocked(intent: ArchiveIntent, repos: Repos) -> None:
    kept = kept_room(repos, intent.session_id)
    if kept.workspace.state is WorkspaceState.READY:
        move_workspace(repos, kept, WorkspaceState.REMOVAL_BLOCKED)
