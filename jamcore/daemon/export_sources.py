"""How an export is made of what is stored and of what lives: satisfies :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from anyio import from_thread, to_thread

from jamcore.continuity.exporting.choosing import Choice, latest_compatible
from jamcore.continuity.exporting.materialise import CheckpointExporter
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.workspaces import KeptRoom, kept_room, tree_below
from jamcore.domain import layout
from jamcore.domain.cells import Placement
from jamcore.domain.continuity import CaptureList, Checkpoint, CheckpointCorruptError
from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.exports import ExportDamagedError, ExportManifest, ExportRequest, TreeChangedError
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.pool import WorkerPool
from jamcore.runtime.worktree import WorkTrees
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.system.files import storage_error
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import open_root, owned
from jamcore.workspace.exports.format import DamagedError, ExportFiles
from jamcore.workspace.exports.restore import ExportReader
from jamcore.workspace.exports.verify import Verified
from jamcore.workspace.exports.write import CheckpointSource, ExportWriter
from jamcore.workspace.keeping.aside import SetAside
from jamcore.workspace.keeping.exporting import WRITING, Chosen, ExportPart


class ExportMaking:
    """One object per daemon; archives make their exports by it, too."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        plugins: ProviderManager,
        engines: EngineHouse,
        hosts: HostWorkers,
        pool: WorkerPool,
        work_trees: WorkTrees,
    ) -> None:
        self._app = options.app
        self._clock = options.clock
        self._store = store
        self._plugins = plugins
        self._engines = engines
        self._hosts = hosts
        self._pool = pool
        self._work_trees = work_trees
        self._checkpoints = CheckpointExporter(hosts.generations)
        self._aside = SetAside(options.app, files=options.files)
        reach = _inside(options.crash.reach)
        self.writer = ExportWriter(options.app, files=options.files, clock=options.clock, reach=reach)
        self.reader = ExportReader(options.app, files=options.files, reach=reach)

    def tree(self, kept: KeptRoom) -> str:
        """Return where a work tree lies below the app directory.

        Raises:
            WorkspaceElsewhereError: It does not.
        """
        return tree_below(self._app, self._work_trees, kept, self._engines.get(kept.host.engine))

    async def choose(self, part: ExportPart) -> Chosen:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        await self._pool.make_safe(part.host_id)
        kept = await self._store.read(lambda repos: kept_room(repos, part.session_id))
        choice = await self.checkpoint(kept)
        request = ExportRequest(
            export_id=part.export_id, origin=kept.origin(), source=kept.workspace.source, leave_out=part.leave_out
        )
        return Chosen(request=request, tree=self.tree(kept), checkpoint_id=choice.checkpoint.id if choice.checkpoint else None)

    async def checkpoint(self, kept: KeptRoom) -> Choice:
        """Return the newest checkpoint that the session could be resumed from, as far as the store knows."""
        hooks = self._plugins.provider(kept.host.provider)
        if not hooks.description.continuity:
            return Choice(None)
        rows, unusable = await self._store.read(partial(_checkpoints, kept.host.id))
        current = self._hosts.continuity(kept.host).program_version
        accepted = await _accepted(hooks, rows, current)
        return latest_compatible(kept.session, rows, accepts=accepted.__contains__, unusable=unusable)

    async def write(self, part: ExportPart) -> str:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        chosen = part.what()
        kept = await self._store.read(lambda repos: kept_room(repos, part.session_id))
        source = await self._source(kept, chosen.checkpoint_id)
        async with self._pool.held_still(part.host_id, lambda: self._hosts.still(part.host_id, f"the export of {kept.room.name}")):
            return (await self._in_thread(partial(self._write, chosen, source))).digest

    async def keep(self, part: ExportPart, digest: str) -> KeptExport:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        row = _row(part, await self.verified(part.export_id, digest))
        return await self._store.transact(partial(_keep, row, self._clock.now()))

    async def withdraw(self, part: ExportPart) -> None:
        """See :class:`~jamcore.workspace.keeping.exporting.ExportSources`."""
        if await self._store.read(lambda repos: repos.exports.find_id(part.export_id)) is not None:
            return
        if part.digest is not None or await in_thread(partial(self._was_written, part)):
            await in_thread(partial(self.writer.withdraw, part.export_id))

    async def verified(self, export: UUID, digest: str | None) -> Verified:
        """Read an export whole.

        Raises:
            NotFoundError, ExportDamagedError: It is not there, or not what was recorded.
            StorageFailedError: The machine failed.
        """
        return await self._in_thread(lambda: self.reader.verify(export, digest, from_thread.check_cancelled))

    def manifest(self, export: KeptExport) -> ExportManifest:
        """Return what an export's manifest says. Blocking.

        Raises:
            ExportDamagedError: It is not the one that was recorded.
            OSError: It cannot be read.
        """
        with owned(open_root(self._app / layout.export_root(export.id))) as root:
            try:
                return ExportFiles(root, TreeCalls(), lambda: None).manifest(export.manifest_sha256)[0]
            except DamagedError as error:
                named = (f"{error.name}: {error.problem}",)
                raise ExportDamagedError(export=str(export.id), total=1, named=named) from error

    def is_there(self, tree: str) -> bool:
        """Say whether anything lies where a work tree belongs. Blocking.

        Raises:
            OSError: It cannot be said.
        """
        return self._aside.is_there(tree)

    def is_placed(self, export: UUID, digest: str, tree: str) -> bool:
        """Say whether the files of an export are where they were brought to. Blocking.

        While nobody lived, anybody may have put something there.

        Raises:
            ConflictError: Something else is there.
            NotFoundError, ExportDamagedError: The export is gone, or not the one that was recorded: nobody can say what is there.
            OSError: The machine failed.
        """
        if not self.is_there(tree):
            return False
        if not self._aside.is_there(layout.export_root(export)):
            raise NotFoundError(kind="export", ref=str(export))
        try:
            self.reader.require_same(export, digest, tree, from_thread.check_cancelled)
        except TreeChangedError as error:
            problem = f"something else is there: {', '.join(error.named[:3])}"
            raise ConflictError(kind="workspace", ref=tree, problem=problem) from error
        return True

    def _was_written(self, part: ExportPart) -> bool:
        """Say whether what has the export's name was written for this action, which was cut before it noted that; else it stays."""
        if part.chosen is None:
            return False
        try:
            with owned(open_root(self._app / layout.export_root(part.export_id))) as root:
                return ExportFiles(root, TreeCalls(), lambda: None).manifest(None)[0].request == part.chosen.request
        except (DamagedError, FileNotFoundError):
            return False

    def _write(self, chosen: Chosen, source: CheckpointSource | None) -> Verified:
        return self.writer.write(chosen.request, chosen.tree, checkpoint=source, alive=from_thread.check_cancelled)

    async def _source(self, kept: KeptRoom, checkpoint: UUID | None) -> CheckpointSource | None:
        if checkpoint is None:
            return None
        rows = await self._store.read(lambda repos: repos.checkpoints.of_host(kept.host.id))
        row = next(row for row in rows if row.id == checkpoint)
        captures = await self._plugins.provider(kept.host.provider).declare_capture()
        return self._materialised(kept, row, captures)

    def _materialised(self, kept: KeptRoom, row: Checkpoint, captures: CaptureList) -> CheckpointSource:
        """Return what writes a checkpoint: of a shared host the one conversation alone."""
        alone = kept.host.cell.placement is not Placement.SHARED
        sessions = None if alone else frozenset({kept.session.id})
        write = self._checkpoints.materialise
        return lambda into: write(row, into, captures=captures, sessions=sessions, alive=from_thread.check_cancelled)

    async def _in_thread(self, work: Callable[[], Verified]) -> Verified:
        try:
            return await to_thread.run_sync(work)
        except CheckpointCorruptError as error:
            await self._note_damage(error)
            raise
        except OSError as error:
            raise storage_error(error) from error

    async def _note_damage(self, error: CheckpointCorruptError) -> None:
        """Keep what was found out, so that the next export chooses an older checkpoint, and lists say so."""
        await self._store.transact(partial(_note_damage, UUID(error.checkpoint), error.detail))


