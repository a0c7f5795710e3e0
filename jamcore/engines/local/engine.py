"""The engine: host processes by name, each group below a supervisor of its own. What it shares with others is in the base class."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from jamcore.domain.sandboxes import EngineHealth, Presence, SandboxSpec
from jamcore.engines.local import LocalEnginePlugin
from jamcore.engines.local.bringup import LocalSandbox, running
from jamcore.engines.local.health import probe
from jamcore.engines.local.marks import carriers, end_carriers
from jamcore.engines.local.names import ENGINE
from jamcore.engines.local.places import Places, host_path, require_possible
from jamcore.engines.port import EngineContext
from jamcore.engines.supervised.engine import OwnDirectories, SupervisedEngine
from jamcore.engines.supervised.records import SandboxRecord, SandboxRecords
from jamcore.system.files import Files
from jamcore.system.tasks import owned_tasks

_MARK_BYTES = 16


class LocalEngine(SupervisedEngine[LocalSandbox]):
    """See :class:`~jamcore.engines.port.Engine`, and the ability Protocols beside it.

    A freeze is exact for the tree: a process that cannot be stopped (``sudo``) makes it fail, none is left out. What outlived its daemon
    is running, until somebody stops it.
    """

    name = ENGINE
    isolation = LocalEnginePlugin.isolation
    abilities = LocalEnginePlugin.abilities

    async def probe(self) -> EngineHealth:
        """See the port."""
        return await probe()

    def python(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """See the port."""
        return sys.executable, ()

    def host_path(self, name: str, guest_path: str) -> Path:
        """See the port."""
        return host_path(self._need(name).spec, guest_path)

    def _require_possible(self, spec: SandboxSpec) -> None:
        require_possible(spec)

    def _directories(self, spec: SandboxSpec) -> OwnDirectories:
        places = Places.of(spec)
        return OwnDirectories(places.home, places.clone)

    def _new_record(self, spec: SandboxSpec) -> SandboxRecord:
        return SandboxRecord(spec=spec, mark=secrets.token_hex(_MARK_BYTES))

    async def _make_ready(self, spec: SandboxSpec) -> None:
        await to_thread.run_sync(self._empty, Places.of(spec).temporary)

    def _empty(self, directory: Path) -> None:
        """Make the directory of temporary files anew: they do not outlive a start."""
        self._files.remove_tree(directory)
        self._files.make_private(directory)

    def _opened(self, record: SandboxRecord) -> AbstractAsyncContextManager[LocalSandbox]:
        return running(record.spec, Places.of(record.spec), record.mark)

    async def _end_left(self, record: SandboxRecord) -> None:
        await end_carriers(record.mark)

    async def _presence_of_left(self, record: SandboxRecord) -> Presence:
        return Presence.RUNNING if await to_thread.run_sync(carriers, record.mark) else Presence.STOPPED


@asynccontextmanager
async def open_engine(context: EngineContext) -> AsyncIterator[LocalEngine]:
    """Open the engine; on the way out every sandbox is stopped."""
    files = Files()
    async with owned_tasks() as tasks:
        engine = LocalEngine(SandboxRecords(context.root, engine=ENGINE, files=files), tasks, files=files)
        try:
            yield engine
        finally:
            with anyio.CancelScope(shield=True):
                await engine.stop_all()
            tasks.cancel_scope.cancel()
