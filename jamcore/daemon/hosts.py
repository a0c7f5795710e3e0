"""Makes the worker of a stored host: joins its records, its plugin, its engine and the daemon's shared objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from uuid import UUID

from jamcore.continuity.capturing.broker import CheckpointBroker, Freeze
from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.resuming.activate import Activator
from jamcore.continuity.resuming.databases import DatabaseActivator
from jamcore.continuity.resuming.observe import Observer
from jamcore.daemon.credentials import Credentials
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.removed_hosts import require_there
from jamcore.daemon.workspaces import kept_room, require_usable
from jamcore.domain import layout
from jamcore.domain.cells import Ability, Placement
from jamcore.domain.continuity import Checkpoint, CheckpointReason
from jamcore.domain.errors import ConflictError
from jamcore.domain.limits import CHECKPOINT_WAIT_S
from jamcore.domain.plan import ModelEndpoint, Plan
from jamcore.domain.providers import CredentialMissingError
from jamcore.domain.resets import ResetUnfinishedError
from jamcore.domain.sessions import RuntimeHost, RuntimeSession, SessionWorkspace
from jamcore.egress.heard import LastAnswer
from jamcore.egress.loopback import LoopbackDoor
from jamcore.egress.relay import Relay, RelayCredential
from jamcore.engines.port import Engine, Freezes
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.allocator import require_seat
from jamcore.runtime.approvals import ApprovalDesk
from jamcore.runtime.bringup import BringUp
from jamcore.runtime.continuity import HostContinuity
from jamcore.runtime.databases import GuestPython, HostDatabases
from jamcore.runtime.deadlines import Deadlines
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.leases import Leases
from jamcore.runtime.seat import Seat
from jamcore.runtime.standing import HostStanding
from jamcore.runtime.turns import TurnRunner
from jamcore.runtime.unproven import unproven_of
from jamcore.runtime.unsaved import UnsavedHosts
from jamcore.runtime.worker import HostWorker
from jamcore.runtime.worktree import WorkTrees
from jamcore.sandbox.fence import fence
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.places import GuestView, guest_view
from jamcore.sandbox.prepare import Preparer
from jamcore.sandbox.records import OwnerRecords
from jamcore.store import Repos, Store
from jamcore.workspace.clone_work import look_at_clone


class HostWorkers:
    """Holds what all workers of one daemon share: coordinators, broker, activator, observer, the desk, the leases."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        feed: RoomFeed,
        plugins: ProviderManager,
        engines: EngineHouse,
        credentials: Credentials,
        work_trees: WorkTrees,
    ) -> None:
        self._options = options
        self._store = store
        self._feed = feed
        self._plugins = plugins
        self._engines = engines
        self._credentials = credentials
        self._work_trees = work_trees
        self._scratch = options.files.make_private(options.app / layout.CHANGES)
        self.leases = Leases()
        self.desk = ApprovalDesk(
            store=store,
            feed=feed,
            clock=options.clock,
            ids=options.ids,
            deadline_s=options.approval_deadline_s,
            crash=options.crash,
        )
        self._coordinators = Coordinators()
        self.generations = generations = Generations(options.app, files=options.files)
        self.broker = CheckpointBroker(
            generations, store=store, coordinators=self._coordinators, crash=options.crash, clock=options.clock, ids=options.ids
        )
        self._activator = Activator(
            generations,
            broker=self.broker,
            store=store,
            coordinators=self._coordinators,
            crash=options.crash,
            clock=options.clock,
            ids=options.ids,
        )
        self._database_activator = DatabaseActivator(generations, coordinators=self._coordinators, ids=options.ids)
        self._observer = Observer(store)
        self.unsaved = UnsavedHosts(store, clock=options.clock, ids=options.ids)

    def ownership(self, engine: Engine) -> Ownership:
        """Return the owner records joined with an engine."""
        options = self._options
        records = OwnerRecords(options.app, files=options.files)
        look = partial(look_at_clone, scratch=self._scratch)
        return Ownership(records, engine, crash=options.crash, limits=options.limits, look=look)

    async def seat(self, host: UUID, session: UUID, *, live: int) -> Seat:
        """Return a seat for a session on a host that has ``live`` others.

        Raises:
            UnknownProviderError: The host's plugin is not there any more.
            SharedHostFullError: The provider takes no more sessions on this host now (SHARE-5).
        """
        stored, record, workspace, room, name = await self._store.read(partial(_rows, host, session))
        own_process = False
        if stored.cell.placement is Placement.SHARED:
            own_process = (await require_seat(self._plugins.provider(stored.provider), stored.sandbox, live)).own_process
        workspace = _seen(workspace, guest_view(Plan.model_validate_json(stored.plan_json), self._options.app))
        return Seat(session=record, workspace=workspace, room_id=room, room_name=name, own_process=own_process)

    async def make(self, host: UUID) -> HostWorker:
        """Return the worker of a host, not started and without a seat.

        Raises:
            UnknownProviderError, EngineUnavailableError: The host's plugin or engine is not there any more.
            HostUnsavedError: Its final checkpoint failed, and nobody settled that (CONT-8).
        """
        await self.unsaved.require_saved(host)
        return self._worker(await self._host(host))

    async def fence(self, host: UUID) -> None:
        """Return once nothing runs in a host's sandbox; for a host that this daemon has no worker for."""
        stored = await self._host(host)
        await fence(self.ownership(self._engines.get(stored.engine)), Plan.model_validate_json(stored.plan_json))

    @asynccontextmanager
    async def still(self, host: UUID, what: str) -> AsyncIterator[None]:
        """Let no turn of a live host run, and where its engine can hold them, no process, until the block ends.

        Raises:
            HostBusyError: Its turns did not end in time.
            JamError: The engine could not hold it.
        """
        stored = await self._host(host)
        freeze = _freeze(self._engines.get(stored.engine), stored.sandbox)
        alone = self._coordinators.for_host(host, stored.sandbox).exclusive(what, CHECKPOINT_WAIT_S)
        async with alone, freeze() if freeze else nullcontext():
            yield

    async def capture_at_rest(self, host: UUID) -> Checkpoint | None:
        """Publish a generation of a host on which nothing runs; no turn is taken to be in it that nobody compared (CONT-8).

        Raises:
            SiblingRefusedError: What kept its worker from making it keeps it from being made now (CONT-7).
            JamError: It was not published.
        """
        continuity = self.continuity(await self._host(host))
        continuity.melt()
        continuity.unproven.update(await self._store.read(partial(unproven_of, host)))
        return await continuity.capture(CheckpointReason.BEFORE_STOP, confirmed=False)

    async def hindrance(self, host: UUID) -> str | None:
        """Return why the live state of a host would not be used for a resume; ``None``: it extends the newest generation."""
        return await self.continuity(await self._host(host)).hindrance()

    async def _host(self, host: UUID) -> RuntimeHost:
        return await self._store.read(lambda repos: repos.hosts.get(host))

    def continuity(self, host: RuntimeHost) -> HostContinuity:
        """Return what decides, places and captures for a stored host, for use outside its worker.

        Raises:
            UnknownProviderError, EngineUnavailableError: The host's plugin or engine is not there any more.
        """
        plan, engine = Plan.model_validate_json(host.plan_json), self._engines.get(host.engine)
        return HostContinuity(
            host=host,
            hooks=self._plugins.provider(host.provider),
            state_root=self._options.app / layout.provider_state(host.id, host.provider),
            scratch_root=self._options.app / layout.guest_disk(host.id) / "home",
            program_version=plan.toolchain.version if plan.toolchain else "unknown",
            freeze=_freeze(engine, plan.name),
            broker=self.broker,
            activator=self._activator,
            observer=self._observer,
            store=self._store,
            feed=self._feed,
            clock=self._options.clock,
            ids=self._options.ids,
            databases=self._databases(host, plan, engine),
        )

    def _worker(self, host: RuntimeHost) -> HostWorker:
        plan = Plan.model_validate_json(host.plan_json)
        hooks, engine = self._plugins.provider(host.provider), self._engines.get(host.engine)
        model = LastAnswer(plan.endpoint)
        bring_up = BringUp(
            plan=plan,
            hooks=hooks,
            engine=engine,
            preparer=Preparer(
                self._options.app,
                ownership=self.ownership(engine),
                files=self._options.files,
                ids=self._options.ids,
                park_sandbox=_left_to_the_worker,
            ),
            open_route=partial(self._open_route, model),
            open_door=LoopbackDoor.open,
            continuity=self.continuity(host),
            standing=HostStanding(host=host, store=self._store, feed=self._feed, unsaved_hosts=self.unsaved),
            work_trees=self._work_trees,
        )
        runner = TurnRunner(
            store=self._store,
            feed=self._feed,
            clock=self._options.clock,
            coordinator=self._coordinators.for_host(host.id, host.sandbox),
            desk=self.desk,
            deadlines=Deadlines(self._options.clock, self._options.limits, asked=model.said),
            crash=self._options.crash,
            captures=hooks.description.continuity,
        )
        return HostWorker(bring_up=bring_up, leases=self.leases, runner=runner, limits=self._options.limits)

    def _databases(self, host: RuntimeHost, plan: Plan, engine: Engine) -> HostDatabases:
        python = GuestPython(self.ownership(engine), plan)
        guest = python.databases(guest_view(plan, self._options.app), str(host.id))
        return HostDatabases(python, guest, self._database_activator)

    @asynccontextmanager
    async def _open_route(self, model: LastAnswer, endpoint: ModelEndpoint, prefix: str) -> AsyncIterator[Relay]:
        """Open the relay of an endpoint with its credential as it is now; the secret stays in the daemon (ENV-4)."""
        credential = None if endpoint.credential is None else await self._credential(endpoint.credential)
        async with Relay.open(endpoint, credential=credential, decided=model.note, prefix=prefix) as relay:
            yield relay

    async def _credential(self, name: str) -> RelayCredential:
        secret = await self._credentials.secret(name)
        spec = self._credentials.spec(name)
        if secret is None:
            names = spec.environment_names if spec else (f"JAM_CREDENTIAL_{name.upper()}",)
            raise CredentialMissingError(credential=name, variables=names)
        header, word = (spec.header, spec.prefix) if spec else ("authorization", "Bearer ")
        return RelayCredential(header=header, value=word + secret)


