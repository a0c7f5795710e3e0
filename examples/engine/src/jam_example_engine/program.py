"""A program in a sandbox: its streams, its status, and its end with everything that it started."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from jamcore.api import ExecRefusedError, ExecSpec, ExitStatus, SandboxGoneError, TerminalSize

from jam_example_engine.streams import Reader, Writer

WARDEN = Path(__file__).with_name("warden.py")


class Program:
    """`jamcore.api.GuestProcess` says what each method has to do."""

    def __init__(
        self,
        sandbox: str,
        warden: subprocess.Popen[bytes],
        control: socket.socket,
        streams: tuple[Writer, Reader, Reader],
        terminal: int | None,
    ) -> None:
        self._sandbox, self._warden, self._control, self._terminal = sandbox, warden, control, terminal
        self.stdin, self.stdout, self.stderr = streams
        self._status: ExitStatus | None = None
        self._refused = ""
        self._timed_out = False
        self._begun, self._over, self._gone, self._left = (anyio.Event() for _ in range(4))
        self._closed: Callable[[Program], None] = lambda _: None

    @classmethod
    async def start(cls, sandbox: str, spec: ExecSpec, environment: Mapping[str, str], tasks: TaskGroup) -> Self:
        """Start a program and return once it runs.

        Raises:
            ExecRefusedError: It could not be started.
        """
        try:
            program = cls(sandbox, *_spawn(spec, environment))
        except (OSError, ValueError) as error:
            raise ExecRefusedError(sandbox=sandbox, program=spec.argv[0], reason=str(error)) from error
        tasks.start_soon(program._listen)
        try:
            await program._begun.wait()
            if program._refused:
                raise ExecRefusedError(sandbox=sandbox, program=spec.argv[0], reason=program._refused)
        except BaseException:
            await program.aclose()
            raise
        if spec.timeout_s is not None:
            tasks.start_soon(program._end_after, spec.timeout_s)
        return program

    def when_closed(self, call: Callable[[Program], None]) -> None:
        """Have `call` told when it is closed."""
        self._closed = call

    async def wait(self) -> ExitStatus:
        """Wait for the end of the program."""
        await self._over.wait()
        if self._status is None:
            raise SandboxGoneError(sandbox=self._sandbox)
        return self._status

    async def signal(self, number: int) -> None:
        """Signal the program's group."""
        self._tell(f"signal {int(number)}")

    async def kill_tree(self) -> None:
        """End the program and everything that it started, and wait until they are gone."""
        self._tell("kill")
        with anyio.CancelScope(shield=True):
            await self._gone.wait()

    async def resize(self, size: TerminalSize) -> None:
        """Tell the terminal its new size; the kernel tells the program."""
        if self._terminal is not None:
            with suppress(OSError):
                _set_size(self._terminal, size)

    async def aclose(self) -> None:
        """Close everything: the warden sees it and ends the tree."""
        with anyio.CancelScope(shield=True):
            for stream in (self.stdin, self.stdout, self.stderr):
                await stream.aclose()
            if self._terminal is not None:
                os.close(self._terminal)
                self._terminal = None
            await self._leave()
            self._closed(self)

    async def go_with_sandbox(self) -> None:
        """End because the sandbox ends: whoever waits learns that, and the outputs come to their end."""
        if self._status is None:
            self._over.set()  # with no status: nobody knows what it would have been
        await self._leave()

    async def _leave(self) -> None:
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        await self._left.wait()

    def _tell(self, words: str) -> None:
        with suppress(OSError):
            self._control.send(words.encode() + b"\n")

    async def _listen(self) -> None:
        """Hear the warden until it is gone. Not cancelled: the warden ends when it is told to, or with the daemon."""
        pending = b""
        with anyio.CancelScope(shield=True):
            while True:
                await anyio.wait_readable(self._control)
                data = self._control.recv(4096)
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._hear(*line.decode().split(" ", 1))
                if not data:
                    break
            await to_thread.run_sync(self._warden.wait)
            self._refused = self._refused or ("" if self._begun.is_set() else "its warden ended")
            for event in (self._begun, self._over, self._gone, self._left):
                event.set()
            self._control.close()

    def _hear(self, word: str, rest: str = "") -> None:
        if word == "refused":
            self._refused = rest
            self._begun.set()
        elif word == "started":
            self._begun.set()
        elif word == "ended" and not self._over.is_set():
            code = int(rest)
            died = -code if code < 0 else None
            self._status = ExitStatus(code=None if died else code, signal=died, timed_out=self._timed_out)
            self._over.set()
        elif word == "gone":
            self._gone.set()

    async def _end_after(self, limit_s: float) -> None:
        with anyio.move_on_after(limit_s):
            await self._over.wait()
            return
        self._timed_out = True
        await self.kill_tree()


def _spawn(
    spec: ExecSpec, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], socket.socket, tuple[Writer, Reader, Reader], int | None]:
    """Start the warden with the program's streams."""
    with ExitStack() as on_failure, ExitStack() as theirs:

        def pair(ours_reads: bool) -> tuple[int, int]:
            """Return our end of a pipe and the program's."""
            read, write = os.pipe()
            ours, other = (read, write) if ours_reads else (write, read)
            on_failure.callback(os.close, ours)
            theirs.callback(os.close, other)
            return ours, other

        terminal: int | None = None
        if spec.terminal is not None:
            terminal, side = pty.openpty()
            on_failure.callback(os.close, terminal)
            theirs.callback(os.close, side)
            _set_size(side, spec.terminal)
            given = (side, side, side)
            written, read = os.dup(terminal), os.dup(terminal)
            on_failure.callback(os.close, written)
            on_failure.callback(os.close, read)
            errors, _ = pair(ours_reads=True)
        else:
            (written, stdin), (read, stdout), (errors, stderr) = pair(False), pair(True), pair(True)
            given = (stdin, stdout, stderr)
        control, other = socket.socketpair()
        on_failure.callback(control.close)
        theirs.callback(other.close)
        control.setblocking(False)
        task = os.memfd_create("task")
        theirs.callback(os.close, task)
        said = {"terminal": spec.terminal is not None, "directory": spec.cwd, "argv": spec.argv}
        with open(task, "w", closefd=False) as file:
            json.dump(said, file)
        os.lseek(task, 0, os.SEEK_SET)
        warden = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WARDEN), str(other.fileno()), str(task)],
            stdin=given[0],
            stdout=given[1],
            stderr=given[2],
            env=dict(environment),
            cwd="/",
            pass_fds=(other.fileno(), task),
            start_new_session=True,
        )
        on_failure.pop_all()
    return warden, control, (Writer(written), Reader(read), Reader(errors)), terminal


def _set_size(terminal: int, size: TerminalSize) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
