"""A guest process over pipes or a PTY whose other ends were handed to the init."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from jamcore.domain.sandboxes import ExitStatus, SandboxGoneError, TerminalSize
from jamcore.engines.supervised.guest import frames
from jamcore.system.pipes import PipeReader, PipeWriter
from jamcore.system.process import KILLED_WITHIN_S

Request = Callable[[str, int, int], Awaitable[None]]
"""Asks process 1 something about a program: a verb, the program's id, a number."""


class Ends:
    """The descriptors of one process: the guest's ends to hand over (its request first), the host's ends to keep."""

    def __init__(self, terminal: TerminalSize | None, request: int) -> None:
        self.terminal = terminal
        opened = [request]
        try:
            if terminal is not None:
                master, slave = os.openpty()
                opened += [master, slave]
                set_size(master, terminal)
                opened.append(os.dup(master))
                opened.append(os.dup(master))
                self.guest: tuple[int, ...] = (request, slave)
                self.host: tuple[int, ...] = (opened[3], opened[4], master)
            else:
                for _ in range(3):
                    opened.extend(os.pipe2(os.O_CLOEXEC))
                in_read, in_write, out_read, out_write, err_read, err_write = opened[1:]
                self.guest = (request, in_read, out_write, err_write)
                self.host = (in_write, out_read, err_read)
        except BaseException:
            for descriptor in opened:
                os.close(descriptor)
            raise

    def close_guest(self) -> None:
        """Close the guest's ends. Idempotent."""
        for descriptor in self.guest:
            os.close(descriptor)
        self.guest = ()


class _NoStream(ByteReceiveStream):
    """The standard error of a terminal: it is part of the output."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        del max_bytes
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        return None


class SupervisedProcess:
    """See :class:`~jamcore.system.guest.GuestProcess`."""

    def __init__(self, sandbox: str, ident: int, ends: Ends, request: Request) -> None:
        self._sandbox = sandbox
        self._ident = ident
        self._request = request
        self._terminal = ends.host[2] if ends.terminal is not None else -1
        self._stdin = PipeWriter(ends.host[0])
        self._stdout = PipeReader(ends.host[1])
        self._stderr: ByteReceiveStream = _NoStream() if ends.terminal is not None else PipeReader(ends.host[2])
        self._ended = anyio.Event()
        self._tree_gone = anyio.Event()
        self._status: ExitStatus | None = None
        self._timed_out = False

    @property
    def stdin(self) -> ByteSendStream:
        """See the port."""
        return self._stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        """See the port."""
        return self._stdout

    @property
    def stderr(self) -> ByteReceiveStream:
        """See the port."""
        return self._stderr

    async def wait(self) -> ExitStatus:
        """See the port."""
        await self._ended.wait()
        if self._status is None:
            raise SandboxGoneError(sandbox=self._sandbox)
        return self._status

    async def signal(self, number: int) -> None:
        """See the port."""
        if not self._ended.is_set():
            with suppress(SandboxGoneError):
                await self._request(frames.SIGNAL, self._ident, number)

    async def kill_tree(self) -> None:
        """See the port."""
        if self._tree_gone.is_set():
            return
        with suppress(SandboxGoneError):  # then nothing of the tree is left either
            await self._request(frames.KILL, self._ident, 0)
            with anyio.move_on_after(KILLED_WITHIN_S):
                await self._tree_gone.wait()

    async def resize(self, size: TerminalSize) -> None:
        """See the port. The kernel tells the terminal's foreground group."""
        if self._terminal >= 0 and not self._ended.is_set():
            set_size(self._terminal, size)

    async def aclose(self) -> None:
        """See the port."""
        with anyio.CancelScope(shield=True):
            try:
                await self.kill_tree()
            finally:
                if self._terminal >= 0:
                    terminal, self._terminal = self._terminal, -1
                    os.close(terminal)
                for stream in (self._stdin, self._stdout, self._stderr):
                    await stream.aclose()

    async def end_after(self, limit_s: float) -> None:
        """End the whole tree when the process has not ended by then; run by the engine for a spec with a time limit."""
        with anyio.move_on_after(limit_s):
            await self._ended.wait()
            return
        self._timed_out = True
        await self.kill_tree()

    def has_exited(self, status: int) -> None:
        """Take the wait status that the init reported."""
        if os.WIFSIGNALED(status):
            self._status = ExitStatus(code=None, signal=os.WTERMSIG(status), timed_out=self._timed_out)
        else:
            self._status = ExitStatus(code=os.WEXITSTATUS(status), signal=None, timed_out=self._timed_out)
        self._ended.set()

    def tree_is_gone(self) -> None:
        """Nothing that the process started is left, or the sandbox has ended."""
        self._ended.set()
        self._tree_gone.set()


def set_size(terminal: int, size: TerminalSize) -> None:
    """Set the size of a PTY."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
