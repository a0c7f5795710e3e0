"""Starts a sandbox: everything is opened, bwrap is run with exactly those descriptors, and process 1's first word is awaited."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.sandboxes import Access, EngineFailedError, EngineUnavailableError, SandboxSpec
from jamcore.engines.bubblewrap import etc, launch, seccomp
from jamcore.engines.bubblewrap.classify import explain
from jamcore.engines.bubblewrap.identity import user_of
from jamcore.engines.bubblewrap.machine import HostMachine
from jamcore.engines.bubblewrap.names import ENGINE
from jamcore.engines.bubblewrap.reach import Accept, hand_over
from jamcore.engines.supervised.guest import frames
from jamcore.engines.supervised.sandbox import RunningSandbox, base_environment, memory_file
from jamcore.system.pipes import PipeReader
from jamcore.system.process import Child, RunAs, spawn
from jamcore.system.tasks import owned_tasks

START_LIMIT_S = 20.0
"""From spawn to process 1's first word: tens of milliseconds, seconds on a machine that is swapping."""
LAST_WORDS_S = 1.0
"""For the rest of what bwrap wrote, after it ended."""
ERROR_BYTES = 8192
BASE = base_environment(GUEST_HOME, etc.GUEST_USER)
PROCESSES = 4096
"""Processes of one sandbox when the plan says nothing: a build uses hundreds, a fork bomb stops here."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a sandbox's own directories lie on the host: the guest's home, and the private clone when there is one."""

    home: Path
    clone: Path | None


class Words:
    """What bwrap wrote to its standard error: the first bytes, so that it never blocks and never fills the memory."""

    def __init__(self, reader: PipeReader) -> None:
        self.reader = reader
        self.said = bytearray()
        self.complete = anyio.Event()

    async def collect(self) -> None:
        """Read to the end."""
        try:
            async for chunk in self.reader:
                self.said += chunk[: max(0, ERROR_BYTES - len(self.said))]
        except anyio.ClosedResourceError:
            return
        finally:
            self.complete.set()


@asynccontextmanager
async def running(
    spec: SandboxSpec,
    places: Places,
    machine: HostMachine,
    accept: dict[int, Accept],
    *,
    enter: tuple[str, ...] = (),
    limit_s: float = START_LIMIT_S,
) -> AsyncIterator[RunningSandbox]:
    """Start a sandbox and yield it once its process 1 has answered; at the end nothing of it is left.

    Args:
        spec: The specification.
        places: The sandbox's own directories.
        machine: What this host looks like.
        accept: For each reach port, who takes the connections; looked up at each connection.
        enter: What the command line begins with: the limits that everything of the sandbox starts in.
        limit_s: How long process 1 may take to answer.

    Raises:
        EngineUnavailableError: The machine refuses, with the setting.
        EngineFailedError: It did not come up.
    """
    async with AsyncExitStack() as stack:
        with ExitStack() as handed:  # what the sandbox inherits; closed here as soon as it has it
            control, guest_control = _pair(stack, handed, socket.SOCK_STREAM)
            relay, guest_relay = _pair(stack, handed, socket.SOCK_SEQPACKET)
            errors, guest_errors = _pipe(stack, handed)
            info, guest_info = _pipe(stack, handed)
            tasks = await stack.enter_async_context(owned_tasks())
            stack.callback(tasks.cancel_scope.cancel)
            child = _spawn(handed, spec, places, machine, _Inherited(guest_control, guest_relay, guest_errors, guest_info, enter))
        sandbox = RunningSandbox(spec, child, control, tasks, engine=ENGINE, base=BASE)
        stack.push_async_callback(sandbox.stop)
        words = Words(errors)
        tasks.start_soon(sandbox.serve)
        tasks.start_soon(sandbox.watch)
        tasks.start_soon(hand_over, relay, accept)
        tasks.start_soon(words.collect)
        with anyio.move_on_after(limit_s):
            await sandbox.wait_ready()
        if sandbox.gone.is_set():
            await _explain(sandbox, words)
        if sandbox.version != frames.VERSION:
            detail = f"process 1 speaks version {sandbox.version}" if sandbox.version else f"no answer within {limit_s:g} s"
            raise EngineFailedError(engine=ENGINE, operation="start", detail=detail)
        sandbox.holds(*_process_one(await info.receive(), child))
        yield sandbox


