"""One running sandbox: its outer process, the control socket to its init, and the connections that its guests make."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.sandboxes import (
    Access,
    EngineFailedError,
    EngineUnavailableError,
    ExecRefusedError,
    ExecSpec,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.bubblewrap import etc, launch, seccomp
from jamcore.engines.bubblewrap.classify import explain
from jamcore.engines.bubblewrap.control import VERSION, Control, ControlLost
from jamcore.engines.bubblewrap.identity import host_user
from jamcore.engines.bubblewrap.machine import HostMachine
from jamcore.engines.bubblewrap.process import BubblewrapProcess, Ends
from jamcore.engines.bubblewrap.records import ENGINE
from jamcore.engines.port import FreezeReport
from jamcore.system.guest import GuestProcess
from jamcore.system.pipes import PipeReader
from jamcore.system.process import Child, RunAs, spawn
from jamcore.system.tasks import owned_tasks

START_LIMIT_S = 20.0
"""From spawn to the init's first word: tens of milliseconds, seconds on a machine that is swapping."""
ANSWER_LIMIT_S = 20.0
ERROR_BYTES = 8192
PROCESSES = 4096
"""Processes of one sandbox when the plan says nothing: a build uses hundreds, a fork bomb stops here."""

Accept = Callable[[socket.socket], None]


class RunningSandbox:
    """Made by :func:`running`; its owner is the engine's task for it."""

    def __init__(self, spec: SandboxSpec, child: Child, control_end: socket.socket, tasks: TaskGroup) -> None:
        self.spec = spec
        self.child = child
        self._tasks = tasks
        self._control = Control(control_end, self._on_message)
        self._ready = anyio.Event()
        self.gone = anyio.Event()
        self._next = 0
        self._processes: dict[int, BubblewrapProcess] = {}
        self._starting: dict[int, tuple[anyio.Event, dict[str, Any]]] = {}
        self._answers: dict[int, tuple[anyio.Event, dict[str, Any]]] = {}
        self._still = anyio.Lock()

    async def exec(self, spec: ExecSpec) -> GuestProcess:
        """See the port."""
        async with self._still:  # nothing is started while the sandbox is frozen
            ident = self._ident()
            ends = Ends(spec.terminal)
            process = BubblewrapProcess(self.spec.name, ident, ends, self._send)
            started = (anyio.Event(), dict[str, Any]())
            self._starting[ident], self._processes[ident] = started, process
            try:
                await self._send(
                    {
                        "op": "exec",
                        "id": ident,
                        "argv": spec.argv,
                        "cwd": spec.cwd,
                        "env": dict((*BASE_ENVIRONMENT, *self.spec.environment, *spec.environment)),
                        "tty": spec.terminal is not None,
                    },
                    ends.guest,
                )
                await started[0].wait()
            except BaseException:
                await self._abandon(ident, process)
                raise
            finally:
                ends.close_guest()
                self._starting.pop(ident, None)
            answer = started[1]
            if "started" not in answer:
                self._processes.pop(ident, None)
                process.tree_is_gone()
                await process.aclose()
                if "errno" not in answer:
                    raise SandboxGoneError(sandbox=self.spec.name)
                raise ExecRefusedError(sandbox=self.spec.name, program=spec.argv[0], reason=os.strerror(answer["errno"]))
        if spec.timeout_s is not None:
            self._tasks.start_soon(process.end_after, spec.timeout_s)
        return process

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[FreezeReport]:
        """See the port."""
        async with self._still:
            answer = await self._ask({"op": "freeze"})
            if answer["frozen"] < 0:
                raise EngineFailedError(engine=ENGINE, operation="freeze", detail="some processes would not stand still")
            try:
                yield FreezeReport(processes=answer["frozen"], method="SIGSTOP from process 1")
            finally:
                with anyio.CancelScope(shield=True):
                    try:
                        await self._ask({"op": "thaw"})
                    except SandboxGoneError:
                        pass  # it ended while it stood still: there is nothing to thaw

    async def serve(self) -> None:
        """Read the control socket until the sandbox ends; then everybody who waits learns it."""
        await self._control.read()
        self._end()

    async def wait_ready(self) -> None:
        """Wait for the init's first word, or for the end."""
        await self._ready.wait()

    async def stop(self) -> None:
        """End everything and wait until the outer process was reaped. Not interrupted by cancellation."""
        with anyio.CancelScope(shield=True):
            self._control.close()
            await self.child.end(grace_s=0)
            self._end()

    def _end(self) -> None:
        self.gone.set()
        self._ready.set()
        for process in self._processes.values():
            process.tree_is_gone()
        self._processes.clear()
        for event, _ in (*self._starting.values(), *self._answers.values()):
            event.set()

    async def _abandon(self, ident: int, process: BubblewrapProcess) -> None:
        """The caller went away before the program had started: end it if it does start."""
        with anyio.move_on_after(ANSWER_LIMIT_S, shield=True):
            if not self.gone.is_set() and ident in self._processes:
                await process.kill_tree()
            self._processes.pop(ident, None)
            process.tree_is_gone()
            await process.aclose()

    async def _ask(self, message: dict[str, object]) -> dict[str, Any]:
        ident = self._ident()
        waiting = (anyio.Event(), dict[str, Any]())
        self._answers[ident] = waiting
        try:
            await self._send({**message, "id": ident})
            with anyio.fail_after(ANSWER_LIMIT_S):
                await waiting[0].wait()
        except TimeoutError as error:
            raise EngineFailedError(engine=ENGINE, operation=str(message["op"]), detail="no answer from process 1") from error
        finally:
            del self._answers[ident]
        if not waiting[1]:
            raise SandboxGoneError(sandbox=self.spec.name)
        return waiting[1]

    async def _send(self, message: dict[str, object], descriptors: tuple[int, ...] = ()) -> None:
        if self.gone.is_set():
            raise SandboxGoneError(sandbox=self.spec.name)
        try:
            await self._control.send(message, descriptors)
        except ControlLost as error:
            raise SandboxGoneError(sandbox=self.spec.name) from error
        except ValueError as error:
            raise ExecRefusedError(sandbox=self.spec.name, program=str(message.get("argv", ["?"])), reason=str(error)) from error

    def _ident(self) -> int:
        self._next += 1
        return self._next

    def _on_message(self, message: dict[str, Any]) -> None:
        ident = message.get("id")
        if message.get("hello") == VERSION:
            self._ready.set()
        elif ident in self._answers:
            self._answers[ident][1].update(message)
            self._answers[ident][0].set()
        elif ident in self._starting and ("started" in message or "errno" in message):
            self._starting[ident][1].update(message)
            self._starting[ident][0].set()
        elif ident in self._processes and "exited" in message:
            self._processes[ident].has_exited(message["exited"])
        elif ident in self._processes and "gone" in message:
            self._processes.pop(ident).tree_is_gone()


