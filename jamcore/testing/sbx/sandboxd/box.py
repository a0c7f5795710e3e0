"""One running sandbox: a container of bubblewrap whose process 1 takes requests of this daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jamcore.engines.bubblewrap import etc, launch
from jamcore.engines.bubblewrap.machine import HostMachine

HOME = "/home/agent"
CODE = "/opt/sandbox/init.py"
PYTHON = "/opt/sandbox/python"
SOURCE = Path(__file__).parent.parent / "guest" / "init.py"
GATEWAY = "127.0.0.2"
"""The guest's own address that is called gateway.docker.internal: its listener is the daemon's."""
SERVICES = "127.0.0.3"
"""Where published ports are reached: who listens on 127.0.0.1 alone is not there."""
START_S = 60.0
STOP_S = 5.0
ANSWER_S = 60.0


class BoxError(Exception):
    """A sandbox did not come up, or process 1 refused; ``number`` is the errno where there is one."""

    def __init__(self, text: str, number: int = 0) -> None:
        super().__init__(text)
        self.number = number


@dataclass(frozen=True, slots=True)
class Bind:
    """Something of the host in the guest."""

    source: str
    guest_path: str
    writable: bool


@dataclass(slots=True)
class Program:
    """A program that runs in the guest."""

    number: int
    ended: asyncio.Future[int]
    terminal: int = -1


@dataclass(slots=True)
class Box:
    """A container, from start to stop."""

    name: str
    process: subprocess.Popen[bytes]
    control: socket.socket
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    reaped: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: dict[int, asyncio.Future[tuple[dict[str, Any], int]]] = field(default_factory=dict)
    programs: dict[int, Program] = field(default_factory=dict)
    last: int = 0

    def watch(self, on_gone: Callable[[], None]) -> None:
        """Listen to process 1, and to the end of the container."""
        loop = asyncio.get_running_loop()
        self.control.setblocking(False)
        loop.add_reader(self.control, self._hear)
        descriptor = os.pidfd_open(self.process.pid)

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self.process.wait()
            self.reaped.set()
            self._close()
            on_gone()

        loop.add_reader(descriptor, ended)

    def _hear(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            asyncio.get_running_loop().remove_reader(self.control)
            return
        told = json.loads(data)
        number = told.get("number", 0)
        if told["event"] == "exited":
            if program := self.programs.pop(number, None):
                program.ended.set_result(told["code"])
            return
        waiter = self.waiting.pop(number, None)
        if waiter is not None and not waiter.done():
            waiter.set_result((told, descriptors[0] if descriptors else -1))
        else:
            for descriptor in descriptors:
                os.close(descriptor)

    def _close(self) -> None:
        if self.gone.is_set():
            return
        self.gone.set()
        with suppress(ValueError, OSError):
            asyncio.get_running_loop().remove_reader(self.control)
        self.control.close()
        for program in self.programs.values():
            if not program.ended.done():
                program.ended.set_result(128 + signal.SIGKILL)
        for waiter in self.waiting.values():
            if not waiter.done():
                waiter.set_exception(BoxError("the sandbox ended"))
        self.programs.clear()
        self.waiting.clear()

    async def ready(self) -> None:
        """Wait for process 1's first word.

        Raises:
            BoxError: It does not come.
        """
        waiter = self._waiter(0)
        await self._answer(waiter, START_S)

    async def ask(self, what: str, descriptors: Iterable[int] = (), **how: Any) -> tuple[dict[str, Any], int]:
        """Ask process 1 for something; return its answer and the descriptor that came with it, or -1.

        Raises:
            BoxError: It refused, or is gone.
        """
        self.last += 1
        number = self.last
        waiter = self._waiter(number)
        body = os.memfd_create("request", os.MFD_CLOEXEC)
        try:
            os.write(body, json.dumps({"ask": what, "number": number, **how}).encode())
            socket.send_fds(self.control, [b"x"], [body, *descriptors])
        except OSError as error:
            self.waiting.pop(number, None)
            raise BoxError("the sandbox ended") from error
        finally:
            os.close(body)
        return await self._answer(waiter, ANSWER_S)

    def _waiter(self, number: int) -> asyncio.Future[tuple[dict[str, Any], int]]:
        waiter: asyncio.Future[tuple[dict[str, Any], int]] = asyncio.get_running_loop().create_future()
        self.waiting[number] = waiter
        return waiter

    @staticmethod
    async def _answer(waiter: asyncio.Future[tuple[dict[str, Any], int]], limit_s: float) -> tuple[dict[str, Any], int]:
        try:
            told, descriptor = await asyncio.wait_for(waiter, limit_s)
        except TimeoutError as error:
            raise BoxError("the sandbox does not answer") from error
        if told["event"] == "failed":
            raise BoxError(told["text"], told["errno"])
        return told, descriptor

    async def start(
        self, *, argv: list[str], env: Mapping[str, str], cwd: str, size: tuple[int, int] | None, streams: list[int]
    ) -> Program:
        """Start a program in the guest.

        Raises:
            BoxError: It cannot be started; ``number`` says why.
        """
        program = Program(self.last + 1, asyncio.get_running_loop().create_future())
        self.programs[program.number] = program
        try:
            _, program.terminal = await self.ask(
                "exec", streams, argv=argv, env=dict(env), cwd=cwd, tty=size is not None, size=list(size or (0, 0))
            )
        except BoxError:
            self.programs.pop(program.number, None)
            raise
        return program

    async def listener(self, port: int) -> socket.socket:
        """Return a socket that listens in the guest as the gateway."""
        _, descriptor = await self.ask("listen", address=GATEWAY, port=port)
        return socket.socket(fileno=descriptor)

    async def connection(self, port: int) -> socket.socket:
        """Return a connection to a service in the guest."""
        _, descriptor = await self.ask("connect", address=SERVICES, port=port)
        return socket.socket(fileno=descriptor)

    async def stop(self) -> None:
        """End it with everything in it."""
        self._close()
        try:
            await asyncio.wait_for(self.reaped.wait(), STOP_S)
        except TimeoutError:
            self.process.kill()
            await self.reaped.wait()


def begin(name: str, machine: HostMachine, binds: Iterable[Bind], files: Mapping[str, str]) -> Box:
    """Start the container; its process 1 has not answered yet.

    It dies with the thread that starts it, which is therefore the daemon's first one.

    Raises:
        BoxError: bwrap cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held = []
    try:
        for path, text in files.items():
            descriptor = os.memfd_create(path.rpartition("/")[2])
            os.write(descriptor, text.encode())
            os.lseek(descriptor, 0, os.SEEK_SET)
            held.append((path, descriptor))
        argv = _command(name, machine, list(binds), held, theirs.fileno())
        process = subprocess.Popen(
            argv,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), *(descriptor for _, descriptor in held)),
        )
    except OSError as error:
        ours.close()
        raise BoxError(f"bwrap cannot be started: {error.strerror}") from error
    finally:
        theirs.close()
        for _, descriptor in held:
            os.close(descriptor)
    return Box(name, process, ours)