async def _explain(sandbox: RunningSandbox, words: Words) -> None:
    """Raise the reason of a sandbox that ended while it started."""
    await sandbox.child.end(grace_s=0)
    with anyio.move_on_after(LAST_WORDS_S):
        await words.complete.wait()
    raise explain(bytes(words.said))


def _process_one(info: bytes, child: Child) -> tuple[int, int]:
    """Return number and pidfd of the sandbox's process 1, as bwrap wrote it before it let it run.

    Raises:
        EngineFailedError: It is not there.
    """
    try:
        pid = int(json.loads(info)["child-pid"])
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineFailedError(engine=ENGINE, operation="start", detail=f"process 1 is not there: {error!r}") from error
    if child.returncode is not None:
        os.close(descriptor)
        raise EngineFailedError(engine=ENGINE, operation="start", detail="it ended at once")
    return pid, descriptor


@dataclass(frozen=True, slots=True)
class _Inherited:
    """The guest's ends, and the limits that it starts in."""

    control: int
    relay: int
    errors: int
    info: int
    enter: tuple[str, ...]


def _pair(stack: AsyncExitStack, handed: ExitStack, kind: int) -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    stack.callback(ours.close)
    handed.enter_context(theirs)
    return ours, theirs.fileno()


def _pipe(stack: AsyncExitStack, handed: ExitStack) -> tuple[PipeReader, int]:
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    handed.callback(os.close, theirs)
    reader = PipeReader(ours)
    stack.callback(reader.close)
    return reader, theirs


def _spawn(handed: ExitStack, spec: SandboxSpec, places: Places, machine: HostMachine, ends: _Inherited) -> Child:
    """Put everything that the sandbox is made of into descriptors, and start bwrap with those alone."""

    def held(data: bytes) -> int:
        descriptor = memory_file(data)
        handed.callback(os.close, descriptor)
        return descriptor

    try:
        wanted = launch.Launch(
            program=str(machine.bwrap),
            system=machine.system,
            binds=_binds(spec, places, machine),
            files={path: held(data) for path, data in {**etc.FILES, **machine.guest_code}.items()},
            seccomp=held(seccomp.program(seccomp.machine())),
            control=ends.control,
            relay=ends.relay if spec.reach_ports else -1,
            info=ends.info,
            ports=spec.reach_ports,
            python=machine.python,
            library_path=machine.library_path,
            processes=spec.resources.processes or PROCESSES,
            memory_bytes=spec.resources.memory_bytes,
        )
        return spawn(
            (*ends.enter, *start_arguments(wanted, machine, user_of(spec))),
            env={},
            cwd="/",
            stderr=ends.errors,
            pass_fds=(ends.control, ends.relay, ends.info, wanted.seccomp, *wanted.files.values()),
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


def _binds(spec: SandboxSpec, places: Places, machine: HostMachine) -> tuple[launch.Bind, ...]:
    binds = [launch.Bind(str(places.home), GUEST_HOME, Access.READ_WRITE)]
    if machine.python_root is not None:
        binds.append(launch.Bind(str(machine.python_root), launch.PYTHON_ROOT, Access.READ_ONLY))
    binds += [launch.Bind(mount.host_path, mount.guest_path, mount.access) for mount in spec.mounts]
    if places.clone is not None and spec.clone is not None:
        binds.append(launch.Bind(str(places.clone), spec.clone.guest_path, Access.READ_WRITE))
    return tuple(binds)