BASE_ENVIRONMENT = (
    ("HOME", "/home/agent"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
    ("LANG", "C.UTF-8"),
    ("USER", etc.GUEST_USER),
    ("LOGNAME", etc.GUEST_USER),
    ("SHELL", "/bin/bash"),
    ("TERM", "dumb"),
)
"""What every program finds; nothing of the host's environment (ENV-1)."""


@asynccontextmanager
async def running(
    spec: SandboxSpec, home: Path, clone: Path | None, machine: HostMachine, accept: dict[int, Accept]
) -> AsyncIterator[RunningSandbox]:
    """Start a sandbox and yield it once its init has answered; at the end nothing of it is left.

    Args:
        spec: The specification.
        home: The guest's home on the host.
        clone: The private clone on the host, when there is one.
        machine: What this host looks like.
        accept: For each reach port, who takes the connections; looked up at each connection.

    Raises:
        EngineUnavailableError: The machine refuses, with the setting.
        EngineFailedError: It did not come up.
    """
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(owned_tasks())
        stack.callback(tasks.cancel_scope.cancel)
        control, guest_control = socket.socketpair()
        relay, guest_relay = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.callback(relay.close)
        with ExitStack() as handed:
            handed.enter_context(guest_control)
            handed.enter_context(guest_relay)
            errors, guest_errors = os.pipe2(os.O_CLOEXEC)
            handed.callback(os.close, guest_errors)
            reader = PipeReader(errors)
            stack.push_async_callback(reader.aclose)
            try:
                child = _spawn(handed, spec, home, clone, machine, guest_control.fileno(), guest_relay.fileno(), guest_errors)
            except BaseException:
                control.close()
                raise
        sandbox = RunningSandbox(spec, child, control, tasks)
        stack.push_async_callback(sandbox.stop)
        tasks.start_soon(sandbox.serve)
        tasks.start_soon(_hand_over, relay, accept)
        said = bytearray()
        tasks.start_soon(_collect, reader, said)
        with anyio.move_on_after(START_LIMIT_S):
            await sandbox.wait_ready()
        if sandbox.gone.is_set() or child.returncode is not None:
            await child.wait()
            with anyio.move_on_after(1):
                await _drained(reader, said)
            raise explain(bytes(said))
        yield sandbox


def _spawn(
    handed: ExitStack,
    spec: SandboxSpec,
    home: Path,
    clone: Path | None,
    machine: HostMachine,
    control: int,
    relay: int,
    errors: int,
) -> Child:
    """Open everything that is mounted, and start bwrap with exactly those descriptors."""

    def held(data: bytes) -> int:
        descriptor = os.memfd_create("jam", os.MFD_CLOEXEC)
        handed.callback(os.close, descriptor)
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    guest = Path(__file__).parent / "guest"
    files = {path: held(text.encode()) for path, text in etc.FILES.items()}
    files |= {launch.INIT: held((guest / "init.py").read_bytes()), launch.FORWARD: held((guest / "forward.py").read_bytes())}
    wanted = launch.Launch(
        program=str(machine.bwrap),
        system=machine.system,
        binds=_binds(spec, home, clone, machine),
        files=files,
        seccomp=held(seccomp.program(seccomp.machine())),
        control=control,
        relay=relay if spec.reach_ports else -1,
        ports=spec.reach_ports,
        python=machine.python,
        library_path=machine.library_path,
        processes=spec.resources.processes or PROCESSES,
    )
    try:
        return spawn(
            start_arguments(wanted, machine, host_user(spec.name)),
            env={},
            cwd="/",
            stderr=errors,
            pass_fds=(control, relay, wanted.seccomp, *files.values()),
        )
    except OSError as error:
        raise EngineUnavailableError(engine=ENGINE, reason=f"bwrap cannot be started: {error.strerror}") from error


def start_arguments(wanted: launch.Launch, machine: HostMachine, user: RunAs | None) -> tuple[str, ...]:
    """Return what is executed: bwrap itself, or root's stage before it."""
    return launch.arguments(wanted) if user is None else launch.staged(stage_for(machine, user), wanted)


def stage_for(machine: HostMachine, user: RunAs) -> launch.Stage:
    """Return root's stage on this machine.

    Raises:
        EngineUnavailableError: Root has no ``setpriv`` to give up root with.
    """
    if machine.setpriv is None:
        raise EngineUnavailableError(engine=ENGINE, reason="setpriv is missing, which root needs", setting="apt install util-linux")
    return launch.Stage(
        program=str(machine.bwrap),
        setpriv=str(machine.setpriv),
        user=user,
        program_root=str(machine.bwrap.parent),
        library_root=str(machine.bwrap_libraries) if machine.bwrap_libraries else None,
    )


def _binds(spec: SandboxSpec, home: Path, clone: Path | None, machine: HostMachine) -> tuple[launch.Bind, ...]:
    binds = [launch.Bind(str(home), GUEST_HOME, Access.READ_WRITE)]
    if machine.python_root is not None:
        binds.append(launch.Bind(str(machine.python_root), launch.PYTHON_ROOT, Access.READ_ONLY))
    binds += [launch.Bind(mount.host_path, mount.guest_path, mount.access) for mount in spec.mounts]
    if clone is not None and spec.clone is not None:
        binds.append(launch.Bind(str(clone), spec.clone.guest_path, Access.READ_WRITE))
    return tuple(binds)


async def _hand_over(relay: socket.socket, accept: dict[int, Accept]) -> None:
    """Answer the forwarder: for each connection in the guest one end of a fresh pair goes there, the other to whoever takes the port."""
    relay.setblocking(False)
    while True:
        try:
            await anyio.wait_readable(relay)
            data = relay.recv(16)
        except BlockingIOError:
            continue
        except (OSError, anyio.ClosedResourceError):
            return
        if not data:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            try:
                socket.send_fds(relay, [b"c"], [theirs.fileno()])
            except OSError:
                ours.close()
                return
        taker = accept.get(int.from_bytes(data, "big"))
        if taker is None:
            ours.close()
        else:
            taker(ours)


async def _collect(reader: PipeReader, said: bytearray) -> None:
    """Keep the first bytes of bwrap's standard error and drop the rest, so that it never blocks."""
    try:
        async for chunk in reader:
            said += chunk[: max(0, ERROR_BYTES - len(said))]
    except anyio.ClosedResourceError:
        return


async def _drained(reader: PipeReader, said: bytearray) -> None:
    before = -1
    while before != len(said):
        before = len(said)
        await anyio.sleep(0.02)
    del reader
