"""The composition root: the only place that calls the constructors of services. Two daemons in one process share nothing.

It goes in phases: foundations (the store and what is installed), life (tasks, hosts), work (rooms and changes), then the start-up steps.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from anyio.abc import TaskGroup

from jamcore.continuity.resets.action import KIND as RESET
from jamcore.continuity.retention.deletion import KIND as DELETION
from jamcore.daemon.activity import Activities
from jamcore.daemon.approvals import Approvals
from jamcore.daemon.change_sources import StoredSources
from jamcore.daemon.changes import Changes
from jamcore.daemon.checkpoints import Checkpoints
from jamcore.daemon.clearing import Clearing, clearing
from jamcore.daemon.continuity_resets import ContinuityResets
from jamcore.daemon.credentials import Credentials
from jamcore.daemon.elsewhere import Elsewhere, elsewhere
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.host_overrides import HostOverrides
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.identity import daemon_identity
from jamcore.daemon.installed import credentials_for, load_plugins, open_installed_engines
from jamcore.daemon.inventory import SandboxInventory
from jamcore.daemon.journaled import Journaled, journaled
from jamcore.daemon.keeping import Keeping, keeping
from jamcore.daemon.last_checkpoints import LastCheckpoints
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.plugins import Blocks, Plugins
from jamcore.daemon.providers import Providers
from jamcore.daemon.reconciling import Places, places, reconcile_workspaces
from jamcore.daemon.recovery import Recovery
from jamcore.daemon.removals import Removals
from jamcore.daemon.reset_files import ResetFiles
from jamcore.daemon.reset_plan import ResetPlanner
from jamcore.daemon.resolve import Resolver
from jamcore.daemon.reviews import Reviews
from jamcore.daemon.rooms import Rooms
from jamcore.daemon.runs import Runs
from jamcore.daemon.services import Services
from jamcore.daemon.startup import start_up
from jamcore.daemon.system import SystemStatus
from jamcore.domain import layout
from jamcore.domain.ids import DaemonId
from jamcore.plugins.manager import ProviderManager
from jamcore.runs.change_action import change_action
from jamcore.runs.change_request import ChangeBuilder
from jamcore.runtime.allocator import Allocator
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool, worker_pool
from jamcore.runtime.worktree import WorkTrees
from jamcore.sandbox.cleanup import KIND as CLEANUP
from jamcore.sandbox.records import OwnerRecords
from jamcore.sandbox.toolchain import Toolchains
from jamcore.store import Store, open_store
from jamcore.system.tasks import owned_tasks


@dataclass(frozen=True, slots=True)
class _Foundations:
    """What everything else stands on: the store, what was installed, and the app directory's own parts."""

    identity: DaemonId
    store: Store
    blocks: Blocks
    plugins: ProviderManager
    engines: EngineHouse
    credentials: Credentials
    toolchains: Toolchains
    feed: RoomFeed
    work_trees: WorkTrees
    places: Places
    journaled: Journaled


@dataclass(frozen=True, slots=True)
class _Living:
    """Where everything runs that goes on beyond a request."""

    tasks: TaskGroup
    gate: StopGate
    hosts: HostWorkers
    pool: WorkerPool


@dataclass(frozen=True, slots=True)
class _Work:
    """What people do with rooms and their changes."""

    rooms: Rooms
    overrides: HostOverrides
    resets: ContinuityResets
    changes: Changes
    reviews: Reviews
    removals: Removals
    clearing: Clearing
    keeping: Keeping
    elsewhere: Elsewhere
    runs: Runs


@asynccontextmanager
async def composed(options: DaemonOptions) -> AsyncIterator[Services]:
    """Build everything, run the start-up steps, and yield the services; at the end every host is parked and everything is closed.

    The caller owns the app directory (its lock) for as long as the context is open.

    Raises:
        JamError: Something that the daemon cannot do without is not usable.
    """
    async with AsyncExitStack() as stack:
        base = await _lay_foundations(stack, options)
        live = await _bring_to_life(stack, options, base)
        parts = base.journaled
        inventory = _inventory(options, base)
        status = _status(options, base, live, parts, inventory)
        live.tasks.start_soon(_end_at_once, status, live.pool)
        work = _work(options, base, live, parts)
        status.remember(await start_up(_recovery(options, base, live, parts, work).steps(), options.told))
        live.tasks.start_soon(inventory.after_start)
        yield Services(
            system=status,
            providers=Providers(plugins=base.plugins, engines=base.engines, toolchains=base.toolchains, gate=live.gate),
            plugins=Plugins(plugins=base.plugins, engines=base.engines, blocks=base.blocks, clock=options.clock),
            credentials=base.credentials,
            rooms=work.rooms,
            hosts=work.overrides,
            continuity=work.resets,
            operations=base.journaled.operations,
            approvals=Approvals(store=base.store, desk=live.hosts.desk),
            runs=work.runs,
            changes=work.changes,
            reviews=work.reviews,
            inventory=inventory,
            checkpoints=Checkpoints(options.app, store=base.store, files=options.files),
            removals=work.removals,
            cleanups=work.clearing.cleanups,
            export_deletions=work.clearing.deletions,
            capacity=work.clearing.capacity,
            exports=work.keeping.exports,
            imports=work.elsewhere.imports,
            adoptions=work.elsewhere.adoptions,
            archives=work.keeping.archives,
            restores=work.keeping.restores,
            workspaces=work.keeping.workspaces,
        )