def _seen(workspace: SessionWorkspace, view: GuestView) -> SessionWorkspace:
    """Return a session's workspace with its directory where the session's guest sees it."""
    return workspace.model_copy(update={"guest_path": view.path(workspace.guest_path)})


async def _left_to_the_worker(_sandbox: str) -> None:
    """Park nothing: the worker was told that the sandbox is its own, and its finaliser parks it within the one budget of an end."""


def _freeze(engine: Engine, sandbox: str) -> Freeze | None:
    if Ability.FREEZE in engine.abilities and isinstance(engine, Freezes):
        return partial(engine.frozen, sandbox)
    return None


def _rows(host: UUID, session: UUID, repos: Repos) -> tuple[RuntimeHost, RuntimeSession, SessionWorkspace, UUID, str]:
    stored, binding = repos.hosts.get(host), repos.bindings.of_session(session)
    if not binding.live:
        raise ConflictError(kind="session", ref=str(session), problem="its room began a new conversation meanwhile: say it again")
    require_there(repos, stored)
    room = repos.rooms.get(binding.room_id)
    if repos.continuity_resets.of_source(host) is not None:
        raise ResetUnfinishedError(host=stored.sandbox, room=room.name)
    require_usable(repos, kept_room(repos, session))
    return stored, repos.sessions.get(session), repos.workspaces.of_session(session), room.id, room.name
