"""The composition root: the only place that calls the constructors of services. Two daemons in one process share nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from jamcore.daemon.activity import Activities
from jamcore.daemon.approvals import Approvals
from jamcore.daemon.change_sources import StoredSources
from jamcore.daemon.changes import Changes
from jamcore.daemon.credentials import Credentials
from jamcore.daemon.enginehouse import EngineHouse, open_engines
from jamcore.daemon.host_overrides import HostOverrides
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.identity import daemon_identity
from jamcore.daemon.inventory import SandboxInventory
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.providers import Providers
from jamcore.daemon.recovery import Recovery
from jamcore.daemon.resolve import Resolver
from jamcore.daemon.reviews import Reviews
from jamcore.daemon.rooms import Rooms
from jamcore.daemon.runs import Runs
from jamcore.daemon.services import Services
from jamcore.daemon.startup import start_up
from jamcore.daemon.system import SystemStatus
from jamcore.domain import layout
from jamcore.engines.registry import EngineRegistry
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.runs.change_action import change_action
from jamcore.runs.change_request import ChangeBuilder
from jamcore.runtime.allocator import Allocator
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool, worker_pool
from jamcore.runtime.provision import SessionProvisioner
from jamcore.runtime.worktree import WorkTrees
from jamcore.sandbox.records import OwnerRecords
from jamcore.sandbox.toolchain import Toolchains
from jamcore.store import StoreJournal, open_store
from jamcore.system.tasks import owned_tasks
from jamcore.workspace.provision import Provisioner


@asynccontextmanager
async def composed(options: DaemonOptions) -> AsyncIterator[Services]:
    """Build everything, run the start-up steps, and yield the services; at the end every host is parked and everything is closed.

    The caller owns the app directory (its lock) for as long as the context is open.

    Raises:
        JamError: Something that the daemon cannot do without is not usable.
    """
    identity = daemon_identity(options.app, files=options.files, ids=options.ids)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            open_store(
                options.database_url or options.app / layout.DATABASE,
                files=options.files,
                clock=options.clock,
                daemon_id=identity,
            )
        )
        plugins = await _plugins(options)
        engines = await _open_engines(stack, options)
        credentials = _credentials(options, plugins)
        toolchains = Toolchains(options.app, files=options.files, wheel_directory=options.wheel_directory)
        feed = RoomFeed(store)
        work_trees = WorkTrees(app=options.app, files=options.files)
        provisioner = SessionProvisioner(
            store=store, layout=Provisioner(options.app, files=options.files), clock=options.clock, ids=options.ids
        )
        hosts = HostWorkers(
            options,
            store=store,
            feed=feed,
            plugins=plugins,
            engines=engines,
            credentials=credentials,
            work_trees=work_trees,
        )
        tasks = await stack.enter_async_context(owned_tasks())
        stack.callback(tasks.cancel_scope.cancel)
        gate = StopGate()
        pool = await stack.enter_async_context(worker_pool(hosts, leases=hosts.leases, gate=gate, limits=options.limits))
        inventory = SandboxInventory(
            store=store,
            engines=engines,
            records=OwnerRecords(options.app, files=options.files),
            clock=options.clock,
            limits=options.limits,
        )
        journal = StoreJournal(store)
        runner = Runner(journal, options.crash)
        status = SystemStatus(
            options,
            identity=identity,
            engines=engines,
            plugins=plugins,
            toolchains=toolchains,
            credentials=credentials,
            inventory=inventory,
            leases=hosts.leases,
            activities=Activities(store=store, pool=pool, gate=gate, runner=runner),
        )
        tasks.start_soon(_end_at_once, status, pool)
        rooms = Rooms(
            store=store,
            feed=feed,
            pool=pool,
            leases=hosts.leases,
            resolver=Resolver(
                plugins=plugins,
                engines=engines,
                toolchains=toolchains,
                credentials=credentials,
                app=options.app,
                resources=options.resources,
            ),
            allocator=Allocator(store=store, clock=options.clock, ids=options.ids),
            provisioner=provisioner,
            clock=options.clock,
            gate=gate,
        )
        sources = StoredSources(store=store, engines=engines, work_trees=work_trees, clock=options.clock)
        action = change_action(ChangeBuilder(options.app, files=options.files, crash=options.crash), sources)
        actions = ActionRegistry()
        actions.register(action)
        overrides = HostOverrides(
            store=store,
            feed=feed,
            engines=engines,
            ownership=hosts.ownership,
            kept_down=pool.kept_down,
            runner=runner,
            actions=actions,
        )
        changes = Changes(options.app, store=store, runner=runner, action=action, sources=sources, gate=gate)
        reviews = Reviews(options, store=store, feed=feed, runner=runner, actions=actions, rooms=rooms)
        runs = Runs(store=store, rooms=rooms, changes=changes, feed=feed, tasks=tasks)
        recovery = Recovery(
            options,
            store=store,
            engines=engines,
            hosts=hosts,
            provisioner=provisioner,
            runs=runs,
            unfinished=partial(actions.replay, journal, runner),
        )
        status.remember(await start_up(recovery.steps()))
        tasks.start_soon(inventory.after_start)
        yield Services(
            system=status,
            providers=Providers(plugins=plugins, engines=engines, toolchains=toolchains, gate=gate),
            credentials=credentials,
            rooms=rooms,
            hosts=overrides,
            approvals=Approvals(store=store, desk=hosts.desk),
            runs=runs,
            changes=changes,
            reviews=reviews,
            inventory=inventory,
        )


async def _plugins(options: DaemonOptions) -> ProviderManager:
    """Load every installed provider plugin; one that cannot be loaded is reported, not fatal."""
    plugins = ProviderManager()
    await plugins.load(blocked=options.blocked_plugins)
    return plugins


def _credentials(options: DaemonOptions, plugins: ProviderManager) -> Credentials:
    """Return the daemon's secrets, told what every loaded plugin needs."""
    credentials = Credentials(options.app, files=options.files, environment=options.environment)
    for name in plugins.names():
        if spec := plugins.provider(name).description.credential:
            credentials.know(spec)
    return credentials


async def _end_at_once(status: SystemStatus, pool: WorkerPool) -> None:
    """Begin the end of all work when the stop is asked for, not when the last client has had its answer (START-4)."""
    await status.stopped()
    await pool.stop_all()


async def _open_engines(stack: AsyncExitStack, options: DaemonOptions) -> EngineHouse:
    """Open every installed engine, each with private directories of its own."""
    registry = EngineRegistry()
    await registry.load(blocked=options.blocked_plugins)
    return await open_engines(
        stack,
        registry,
        options.app,
        files=options.files,
        preferred=options.engine,
        sandboxing=options.sandboxing,
        probe_within_s=options.limits.read_s,
        host=options.engine_host,
        storage_volume=options.storage_volume,
    )
