"""Puts together what keeps workspaces: a part of the composition root, which calls it once for each daemon."""

from __future__ import annotations

from dataclasses import dataclass

from jamcore.daemon.archive_sources import ArchiveMaking
from jamcore.daemon.archives import Archives
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.export_sources import ExportMaking
from jamcore.daemon.exports import Exports
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.journaled import Journaled
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.reconciling import Places
from jamcore.daemon.recover_sources import RecoverMaking
from jamcore.daemon.restores import Restores
from jamcore.daemon.workspace_looks import WorkspaceLooks
from jamcore.daemon.workspace_recoveries import WorkspaceRecoveries
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.runtime.worktree import WorkTrees
from jamcore.store import Store


@dataclass(frozen=True, slots=True)
class Keeping:
    """The services. Every kind of theirs is registered when this is made; ``making`` is for others that need a verified export."""

    making: ExportMaking
    exports: Exports
    archives: Archives
    restores: Restores
    workspaces: WorkspaceRecoveries


def keeping(
    options: DaemonOptions,
    *,
    store: Store,
    feed: RoomFeed,
    plugins: ProviderManager,
    engines: EngineHouse,
    work_trees: WorkTrees,
    hosts: HostWorkers,
    pool: WorkerPool,
    gate: StopGate,
    places: Places,
    journaled: Journaled,
) -> Keeping:
    """Build them."""
    runner, actions = journaled.runner, journaled.actions
    making = ExportMaking(options, store=store, plugins=plugins, engines=engines, hosts=hosts, pool=pool, work_trees=work_trees)
    archiving = ArchiveMaking(options, store=store, feed=feed, engines=engines, hosts=hosts, pool=pool, making=making)
    exports = Exports(options.app, store=store, making=making, gate=gate, clock=options.clock, runner=runner, actions=actions)
    return Keeping(
        making=making,
        exports=exports,
        archives=Archives(store=store, archiving=archiving, pool=pool, gate=gate, runner=runner, actions=actions),
        restores=Restores(
            options,
            store=store,
            feed=feed,
            plugins=plugins,
            hosts=hosts,
            pool=pool,
            making=making,
            gate=gate,
            runner=runner,
            actions=actions,
        ),
        workspaces=WorkspaceRecoveries(
            store=store,
            looks=WorkspaceLooks(
                options.app,
                store=store,
                pool=pool,
                archiving=archiving,
                reconciler=places.reconciler,
                operations=journaled.operations,
            ),
            places=places,
            exports=exports,
            making=making,
            recovering=RecoverMaking(options, store=store, feed=feed, pool=pool, making=making),
            pool=pool,
            gate=gate,
            clock=options.clock,
            journaled=journaled,
        ),
    )
