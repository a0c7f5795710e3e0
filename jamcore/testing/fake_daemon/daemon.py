"""The fake as a server in this process, and as a program."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from jamcore.control.server import serving
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.system.files import Files
from jamcore.system.lock import owning
from jamcore.testing.fake_daemon.approvals import FakeApprovals
from jamcore.testing.fake_daemon.archives import FakeArchives
from jamcore.testing.fake_daemon.changes import FakeChanges, FakeReviews, FakeRuns
from jamcore.testing.fake_daemon.checkpoints import FakeCheckpoints
from jamcore.testing.fake_daemon.clearing import FakeCapacity, FakeCleanups, FakeExportDeletions
from jamcore.testing.fake_daemon.continuity import FakeContinuity
from jamcore.testing.fake_daemon.exports import FakeExports
from jamcore.testing.fake_daemon.imports import FakeImports
from jamcore.testing.fake_daemon.operations import FakeOperations
from jamcore.testing.fake_daemon.plugins import FakePlugins
from jamcore.testing.fake_daemon.records import (
    AT,
    LIMITS,
)
from jamcore.testing.fake_daemon.removals import FakeRemovals
from jamcore.testing.fake_daemon.rooms import FakeRooms
from jamcore.testing.fake_daemon.state import FakeServices
from jamcore.testing.fake_daemon.system import FakeCredentials, FakeHosts, FakeInventory, FakeProviders, FakeSystem
from jamcore.testing.fake_daemon.workspaces import FakeWorkspaces


def services_of(fake: FakeServices) -> Services:
    """Put the parts together."""
    return Services(
        system=FakeSystem(fake),
        providers=FakeProviders(fake),
        plugins=FakePlugins(fake),
        credentials=FakeCredentials(fake),
        rooms=FakeRooms(fake),
        hosts=FakeHosts(fake),
        continuity=FakeContinuity(fake),
        inventory=FakeInventory(fake),
        checkpoints=FakeCheckpoints(fake),
        removals=FakeRemovals(fake),
        cleanups=FakeCleanups(fake),
        export_deletions=FakeExportDeletions(fake),
        capacity=FakeCapacity(fake),
        exports=FakeExports(fake),
        imports=FakeImports(fake),
        adoptions=FakeImports(fake),
        archives=FakeArchives(fake),
        restores=FakeArchives(fake),
        operations=FakeOperations(fake),
        workspaces=FakeWorkspaces(fake),
        approvals=FakeApprovals(fake),
        runs=FakeRuns(fake),
        changes=FakeChanges(fake),
        reviews=FakeReviews(fake),
    )


@asynccontextmanager
async def running(directory: Path, runtime: Path | None) -> AsyncIterator[tuple[FakeServices, Path]]:
    """Serve the fake in this process; yields it and its socket."""
    async with anyio.create_task_group() as tasks:
        fake = FakeServices(tasks, directory, services_of)
        async with serving(fake.services(), app_directory=directory, files=Files(), runtime=runtime, limits=LIMITS) as path:
            yield fake, path
        tasks.cancel_scope.cancel()


async def _main(directory: Path) -> int:
    if (directory / "refuse.txt").exists():
        print((directory / "refuse.txt").read_text(), file=sys.stderr)
        return 3
    with (
        owning(directory / layout.LOCK, pid=os.getpid(), started_at=AT) as lock,
        anyio.open_signal_receiver(signal.SIGTERM) as signals,
    ):
        while (busy := directory / "recovering.txt").exists():
            lock.say(busy.read_text())
            await anyio.sleep(0.01)
        lock.say()
        if (directory / "mute").exists():
            await anext(signals)
            return 0
        async with running(directory, directory / "run") as (fake, _), anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on, signals, fake.stopping)
            await fake.stopping.wait()
            tasks.cancel_scope.cancel()
        if (directory / "slow-end").exists():
            await anyio.sleep(0.5)
    return 0


async def _stop_on(signals: AsyncIterator[signal.Signals], stopping: anyio.Event) -> None:
    async for _ in signals:
        stopping.set()


def main() -> None:
    """Be a daemon; one that cannot start says why like the real one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--app-directory", type=Path, required=True)
    try:
        sys.exit(anyio.run(_main, parser.parse_args().app_directory))
    except JamError as error:
        sys.exit(f"jamd: {error}")
