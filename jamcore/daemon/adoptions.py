"""New rooms of exports from elsewhere: the service, and what the journaled adoption asks for (WS-6, CONT-1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

import anyio
from anyio import from_thread

from jamcore.continuity.exporting.building import Build, CheckpointBuilder
from jamcore.continuity.exporting.seats import Seat
from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.imports import Imports, taken_in
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.resolve import Resolver, require_model
from jamcore.daemon.rooms import NOT_ISOLATED, Rooms
from jamcore.daemon.workspaces import KeptRoom, kept_room, move_workspace
from jamcore.domain import layout
from jamcore.domain.checkpoint_exports import CheckpointImportRefusedError
from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.events import SessionNotice
from jamcore.domain.exports import CHECKPOINT, ExportDamagedError, ExportManifest, TreeChangedError
from jamcore.domain.imports import AdoptRequest, ConversationNotTakenError, ExportQuarantinedError, NotFromElsewhereError
from jamcore.domain.kept_exports import ExportMaker, ExportState, KeptExport
from jamcore.domain.requests import RoomRequest, RoomView
from jamcore.domain.sandboxes import Isolation
from jamcore.domain.sessions import HostState, WorkspaceState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.journal.steps import about
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.allocator import Allocation, Allocator, GivenIds
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.workspace.keeping.adopting import KIND, AdoptIntent, adopt_action
from jamcore.workspace.keeping.importing import ImportIntent
from jamcore.workspace.provision import HostManifest, Provisioner

ADOPTED = "workspace.adopted"
NOT_ADOPTED = "workspace.not_adopted"
_NOT_WHAT_WAS_CONFIRMED = (ExportDamagedError, TreeChangedError, CheckpointImportRefusedError, ConflictError, NotFoundError)


class Adoptions:
    """See :class:`~jamcore.daemon.services.ImportService`; adds the journaled adoption to ``actions``."""

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
        imports: Imports,
        builder: CheckpointBuilder,
        resolver: Resolver,
        allocator: Allocator,
        rooms: Rooms,
        gate: StopGate,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._app = options.app
        self._store = store
        self._feed = feed
        self._plugins = plugins
        self._hosts = hosts
        self._pool = pool
        self._making = making
        self._imports = imports
        self._builder = builder
        self._resolver = resolver
        self._allocator = allocator
        self._rooms = rooms
        self._gate = gate
        self._runner = runner
        self._layout = Provisioner(options.app, files=options.files)
        self._beginning: dict[UUID, anyio.Lock] = {}
        self._action = adopt_action(self, _NOT_WHAT_WAS_CONFIRMED)
        actions.register(self._action)

    async def restore(self, ref: str, request: AdoptRequest) -> RoomView:
        """Make a parked room of a confirmed export. An exact retry returns the same room; one that was cut is finished.

        Raises:
            NotFromElsewhereError, ExportQuarantinedError: The export may not become a room.
            ExportDamagedError: It is not what was confirmed.
            ConversationNotTakenError: Its conversation cannot be taken up here, and nobody said that it may stay behind.
            ConflictError: It became a room already, or the id was used for something else.
            JamError: What stands against such a room here.
        """
        with self._gate.until_stop("make a room of an export"):
            async with self._beginning.setdefault(request.id, anyio.Lock()):  # two exact retries at once must not begin it twice
                intent = await self._store.read(partial(_begun, ref, request)) or await self._begin(ref, request)
            await self._runner.run(self._action, intent.id, intent)
        return await self._rooms.get(str(intent.room_id))

    async def _begin(self, ref: str, request: AdoptRequest) -> AdoptIntent:
        """Look at everything once more, and keep the rows with the intent. Nothing is made before."""
        row = await self._store.read(partial(_adoptable, ref))
        manifest = (await self._making.verified(row.id, row.manifest_sha256)).manifest
        claim = await self._imports.claim(row, manifest)
        if claim.problem and not request.without_conversation:
            raise ConversationNotTakenError(export=str(row.id), problem=claim.problem)
        ids = (await self._store.read(partial(taken_in, ImportIntent, row.id))).new_ids()
        asked = await self._resolver.resolve(_room_request(request, ids.room_id, manifest))
        if request.without_conversation:
            require_model(asked.request, asked.hooks.description)
        checkpoint = None if request.without_conversation else ids.checkpoint_id
        begun: list[AdoptIntent] = []
        begin = partial(_keep, row, request, checkpoint, begun.append)
        new = await self._allocator.allocate_given(asked, GivenIds(ids.agent_id, ids.session_id), begin)
        if asked.engine.isolation is Isolation.NONE:
            await self._feed.append(new.room.id, None, [NOT_ISOLATED])
        return begun[-1]

    # -------------------------------------------------------------------------------------------------- what the action asks

    async def lay_out(self, intent: AdoptIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.adopting.AdoptSources`."""
        kept = await self._kept(intent)
        native = await self._store.read(lambda repos: repos.host_native.of_session(intent.session_id))
        make = partial(
            self._layout.provision,
            HostManifest.of(kept.host),
            session=intent.session_id,
            source=kept.workspace.source,
            subdirectories=(),
            elsewhere=native.sessions_path if native else None,
            without_own=True,
        )
        if not await in_thread(make):
            raise ConflictError(kind="host", ref=str(kept.host.id), problem="its directory is somebody else's")

    async def build(self, intent: AdoptIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.adopting.AdoptSources`."""
        kept = await self._kept(intent)
        assert intent.checkpoint_id is not None
        export = await self._store.read(lambda repos: repos.exports.get(intent.export_id))
        held = (await in_thread(partial(self._making.manifest, export))).checkpoint
        if held is None:
            raise CheckpointImportRefusedError(path=".", reason="no conversation is in it")
        build = Build(
            directory=self._app / layout.export_root(intent.export_id) / CHECKPOINT,
            digest=held.digest,
            host=kept.host,
            checkpoint_id=intent.checkpoint_id,
            sessions={one.session_id: Seat(intent.session_id, one.last_turn_id) for one in held.sessions},
            captures=await self._plugins.provider(kept.host.provider).declare_capture(),
        )
        async with self._pool.kept_down(kept.host.id):
            await self._builder.build(build)

    async def place(self, intent: AdoptIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.adopting.AdoptSources`."""
        tree = self._making.tree(await self._kept(intent))
        restore = self._making.reader.restore
        await in_thread(lambda: restore(intent.export_id, intent.digest, tree, from_thread.check_cancelled))

    async def is_placed(self, intent: AdoptIntent) -> bool:
        """See :class:`~jamcore.workspace.keeping.adopting.AdoptSources`."""
        tree = self._making.tree(await self._kept(intent))
        return await in_thread(partial(self._making.is_placed, intent.export_id, intent.digest, tree))

    async def settle(self, intent: AdoptIntent) -> None:
        """See :class:`~jamcore.workspace.keeping.adopting.AdoptSources`."""
        await self._store.transact(partial(_settled, intent))
        self._feed.announce(intent.room_id)

    async def give_up(self, intent: AdoptIntent, error: Exception) -> None:
        """See :class:`~jamcore.workspace.keeping.adopting.AdoptSources`."""
        tree = self._making.tree(await self._kept(intent))
        place = str(self._app.resolve() / tree) if await in_thread(partial(self._making.is_there, tree)) else None
        await self._store.transact(partial(_given_up, intent, place, str(error)))
        self._feed.announce(intent.room_id)

    # ---------------------------------------------------------------------------------------------------------------- inside

    async def _kept(self, intent: AdoptIntent) -> KeptRoom:
        return await self._store.read(lambda repos: kept_room(repos, intent.session_id))


def _room_request(request: AdoptRequest, room: UUID, manifest: ExportManifest) -> RoomRequest:
    return RoomRequest(
        id=room,
        name=request.name,
        provider=manifest.request.origin.provider,
        engine=request.engine,
        model=request.model,
        approvals=request.approvals,
        endpoint=request.endpoint,
        resources=request.resources,
    )


def _begun(ref: str, request: AdoptRequest, repos: Repos) -> AdoptIntent | None:
    """Return the intent of an adoption that was begun under this id.

    Raises:
        ConflictError: The id was used for something else (WS-11).
    """
    if not repos.operations.knows(request.id):
        return None
    known = repos.operations.get(request.id)
    if known.kind == KIND and known.export_id == repos.exports.find(ref).id:
        intent = AdoptIntent.model_validate_json(repos.operations.initial(request.id) or "")
        if intent.asked == request.content_digest():
            return intent
    raise ConflictError(kind="operation", ref=str(request.id), problem="it was begun for something else")


def _adoptable(ref: str, repos: Repos) -> KeptExport:
    row = repos.exports.find(ref)
    if row.maker is not ExportMaker.ELSEWHERE:
        raise NotFromElsewhereError(export=str(row.id), problem="it was made here")
    if row.state is ExportState.QUARANTINED:
        raise ExportQuarantinedError(export=str(row.id), state=row.state)
    if row.state is not ExportState.PUBLISHED:
        raise NotFromElsewhereError(export=str(row.id), problem=f"it is {row.state}")
    if row.room_id is not None:
        raise NotFromElsewhereError(export=str(row.id), problem=f"it became the room {repos.rooms.get(row.room_id).name}")
    return row


def _keep(
    row: KeptExport,
    request: AdoptRequest,
    checkpoint: UUID | None,
    tell: Callable[[AdoptIntent], None],
    repos: Repos,
    new: Allocation,
) -> None:
    """Keep the intent beside the rows, and whose the export is: who comes second finds that it is taken."""
    intent = AdoptIntent(
        id=request.id,
        export_id=row.id,
        room_id=new.room.id,
        host_id=new.host.id,
        session_id=new.session.id,
        workspace_id=new.workspace.id,
        asked=request.content_digest(),
        digest=row.manifest_sha256,
        checkpoint_id=checkpoint,
    )
    repos.exports.adopt(row.id, agent=new.room.agent_id, session=new.session.id, room=new.room.id)
    repos.operations.begin(intent.id, KIND, intent.canonical_json().decode(), about(intent))
    tell(intent)


def _settled(intent: AdoptIntent, repos: Repos) -> None:
    kept = kept_room(repos, intent.session_id)
    if kept.workspace.state is WorkspaceState.READY:
        return
    move_workspace(repos, kept, WorkspaceState.READY)
    if kept.host.state is HostState.PROVISIONING:
        repos.hosts.move(kept.host.id, HostState.PARKED)
    spoken = "its conversation goes on" if intent.checkpoint_id else "a new conversation begins, as a person said"
    detail = f"made of export {intent.export_id}, which came from elsewhere; {spoken}"
    repos.events.append(intent.room_id, None, [SessionNotice(code=ADOPTED, detail=detail)])


def _given_up(intent: AdoptIntent, place: str | None, problem: str, repos: Repos) -> None:
    """Note that the workspace cannot be used, and whether that is for want of its files or for what lies in their ``place``."""
    kept = kept_room(repos, intent.session_id)
    if kept.workspace.state is WorkspaceState.PROVISIONING:
        move_workspace(repos, kept, WorkspaceState.NEEDS_RECONCILIATION)
        wrong = f"its files never came: export {intent.export_id} is not what was confirmed ({problem})"
        if place is not None:
            told = f"cannot be held to be what was confirmed of export {intent.export_id} ({problem})"
            wrong = f"what lies in {place} {told}: `jam workspace recover ROOM export` exports it"
        detail = f"{wrong}; import the export once more, as another room"
        repos.events.append(intent.room_id, None, [SessionNotice(code=NOT_ADOPTED, detail=detail)])
    if kept.host.state is HostState.PROVISIONING:
        repos.hosts.move(kept.host.id, HostState.PARKED)
