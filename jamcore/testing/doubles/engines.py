"""An engine for tests of what stands above engines: guests are plain processes over real directories, without any isolation."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from jamcore.domain.cells import Ability
from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.sandboxes import (
    CloneSource,
    EngineFailedError,
    EngineHealth,
    ExecSpec,
    ExitStatus,
    InventoryItem,
    Isolation,
    Presence,
    SandboxGoneError,
    SandboxSpec,
    TerminalSize,
)
from jamcore.engines.port import GuestProcess
from jamcore.engines.supervised.clone import ensure_clone
from jamcore.system.files import Files
from jamcore.system.pipes import PipeReader, PipeWriter
from jamcore.system.process import Child, spawn

ABILITIES = frozenset({Ability.CLONE, Ability.KEEPS_DISK, Ability.REACH, Ability.HOST_VIEW})


@dataclass(slots=True)
class _Sandbox:
    spec: SandboxSpec
    running: bool = True


class DirectoryEngine:
    """Remembers sandboxes in memory, so that they and their processes outlive a daemon that is only an object in a test.

    So does an engine with a server of its own: what runs goes on until somebody stops it. ``deaf``: a stop says that it is done and does
    nothing. Without KEEPS_DISK a removal takes home and clone with it, as that of an engine whose disks are its own.

    Guest paths in arguments and directories are replaced by the host paths that the specification mounts there. ``fail`` queues errors
    that the next calls of an operation raise; ``calls`` lists what was asked, in order.
    """

    name = "directory"
    isolation = Isolation.NONE

    def __init__(self, abilities: frozenset[Ability] = ABILITIES) -> None:
        self.abilities = abilities
        self.sandboxes: dict[str, _Sandbox] = {}
        self.routes: dict[tuple[str, int], Callable[[socket.socket], None]] = {}
        self.calls: list[str] = []
        self.executed: list[ExecSpec] = []
        self.deaf = False
        self._failures: dict[str, list[BaseException]] = {}
        self._live: dict[str, list[DirectoryProcess]] = {}

    def fail(self, operation: str, *errors: BaseException) -> None:
        """Let the next calls of an operation raise these errors, one each."""
        self._failures.setdefault(operation, []).extend(errors)

    def _enter(self, operation: str) -> None:
        self.calls.append(operation)
        if queue := self._failures.get(operation):
            raise queue.pop(0)

    async def probe(self) -> EngineHealth:
        """Say that it is usable."""
        return EngineHealth(engine=self.name, usable=True, findings=())

    async def create(self, spec: SandboxSpec) -> None:
        """See :meth:`Engine.create`."""
        self._enter("create")
        if spec.name in self.sandboxes:
            raise EngineFailedError(engine=self.name, operation="create", detail="exists already")
        Path(spec.guest_disk, "home").mkdir(exist_ok=True)
        if spec.clone is not None:
            await ensure_clone(spec.clone, Path(spec.guest_disk, "clone"), engine=self.name, files=Files())
        self.sandboxes[spec.name] = _Sandbox(spec)

    async def start(self, name: str) -> None:
        """See :meth:`Engine.start`."""
        self._enter("start")
        self._get(name).running = True

    async def stop(self, name: str) -> None:
        """See :meth:`Engine.stop`."""
        self._enter("stop")
        if self.deaf:
            return
        for process in self._live.pop(name, []):
            await process.aclose()
        if sandbox := self.sandboxes.get(name):
            sandbox.running = False

    async def remove(self, name: str) -> None:
        """See :meth:`Engine.remove`."""
        self._enter("remove")
        gone = self.sandboxes.pop(name, None)
        if gone is not None and Ability.KEEPS_DISK not in self.abilities:
            for place in ("home", "clone"):
                await to_thread.run_sync(Files().remove_tree, Path(gone.spec.guest_disk, place))

    async def presence(self, name: str) -> Presence:
        """See :meth:`Engine.presence`."""
        self._enter("presence")
        sandbox = self.sandboxes.get(name)
        if sandbox is None:
            return Presence.ABSENT
        return Presence.RUNNING if sandbox.running else Presence.STOPPED

    async def inspect_clone(self, name: str) -> CloneSource:
        """See :meth:`Clones.inspect_clone`."""
        self._enter("inspect_clone")
        clone = self._get(name).spec.clone
        if clone is None:
            raise SandboxGoneError(sandbox=name)
        return clone

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """See :meth:`Engine.inventory`."""
        self._enter("inventory")
        return tuple([InventoryItem(name, await self.presence(name)) for name in sorted(self.sandboxes)])

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        """See :meth:`Engine.exec`."""
        self._enter("exec")
        self.executed.append(spec)
        sandbox = self._get(name)
        if not sandbox.running:
            raise SandboxGoneError(sandbox=name)
        argv = tuple(self._translate(sandbox, word) for word in spec.argv)
        environment = {"PATH": os.defpath, "HOME": str(self.host_path(name, GUEST_HOME)), **dict(sandbox.spec.environment)}
        process = DirectoryProcess(argv, self._translate(sandbox, spec.cwd), environment | dict(spec.environment))
        self._live.setdefault(name, []).append(process)
        return process

    def on_connection(self, name: str, port: int, accept: Callable[[socket.socket], None]) -> None:
        """See :meth:`Reaches.on_connection`."""
        self.calls.append("on_connection")
        self.routes[name, port] = accept

    def connect(self, name: str, port: int) -> socket.socket:
        """Connect as a guest would; returns the guest's end."""
        guest, host = socket.socketpair()
        host.setblocking(False)
        self.routes[name, port](host)
        return guest

    def host_path(self, name: str, guest_path: str) -> Path:
        """See :meth:`HostView.host_path`."""
        return Path(self._translate(self._get(name), guest_path))

    async def close(self) -> None:
        """End every process, as an engine does with its daemon."""
        for name in tuple(self._live):
            for process in self._live.pop(name):
                await process.aclose()

    def _get(self, name: str) -> _Sandbox:
        if name not in self.sandboxes:
            raise SandboxGoneError(sandbox=name)
        return self.sandboxes[name]

    def _translate(self, sandbox: _Sandbox, text: str) -> str:
        places = {GUEST_HOME: f"{sandbox.spec.guest_disk}/home"}
        places |= {mount.guest_path: mount.host_path for mount in sandbox.spec.mounts}
        if sandbox.spec.clone is not None:
            places[sandbox.spec.clone.guest_path] = f"{sandbox.spec.guest_disk}/clone"
        for guest in sorted(places, key=len, reverse=True):
            if text == guest or text.startswith(f"{guest}/"):
                return places[guest] + text.removeprefix(guest)
        return text


