"""Bringing archived workspaces back: the service, and what the journaled restore asks for (WS-6, CONT-1)."""

from __future__ import annotations

from functools import partial
from pathlib import Path, PurePosixPath
from uuid import UUID

from anyio import from_thread, to_thread

from jamcore.continuity.exporting.building import Build, CheckpointBuilder
from jamcore.continuity.exporting.seats import Seat
from jamcore.continuity.generations.looking import Look
from jamcore.continuity.generations.publish import Generations
from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.restorable import begun_restore, usable_export
from jamcore.daemon.workspaces import KeptRoom, kept_room, move_workspace
from jamcore.domain import layout
from jamcore.domain.checkpoint_exports import CheckpointSummary
from jamcore.domain.continuity import Checkpoint, CheckpointCorruptError
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import SessionNotice
from jamcore.domain.exports import CHECKPOINT
from jamcore.domain.keeping import RestoreRequest, RestoreResult
from jamcore.domain.kept_exports import KeptExport
from jamcore.domain.sessions import HostState, WorkspaceState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.sandbox.override import HostInUseError
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.workspace.keeping.aside import SetAside
from jamcore.workspace.keeping.restoring import CheckedExport, RestoreIntent, restore_action

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
            HostRemovedError: The sandbox was removed, and the room's place with it.
            WorkspaceBusyError: Another operation of the workspace has not ended.
            ConflictError: Something is in its place, or another shared sandbox of the agent lives.
            ExportDamagedError: The export is damaged; nothing was changed.
        """
        intent = await self._store.read(partial(begun_restore, ref, request))
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
        if await in_thread(lambda: self._aside.is_there(tree)):
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
        try:
            await self._build(intent, kept, held)
        except CheckpointCorruptError as error:  # the files wait for nothing: what is resumed is decided, and refused, by itself
            return f"the conversation cannot be brought back, and `jam continuity {kept.room.name}` says why: {error.detail}"
        return f"the conversation comes back from the export, which has generation {held.generation}"

    async def enter(self, intent: RestoreIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        await self._store.transact(partial(_move, intent, WorkspaceState.RECOVERING))

    async def place(self, intent: RestoreIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        _, tree = await self._required(intent)
        await in_thread(lambda: self._place(intent, tree))

    async def is_placed(self, intent: RestoreIntent) -> bool:
        """See :class:`~jamcore.workspace.keeping.restoring.RestoreSources`."""
        tree = self._making.tree(await self._kept(intent))
        return await in_thread(partial(self._making.is_placed, intent.export_id, intent.digest, tree))

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
        return await self._store.read(partial(usable_export, intent, kept)), self._making.tree(kept)

    async def _sound(self, kept: KeptRoom) -> Checkpoint | None:
        """Return the newest checkpoint from which the session resumes and that is whole; what is not is noted."""
        while row := (await self._making.checkpoint(kept)).checkpoint:
            problem = await in_thread(partial(self._problem, row))
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