async def _lay_foundations(stack: AsyncExitStack, options: DaemonOptions) -> _Foundations:
    """Open the store, then what is installed."""
    identity = daemon_identity(options.app, files=options.files, ids=options.ids)
    store = await stack.enter_async_context(
        open_store(
            options.database_url or options.app / layout.DATABASE,
            files=options.files,
            clock=options.clock,
            daemon_id=identity,
        )
    )
    blocks = Blocks(options.app, files=options.files, setting=options.blocked_plugins)
    plugins = await load_plugins(options, blocks)
    parts = journaled(store, options.crash)
    feed = RoomFeed(store)
    return _Foundations(
        identity=identity,
        store=store,
        blocks=blocks,
        plugins=plugins,
        engines=await open_installed_engines(stack, options, blocks),
        credentials=credentials_for(options, plugins),
        toolchains=Toolchains(options.app, files=options.files, wheel_directory=options.wheel_directory),
        feed=feed,
        work_trees=WorkTrees(app=options.app, files=options.files),
        places=places(options, store, feed, parts),
        journaled=parts,
    )


async def _bring_to_life(stack: AsyncExitStack, options: DaemonOptions, base: _Foundations) -> _Living:
    """Open the daemon's own tasks and the pool of live hosts. In the end the hosts go first, then the tasks."""
    hosts = HostWorkers(
        options,
        store=base.store,
        feed=base.feed,
        plugins=base.plugins,
        engines=base.engines,
        credentials=base.credentials,
        work_trees=base.work_trees,
    )
    tasks = await stack.enter_async_context(owned_tasks())
    stack.callback(tasks.cancel_scope.cancel)
    gate = StopGate()
    pool = await stack.enter_async_context(worker_pool(hosts, leases=hosts.leases, gate=gate, limits=options.limits))
    return _Living(tasks=tasks, gate=gate, hosts=hosts, pool=pool)


def _inventory(options: DaemonOptions, base: _Foundations) -> SandboxInventory:
    return SandboxInventory(
        store=base.store,
        engines=base.engines,
        records=OwnerRecords(options.app, files=options.files),
        clock=options.clock,
        limits=options.limits,
    )


def _status(
    options: DaemonOptions, base: _Foundations, live: _Living, journaled: Journaled, inventory: SandboxInventory
) -> SystemStatus:
    return SystemStatus(
        options,
        identity=base.identity,
        engines=base.engines,
        plugins=base.plugins,
        toolchains=base.toolchains,
        credentials=base.credentials,
        inventory=inventory,
        leases=live.hosts.leases,
        activities=Activities(store=base.store, pool=live.pool, gate=live.gate, runner=journaled.runner),
    )


def _resolver(options: DaemonOptions, base: _Foundations) -> Resolver:
    return Resolver(
        plugins=base.plugins,
        engines=base.engines,
        toolchains=base.toolchains,
        credentials=base.credentials,
        app=options.app,
        resources=options.resources,
    )


def _rooms(options: DaemonOptions, base: _Foundations, live: _Living) -> Rooms:
    return Rooms(
        store=base.store,
        feed=base.feed,
        pool=live.pool,
        leases=live.hosts.leases,
        last=LastCheckpoints(store=base.store, feed=base.feed, hosts=live.hosts, pool=live.pool, gate=live.gate),
        resolver=_resolver(options, base),
        allocator=Allocator(store=base.store, clock=options.clock, ids=options.ids),
        provisioner=base.places.provisioner,
        clock=options.clock,
        gate=live.gate,
    )