def _command(name: str, machine: HostMachine, binds: list[Bind], held: list[tuple[str, int]], control: int) -> tuple[str, ...]:
    python = machine.python.replace(launch.PYTHON_ROOT, PYTHON, 1)
    library = machine.library_path and machine.library_path.replace(launch.PYTHON_ROOT, PYTHON, 1)
    below_usr = sorted(bind.guest_path for bind in binds if bind.guest_path.startswith("/usr/"))
    own = [Bind(str(SOURCE), CODE, writable=False)]
    if machine.python_root is not None:
        own.append(Bind(str(machine.python_root), PYTHON, writable=False))
    return (
        str(machine.bwrap),
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--uid", str(etc.GUEST_UID), "--gid", str(etc.GUEST_UID), "--disable-userns", "--hostname", name[:63]),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--clearenv"),
        *_system("/usr", below_usr),
        *launch.links(machine.system),
        *("--proc", "/proc", "--dev", "/dev"),
        *(part for path in ("/tmp", "/dev/shm", "/var/tmp") for part in ("--perms", "1777", "--tmpfs", path)),  # noqa: S108 - the guest's
        *("--perms", "0755", "--tmpfs", "/run", "--perms", "0755", "--dir", "/etc", "--perms", "0755", "--dir", "/home"),
        *(part for path, number in held for part in ("--perms", "0644", "--file", str(number), path)),
        *(part for path in etc.FROM_HOST for part in ("--ro-bind-try", path, path)),
        *(part for each in (*own, *binds) for part in ("--bind" if each.writable else "--ro-bind", each.source, each.guest_path)),
        *("--remount-ro", "/", "--chdir", "/"),
        *(("--setenv", "LD_LIBRARY_PATH", library) if library else ()),
        *("--", python, "-I", "-S", CODE, str(control)),
    )


def _system(directory: str, inside: list[str]) -> Iterable[str]:
    """Yield what shows a directory of the host read-only, with room for what an image has inside of it."""
    if not any(path.startswith(f"{directory}/") for path in inside):
        yield from ("--ro-bind", directory, directory)
        return
    yield from ("--perms", "0755", "--dir", directory)
    for entry in sorted(Path(directory).iterdir()):
        path = str(entry)
        if path in inside:
            continue
        if entry.is_symlink():
            yield from ("--symlink", str(entry.readlink()), path)
        elif entry.is_dir():
            yield from _system(path, inside)
        else:
            yield from ("--ro-bind", path, path)
