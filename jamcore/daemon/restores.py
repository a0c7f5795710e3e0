"""Bringing archived workspaces back: the service, and what the journaled restore asks for (WS-6, CONT-1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar
from uuid import UUID

from anyio import from_thread, to_thread

from jamcore.continuity.exporting.building import Build, CheckpointBuilder
from jamcore.continuity.exporting.seats import Seat
from jamcore.continuity.generations.looking import Look
from jamcore.continuity.generations.publish import Generations
from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.workspaces import KeptRoom, cut_operation, kept_room, move_workspace, require_managed, room_of_ref
from jamcore.domain import layout
from jamcore.domain.cells import Placement
from jamcore.domain.checkpoint_exports import CheckpointSummary
from jamcore.domain.continuity import Checkpoint, CheckpointCorruptError
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import SessionNotice
from jamcore.domain.exports import CHECKPOINT
from jamcore.domain.keeping import ExportNotUsableError, RestoreRequest, RestoreResult, WorkspaceNotArchivedError
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.sessions import HostState, WorkspaceState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.sandbox.override import HostInUseError
from jamcore.store import Repos, Store
from jamcore.system.files import storage_error
from jamcore.workspace.keeping.aside import SetAside
from jamcore.workspace.keeping.restoring import KIND, CheckedExport, RestoreIntent, restore_action

T = TypeVar("T")
RESTORED = "workspace.restored"


class Restores:
    """See :class:`~jamcore.daemon.services.ArchiveService`; adds the journaled restore to ``actions``."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        feed: RoomFeed,
        plugins: ProviderManager,
        hosts: HostWorkers,
        pool: WorkerPool,
        making: ExportMaking,
        gate: StopGate,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._options = options
        self._app = options.app
        self._store = store
        self._feed = feed
        self._plugins = plugins
        self._hosts = hosts
        self._pool = pool
        self._making = making
        self._gate = gate
        self._runner = runner
        self._aside = SetAside(options.app, files=options.files)
        self._builder = CheckpointBuilder(
            hosts.generations, broker=hosts.broker, store=store, clock=options.clock, crash=options.crash
        )
        self._action = restore_action(self)
        actions.register(self._action)

    async def restore(self, ref: str, request: RestoreRequest) -> RestoreResult:
        """Bring an archived workspace back. An exact retry changes nothing and returns the same; one that was cut is finished.

        Raises:
            WorkspaceNotArchivedError: It is where it was.
            ExportNotUsableError: There is no export of it that can be brought back, or the named one is not of it.
            WorkspaceBusyError: Another operation of the workspace has not ended.
            ConflictError: Something is in its place, or another shared sandbox of the agent lives.
            ExportDamagedError: The export is damaged; nothing was changed.
        """
        intent = await self._store.read(partial(_begun, ref, request))
        with self._gate.until_stop("bring a workspace back"):
            done = await self._runner.run(self._action, intent.id, intent)
        return RestoreResult(
            id=done.id,
            room=await self._store.read(lambda repos: repos.rooms.get(done.room_id).name),
            workspace_id=done.workspace_id,
            export_id=done.export_id,
            files=done.files,
            bytes_total=done.bytes_total,
            checkpoint=done.checkpoint,
        )

    # -------------------------------------------------------------------------------------------------- what the action asks

    def mint(self) -> UUID:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        return self._options.ids.uuid()

    async def check(self, intent: RestoreIntent) -> CheckedExport:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        export, tree = await self._required(intent)
        if await self._in_thread(lambda: self._aside.is_there(tree)):
            raise ConflictError(kind="workspace", ref=str(intent.workspace_id), problem=f"something is there already: {tree}")
        verified = await self._making.verified(export.id, export.manifest_sha256)
        totals = verified.manifest.workspace
        return CheckedExport(digest=verified.digest, files=totals.files, bytes_total=totals.bytes_total)

    async def checkpoint(self, intent: RestoreIntent) -> str:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        kept = await self._kept(intent)
        if kept.session.provider_identity is None:
            return "no conversation was begun yet"
        export = await self._store.read(lambda repos: repos.exports.get(intent.export_id))
        held = (await to_thread.run_sync(self._making.manifest, export)).checkpoint
        found = await self._sound(kept)
        if found is not None and (held is None or found.generation >= held.generation):
            return f"the conversation comes back from generation {found.generation}, which is still there"
        if held is None:
            return "neither the export nor the sandbox holds a checkpoint of the conversation"
        await self._build(intent, kept, held)
        return f"the conversation comes back from the export, which has generation {held.generation}"

    async def enter(self, intent: RestoreIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        await self._store.transact(partial(_move, intent, WorkspaceState.RECOVERING))

    async def place(self, intent: RestoreIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        _, tree = await self._required(intent)
        await self._in_thread(lambda: self._place(intent, tree))

    async def is_placed(self, intent: RestoreIntent) -> bool:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        tree = self._making.tree(await self._kept(intent))
        return await self._in_thread(lambda: self._aside.is_there(tree))

    async def settle(self, intent: RestoreIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        await self._store.transact(partial(_restored, intent))
        self._feed.announce(intent.room_id)

    async def give_up(self, intent: RestoreIntent, error: Exception) -> None:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        del error
        await self._store.transact(partial(_archived_again, intent))

    # ---------------------------------------------------------------------------------------------------------------- inside

    async def _kept(self, intent: RestoreIntent) -> KeptRoom:
        return await self._store.read(lambda repos: kept_room(repos, intent.session_id))

    async def _required(self, intent: RestoreIntent) -> tuple[KeptExport, str]:
        """Return the export and the place, after requiring what the store knows of both."""
        kept = await self._kept(intent)
        return await self._store.read(partial(_usable, intent, kept)), self._making.tree(kept)

    async def _sound(self, kept: KeptRoom) -> Checkpoint | None:
        """Return the newest checkpoint from which the session resumes and that is whole; what is not is noted."""
        while row := (await self._making.checkpoint(kept)).checkpoint:
            problem = await self._in_thread(partial(self._problem, row))
            await self._store.transact(partial(_note, row, problem))
            if not problem:
                return row
        return None

    def _problem(self, row: Checkpoint) -> str:
        try:
            Look(Generations(self._app, files=self._options.files)).verify(row.host_id, row.id, row)
        except CheckpointCorruptError as error:
            return error.detail
        return ""

    async def _build(self, intent: RestoreIntent, kept: KeptRoom, held: CheckpointSummary) -> None:
        """Make a generation of the export's files; nothing may run on the host meanwhile."""
        captures = await self._plugins.provider(kept.host.provider).declare_capture()
        assert intent.new_checkpoint is not None
        build = Build(
            directory=self._app / layout.export_root(intent.export_id) / CHECKPOINT,
            digest=held.digest,
            host=kept.host,
            checkpoint_id=intent.new_checkpoint,
            sessions={one.session_id: Seat(one.session_id, one.last_turn_id) for one in held.sessions},
            captures=captures,
        )
        async with self._pool.kept_down(kept.host.id):
            if self._pool.is_up(kept.host.id):
                raise HostInUseError(host=kept.host.sandbox)
            await self._hosts.fence(kept.host.id)
            await self._builder.build(build)

    def _place(self, intent: RestoreIntent, tree: str) -> None:
        parent = self._app / Path(PurePosixPath(tree).parent)
        if not parent.exists():
            self._options.files.make_private(parent)
        self._making.reader.restore(intent.export_id, intent.digest, tree, from_thread.check_cancelled)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(work)
        except OSError as error:
            raise storage_error(error) from error


def _begun(ref: str, request: RestoreRequest, repos: Repos) -> RestoreIntent:
    """Return the intent: of the restore that was begun already, otherwise a new one."""
    kept = room_of_ref(repos, ref)
    require_managed(kept)
    known = request.id if repos.operations.knows(request.id) else cut_operation(repos, kept, KIND)
    if known is not None:
        begun = repos.operations.get(known)
        asked = repos.exports.find(request.export).id if request.export else begun.export_id
        if (begun.kind, begun.session_id, begun.export_id) != (KIND, kept.session.id, asked):
            raise ConflictError(kind="operation", ref=str(known), problem="it was begun for something else")
        return RestoreIntent.model_validate_json(repos.operations.initial(known) or "")
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
    _usable(intent, kept, repos)
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


def _usable(intent: RestoreIntent, kept: KeptRoom, repos: Repos) -> KeptExport:
    """Return the export.

    Raises:
        ExportNotUsableError: It is not this workspace's, or not there, or its host was removed.
        ConflictError: Another Shared host of the agent lives.
    """
    export = repos.exports.get(intent.export_id)
    if problem := _unusable(export, kept):
        raise ExportNotUsableError(export=str(export.id), problem=problem)
    if kept.host.state is HostState.REMOVED:
        raise ExportNotUsableError(export=str(export.id), problem="the sandbox that it is of was removed, with its room's place")
    live = repos.hosts.live_shared(kept.agent.id) if kept.host.cell.placement is Placement.SHARED else None
    if live is not None and live.id != kept.host.id:
        raise ConflictError(
            kind="host", ref=kept.host.sandbox, problem=f"the agent has another live shared sandbox: {live.sandbox}"
        )
    return export


def _note(row: Checkpoint, problem: str, repos: Repos) -> None:
    repos.verifications.note(row.id, row.host_id, problem)


def _move(intent: RestoreIntent, state: WorkspaceState, repos: Repos) -> None:
    move_workspace(repos, kept_room(repos, intent.session_id), state)


def _restored(intent: RestoreIntent, repos: Repos) -> None:
    kept = kept_room(repos, intent.session_id)
    if kept.workspace.state is WorkspaceState.READY:
        return
    move_workspace(repos, kept, WorkspaceState.READY)
    if kept.host.state is HostState.ARCHIVED:
        repos.hosts.move(kept.host.id, HostState.PARKED)
    detail = f"the workspace is back from export {intent.export_id}: {intent.files} files; {intent.checkpoint}"
    repos.events.append(intent.room_id, None, [SessionNotice(code=RESTORED, detail=detail)])


def _archived_again(intent: RestoreIntent, repos: Repos) -> None:
    kept = kept_room(repos, intent.session_id)
    if kept.workspace.state is WorkspaceState.RECOVERING:
        move_workspace(repos, kept, WorkspaceState.ARCHIVED)