def _work(options: DaemonOptions, base: _Foundations, live: _Living, journaled: Journaled) -> _Work:
    """Build what acts on rooms; every journaled kind is registered when this returns."""
    store, runner, actions = base.store, journaled.runner, journaled.actions
    rooms = _rooms(options, base, live)
    sources = StoredSources(store=store, engines=base.engines, work_trees=base.work_trees, clock=options.clock)
    action = change_action(ChangeBuilder(options.app, files=options.files, crash=options.crash), sources)
    actions.register(action)
    overrides = HostOverrides(
        store=store,
        feed=base.feed,
        engines=base.engines,
        ownership=live.hosts.ownership,
        kept_down=live.pool.kept_down,
        runner=runner,
        actions=actions,
    )
    changes = Changes(options.app, store=store, runner=runner, action=action, sources=sources, gate=live.gate)
    kept = _keeping(options, base, live)
    return _Work(
        rooms=rooms,
        overrides=overrides,
        resets=_resets(options, base, live, journaled, rooms),
        changes=changes,
        reviews=Reviews(options, store=store, feed=base.feed, runner=runner, actions=actions, rooms=rooms),
        removals=_removals(options, base, live, journaled),
        clearing=_clearing(options, base, live),
        keeping=kept,
        elsewhere=_elsewhere(options, base, live, kept, rooms),
        runs=Runs(store=store, rooms=rooms, changes=changes, feed=base.feed, tasks=live.tasks),
    )


def _resets(options: DaemonOptions, base: _Foundations, live: _Living, journaled: Journaled, rooms: Rooms) -> ContinuityResets:
    planner = ResetPlanner(
        store=base.store,
        plugins=base.plugins,
        engines=base.engines,
        toolchains=base.toolchains,
        clock=options.clock,
        ids=options.ids,
    )
    return ContinuityResets(
        store=base.store,
        feed=base.feed,
        engines=base.engines,
        hosts=live.hosts,
        rooms=rooms,
        provisioner=base.places.provisioner,
        planner=planner,
        files=ResetFiles(options.app, store=base.store, engines=base.engines, files=options.files),
        kept_down=live.pool.kept_down,
        gate=live.gate,
        clock=options.clock,
        runner=journaled.runner,
        actions=journaled.actions,
    )


def _removals(options: DaemonOptions, base: _Foundations, live: _Living, journaled: Journaled) -> Removals:
    return Removals(
        options,
        store=base.store,
        generations=live.hosts.generations,
        broker=live.hosts.broker,
        gate=live.gate,
        runner=journaled.runner,
        actions=journaled.actions,
    )


def _elsewhere(options: DaemonOptions, base: _Foundations, live: _Living, kept: Keeping, rooms: Rooms) -> Elsewhere:
    return elsewhere(
        options,
        store=base.store,
        feed=base.feed,
        plugins=base.plugins,
        hosts=live.hosts,
        pool=live.pool,
        making=kept.making,
        resolver=_resolver(options, base),
        rooms=rooms,
        gate=live.gate,
        runner=base.journaled.runner,
        actions=base.journaled.actions,
    )


def _keeping(options: DaemonOptions, base: _Foundations, live: _Living) -> Keeping:
    return keeping(
        options,
        store=base.store,
        feed=base.feed,
        plugins=base.plugins,
        engines=base.engines,
        work_trees=base.work_trees,
        hosts=live.hosts,
        pool=live.pool,
        gate=live.gate,
        places=base.places,
        journaled=base.journaled,
    )


def _clearing(options: DaemonOptions, base: _Foundations, live: _Living) -> Clearing:
    return clearing(
        options,
        store=base.store,
        feed=base.feed,
        engines=base.engines,
        hosts=live.hosts,
        pool=live.pool,
        gate=live.gate,
        runner=base.journaled.runner,
        actions=base.journaled.actions,
    )


def _recovery(options: DaemonOptions, base: _Foundations, live: _Living, journaled: Journaled, work: _Work) -> Recovery:
    return Recovery(
        options,
        store=base.store,
        engines=base.engines,
        hosts=live.hosts,
        runs=work.runs,
        cleanups=partial(journaled.actions.replay, journaled.journal, journaled.runner, only=CLEANUP),
        deletions=partial(journaled.actions.replay, journaled.journal, journaled.runner, only=DELETION),
        resets=partial(journaled.actions.replay, journaled.journal, journaled.runner, only=RESET),
        unfinished=partial(
            reconcile_workspaces,
            partial(journaled.actions.replay, journaled.journal, journaled.runner, but=(CLEANUP, DELETION, RESET)),
            base.places.reconciler,
        ),
    )


async def _end_at_once(status: SystemStatus, pool: WorkerPool) -> None:
    """Begin the end of all work when the stop is asked for, not when the last client has had its answer (START-4)."""
    await status.stopped()
    await pool.stop_all()
