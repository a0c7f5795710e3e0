"""Puts together what takes exports from elsewhere in: a part of the composition root, which calls it once for each daemon."""

from __future__ import annotations

from dataclasses import dataclass

from jamcore.continuity.exporting.building import CheckpointBuilder
from jamcore.daemon.adoptions import Adoptions
from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.imports import Imports
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.resolve import Resolver
from jamcore.daemon.rooms import Rooms
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.allocator import Allocator
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.store import Store


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The services. Both kinds are registered when this is made."""

    imports: Imports
    adoptions: Adoptions


def elsewhere(
    options: DaemonOptions,
    *,
    store: Store,
    feed: RoomFeed,
    plugins: ProviderManager,
    hosts: HostWorkers,
    pool: WorkerPool,
    making: ExportMaking,
    resolver: Resolver,
    rooms: Rooms,
    gate: StopGate,
    runner: Runner,
    actions: ActionRegistry,
) -> Elsewhere:
    """Build them."""
    builder = CheckpointBuilder(hosts.generations, broker=hosts.broker, store=store, clock=options.clock, crash=options.crash)
    imports = Imports(
        options,
        store=store,
        plugins=plugins,
        making=making,
        builder=builder,
        toolchains=resolver.toolchains,
        gate=gate,
        runner=runner,
        actions=actions,
    )
    adoptions = Adoptions(
        options,
        store=store,
        feed=feed,
        plugins=plugins,
        hosts=hosts,
        pool=pool,
        making=making,
        imports=imports,
        builder=builder,
        resolver=resolver,
        allocator=Allocator(store=store, clock=options.clock, ids=options.ids),
        rooms=rooms,
        gate=gate,
        runner=runner,
        actions=actions,
    )
    return Elsewhere(imports=imports, adoptions=adoptions)
