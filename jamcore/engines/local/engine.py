"""The engine: sandboxes by name, each a record on disk and, while it runs, a task that owns its supervisor."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from jamcore.domain.sandboxes import (
    CloneSource,
    EngineFailedError,
    EngineHealth,
    ExecSpec,
    InventoryItem,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.local import LocalEnginePlugin
from jamcore.engines.local.bringup import LocalSandbox, running
from jamcore.engines.local.health import probe
from jamcore.engines.local.marks import carriers, end_carriers
from jamcore.engines.local.names import ENGINE
from jamcore.engines.local.places import Places, host_path, require_possible
from jamcore.engines.port import EngineContext, FreezeReport
from jamcore.engines.supervised.clone import make_clone
from jamcore.engines.supervised.directories import require_real_directories
from jamcore.engines.supervised.records import SandboxRecord, SandboxRecords
from jamcore.system.files import Files
from jamcore.system.guest import GuestProcess
from jamcore.system.tasks import owned_tasks

_MARK_BYTES = 16


class LocalEngine:
    """See :class:`~jamcore.engines.port.Engine`, and the ability Protocols beside it."""

    name = ENGINE
    isolation = LocalEnginePlugin.isolation
    abilities = LocalEnginePlugin.abilities

    def __init__(self, records: SandboxRecords, tasks: TaskGroup, *, files: Files) -> None:
        self._records = records
        self._tasks = tasks
        self._files = files
        self._running: dict[str, LocalSandbox] = {}
        self._ended: dict[str, anyio.Event] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def probe(self) -> EngineHealth:
        """See the port."""
        return await probe()

    async def create(self, spec: SandboxSpec) -> None:
        """See the port."""
        async with self._lock(spec.name):
            if self._records.read(spec.name) is not None:
                raise EngineFailedError(engine=ENGINE, operation="create", detail=f"{spec.name} exists")
            require_possible(spec)
            places = Places.of(spec)
            self._files.make_private(places.home)
            if spec.clone is not None and places.clone is not None and not places.clone.exists():
                await make_clone(spec.clone, places.clone, engine=ENGINE, files=self._files)
            record = SandboxRecord(spec=spec, mark=secrets.token_hex(_MARK_BYTES))
            await to_thread.run_sync(self._records.write, record)
            try:
                await self._start(record)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._halt(spec.name)
                    await to_thread.run_sync(self._records.remove, spec.name)
                raise

    async def start(self, name: str) -> None:
        """See the port."""
        async with self._lock(name):
            if await self._settled(name) is None:
                await self._start(self._need(name))

    async def stop(self, name: str) -> None:
        """See the port. Ends what a dead daemon left, too (SHARE-4)."""
        async with self._lock(name):
            await self._halt(name)
            record = self._records.read(name)
            if record is not None:
                await end_carriers(record.mark)

    async def remove(self, name: str) -> None:
        """See the port."""
        await self.stop(name)
        async with self._lock(name):
            await to_thread.run_sync(self._records.remove, name)

    async def presence(self, name: str) -> Presence:
        """See the port. What outlived its daemon is running, until somebody stops it."""
        if await self._settled(name) is not None:
            return Presence.RUNNING
        record = self._records.read(name)
        if record is None:
            return Presence.ABSENT
        return Presence.RUNNING if await to_thread.run_sync(carriers, record.mark) else Presence.STOPPED

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """See the port."""
        return tuple([InventoryItem(name, await self.presence(name)) for name in self._records.names()])

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        """See the port."""
        return await self._need_running(name).exec(spec)

    def frozen(self, name: str) -> AbstractAsyncContextManager[FreezeReport]:
        """See the port. Exact for the tree: a process that cannot be stopped (``sudo``) makes it fail, none is left out."""
        return self._need_running(name).frozen()

    def host_path(self, name: str, guest_path: str) -> Path:
        """See the port."""
        return host_path(self._need(name).spec, guest_path)

    async def proof(self, name: str) -> str:
        """See the port."""
        return self._need(name).spec.proof

    async def inspect_clone(self, name: str) -> CloneSource:
        """See the port."""
        clone = self._need(name).spec.clone
        if clone is None:
            raise SandboxGoneError(sandbox=name)
        return clone

    async def stop_all(self) -> None:
        """End every sandbox; run when the engine is closed."""
        async with anyio.create_task_group() as tasks:
            for name in tuple(self._running):
                tasks.start_soon(self.stop, name)

    async def _start(self, record: SandboxRecord) -> None:
        await end_carriers(record.mark)
        require_real_directories(record.spec, engine=ENGINE)
        places = Places.of(record.spec)
        await to_thread.run_sync(self._empty, places.temporary)
        await self._tasks.start(self._run, record, places)

    def _empty(self, directory: Path) -> None:
        """Make the directory of temporary files anew: they do not outlive a start."""
        self._files.remove_tree(directory)
        self._files.make_private(directory)

    async def _run(self, record: SandboxRecord, places: Places, *, task_status: TaskStatus[None]) -> None:
        """Own one running sandbox from its start to its end."""
        name, started = record.spec.name, False
        ended = self._ended[name] = anyio.Event()
        try:
            async with running(record.spec, places, record.mark) as sandbox:
                self._running[name] = sandbox
                task_status.started()
                started = True
                await sandbox.gone.wait()
        except Exception:
            if not started:
                raise
            # Boundary: one sandbox that does not end as it should must not take all others with it.
            structlog.get_logger("jam.engine").exception("a sandbox did not end cleanly", engine=ENGINE, sandbox=name)
        finally:
            self._running.pop(name, None)
            del self._ended[name]
            ended.set()

    async def _settled(self, name: str) -> LocalSandbox | None:
        """Return the running sandbox. One whose supervisor has ended is no longer: it is waited for until nothing of it is left."""
        sandbox, ended = self._running.get(name), self._ended.get(name)
        if sandbox is None or not sandbox.gone.is_set():
            return sandbox
        if ended is not None:
            await ended.wait()
        return None

    async def _halt(self, name: str) -> None:
        sandbox, ended = self._running.get(name), self._ended.get(name)
        if sandbox is not None and ended is not None:
            with anyio.CancelScope(shield=True):
                await sandbox.stop()
                await ended.wait()

    def _need(self, name: str) -> SandboxRecord:
        record = self._records.read(name)
        if record is None:
            raise SandboxGoneError(sandbox=name)
        return record

    def _need_running(self, name: str) -> LocalSandbox:
        if name not in self._running:
            raise SandboxGoneError(sandbox=name)
        return self._running[name]

    def _lock(self, name: str) -> anyio.Lock:
        return self._locks.setdefault(name, anyio.Lock())


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