class DirectoryProcess:
    """A plain process that ends with its whole group."""

    def __init__(self, argv: tuple[str, ...], cwd: str, environment: dict[str, str]) -> None:
        pairs = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = pairs
        try:
            self._child: Child = spawn(argv, env=environment, cwd=cwd, stdin=in_read, stdout=out_write, stderr=err_write)
        finally:
            for descriptor in (in_read, out_write, err_write):
                os.close(descriptor)
        self.stdin, self.stdout, self.stderr = PipeWriter(in_write), PipeReader(out_read), PipeReader(err_read)

    async def wait(self) -> ExitStatus:
        """See :meth:`GuestProcess.wait`."""
        code = await self._child.wait()
        return ExitStatus(code=code if code >= 0 else None, signal=-code if code < 0 else None)

    async def signal(self, number: int) -> None:
        """See :meth:`GuestProcess.signal`."""
        self._child.signal_group(number)

    async def kill_tree(self) -> None:
        """See :meth:`GuestProcess.kill_tree`."""
        self._child.signal_group(signal.SIGKILL)
        await self._child.wait()

    async def resize(self, size: TerminalSize) -> None:
        """Do nothing: there is no terminal of this size, or any."""

    async def aclose(self) -> None:
        """See :meth:`GuestProcess.aclose`."""
        with anyio.CancelScope(shield=True), suppress(TimeoutError):
            await self._child.end(0)
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