def _inside(reach: Callable[[str], None]) -> Callable[[str], None]:
    return lambda name: reach(f"{WRITING}{name}")


def _checkpoints(host: UUID, repos: Repos) -> tuple[tuple[Checkpoint, ...], dict[UUID, str]]:
    """Return a host's checkpoints and what is wrong with those that cannot be used."""
    rows = repos.checkpoints.of_host(host)
    unusable = {row.id: read.problem for row in rows if (read := repos.verifications.of_checkpoint(row.id)) and read.problem}
    gone = {each.checkpoint_id: "its payload was removed" for each in repos.payload_deletions.of_host(host)}
    return rows, unusable | gone


async def _accepted(hooks: ProviderHooks, rows: tuple[Checkpoint, ...], current: str) -> frozenset[str]:
    """Return the versions of its program that the provider resumes from with the one that it has now."""
    versions = {row.provider_version for row in rows}
    return frozenset([each for each in sorted(versions) if await hooks.accepts_version(each, current)])


def _row(part: ExportPart, verified: Verified) -> KeptExport:
    manifest = verified.manifest
    totals = [each for each in (manifest.workspace, manifest.checkpoint_files) if each is not None]
    return KeptExport(
        id=part.export_id,
        maker=ExportMaker.HERE,
        state=ExportState.PUBLISHED,
        agent_id=manifest.request.origin.agent_id,
        host_id=part.host_id,
        session_id=part.session_id,
        workspace_id=part.workspace_id,
        room_id=part.room_id,
        checkpoint_id=manifest.checkpoint.checkpoint_id if manifest.checkpoint else None,
        manifest_sha256=verified.digest,
        files=sum(each.files for each in totals),
        bytes_total=sum(each.bytes_total for each in totals),
        created_at=manifest.created_at,
        verified_at=None,
    )


def _keep(row: KeptExport, now: datetime, repos: Repos) -> KeptExport:
    """Keep the row of a new export. A clock that was set back makes none older than one that is there: the newest is what comes back."""
    if row.workspace_id is not None and repos.exports.find_id(row.id) is None:
        newest = next(iter(repos.exports.of_workspace(row.workspace_id)), None)
        if newest is not None and newest.created_at >= row.created_at:
            row = row.model_copy(update={"created_at": newest.created_at + timedelta(microseconds=1)})
    repos.exports.insert(row)
    repos.exports.verified(row.id, now)
    return repos.exports.get(row.id)


def _note_damage(checkpoint: UUID, detail: str, repos: Repos) -> None:
    row = repos.checkpoints.get(checkpoint)
    repos.verifications.note(row.id, row.host_id, detail)
