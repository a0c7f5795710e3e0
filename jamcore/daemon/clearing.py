"""Puts together what clears the disk on a person's word: a part of the composition root, which calls it once for each daemon."""

from __future__ import annotations

from dataclasses import dataclass

from jamcore.daemon.capacity import Capacity
from jamcore.daemon.cleanup_looks import CleanupLooks
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.export_deletions import ExportDeletions
from jamcore.daemon.host_cleanups import HostCleanups
from jamcore.daemon.host_files import HostFiles
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.sound_exports import SoundExports
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.pool import WorkerPool
from jamcore.store import Store


@dataclass(frozen=True, slots=True)
class Clearing:
    """The services. Every kind of theirs is registered when this is made."""

    cleanups: HostCleanups
    deletions: ExportDeletions
    capacity: Capacity


def clearing(
    options: DaemonOptions,
    *,
    store: Store,
    feed: RoomFeed,
    engines: EngineHouse,
    hosts: HostWorkers,
    pool: WorkerPool,
    gate: StopGate,
    runner: Runner,
    actions: ActionRegistry,
) -> Clearing:
    """Build them."""
    files = HostFiles(options.app, files=options.files)
    sound = SoundExports(options.app, files=options.files)
    looks = CleanupLooks(store=store, engines=engines, ownership=hosts.ownership, files=files, sound=sound, is_up=pool.is_up)
    return Clearing(
        cleanups=HostCleanups(
            store=store,
            feed=feed,
            engines=engines,
            ownership=hosts.ownership,
            kept_down=pool.kept_down,
            looks=looks,
            files=files,
            gate=gate,
            clock=options.clock,
            runner=runner,
            actions=actions,
        ),
        deletions=ExportDeletions(
            options.app, store=store, feed=feed, files=options.files, sound=sound, gate=gate, runner=runner, actions=actions
        ),
        capacity=Capacity(options.app, store=store, host_files=files, files=options.files, clock=options.clock),
    )
