"""``exec``: a program in a guest whose streams the caller holds; it lives on when the caller is killed."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from jamcore.testing.sbx.configuration import Configuration
from jamcore.testing.sbx.sandboxd.box import Box, BoxError, Program
from jamcore.testing.sbx.sandboxd.guests import Guests
from jamcore.testing.sbx.sandboxd.refusal import RefusedError

CHUNK = 1 << 16
Say = Callable[[dict[str, Any]], Awaitable[None]]


class Execution:
    """The programs that callers of one daemon started."""

    def __init__(self, guests: Guests, told: Callable[[], Configuration]) -> None:
        self.guests = guests
        self.told = told
        self.busy = 0
        self.free = asyncio.Event()
        self.free.set()

    async def idle(self) -> None:
        """Wait until no ``exec`` runs."""
        await self.free.wait()

    async def run(self, connection: socket.socket, how: Mapping[str, Any]) -> None:
        """Serve one ``exec`` to the end of its program, or of its caller."""

        async def say(told: dict[str, Any]) -> None:
            await asyncio.get_running_loop().sock_sendall(connection, json.dumps(told).encode() + b"\n")

        name = how["name"]
        try:
            self.guests.find(name)
            if self.told().bug("no-executor"):
                await say({"error": "no sandbox executor available", "hint": "", "hang": True})
                return
            started = await self.guests.up(name)
        except RefusedError as refused:
            await say({"error": refused.text, "hint": refused.hint})
            return
        self.busy += 1
        self.free.clear()
        try:
            async with self.guests.session(name) as running:
                await self._program(connection, how, running.box, say, started=started)
        finally:
            self.busy -= 1
            if self.busy == 0:
                self.free.set()

    async def _program(self, connection: socket.socket, how: Mapping[str, Any], box: Box, say: Say, *, started: bool) -> None:
        """Start the program, hand its streams to the caller, and wait for the end of either."""
        sandbox = self.guests.find(how["name"])
        env = {**self.guests.environment(sandbox), **how["env"]}
        cwd = how["cwd"] or sandbox.primary
        size = None
        if how["size"] is not None:
            size = (0, 0) if self.told().bug("tty-size-zero") else (how["size"][0], how["size"][1])
        with ExitStack() as stack:
            theirs, ours, kept = _streams(stack, terminal=size is not None)
            try:
                program = await box.start(argv=how["argv"], env=env, cwd=cwd, size=size, streams=theirs)
            except BoxError as error:
                await say({"started": started, "absent": _absent(error, how["argv"][0], cwd)})
                return
            if program.terminal >= 0:
                ours, kept = [program.terminal], [program.terminal]
                stack.callback(os.close, program.terminal)
            kept = [os.dup(descriptor) for descriptor in kept]
            socket.send_fds(connection, [json.dumps({"started": started}).encode() + b"\n"], ours)
        try:
            await self._until_end(connection, program, kept, say)
        finally:
            _drain(kept, asyncio.get_running_loop())

    @staticmethod
    async def _until_end(
        connection: socket.socket, program: Program, kept: list[int], say: Callable[[dict[str, Any]], Any]
    ) -> None:
        """Tell the caller how the program ended; take its messages meanwhile. Ends as soon as the caller is gone."""
        listening = asyncio.ensure_future(_listen(connection, kept))
        try:
            await asyncio.wait((listening, asyncio.shield(program.ended)), return_when=asyncio.FIRST_COMPLETED)
            if program.ended.done() and not listening.done():
                await say({"exit": program.ended.result()})
                await listening  # it reads the rest of the streams, and closes
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await listening


async def _listen(connection: socket.socket, kept: list[int]) -> None:
    """Take sizes of the terminal until the caller is gone."""
    while data := await asyncio.get_running_loop().sock_recv(connection, 4096):
        for line in data.splitlines():
            with suppress(ValueError, OSError, KeyError):
                rows, columns = json.loads(line)["size"]
                fcntl.ioctl(kept[0], termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _streams(stack: ExitStack, *, terminal: bool) -> tuple[list[int], list[int], list[int]]:
    """Return the guest's ends, the caller's, and those of the caller's that are kept so that nothing breaks when it is killed."""
    if terminal:
        return [], [], []
    pairs = []
    for _ in range(3):
        pair = os.pipe2(os.O_CLOEXEC)
        pairs.append(pair)
        stack.callback(os.close, pair[0])
        stack.callback(os.close, pair[1])
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = pairs
    return [in_read, out_write, err_write], [in_write, out_read, err_read], [out_read, err_read]


def _drain(kept: list[int], loop: asyncio.AbstractEventLoop) -> None:
    """Read what comes after the caller is gone, and throw it away, until the program's side is closed."""

    def read(descriptor: int) -> None:
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            loop.remove_reader(descriptor)
            os.close(descriptor)

    for descriptor in kept:
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, read, descriptor)


def _absent(error: BoxError, program: str, cwd: str) -> str:
    """Return what is said of a program that cannot be started (``exec.absent-words``)."""
    if error.number == errno.ENOENT and "$PATH" in str(error):
        return f'exec: "{program}": executable file not found in $PATH'
    if error.number == errno.EACCES:
        return f'exec: "{program}": permission denied'
    if error.number in (errno.ENOENT, errno.ENOTDIR) and "/" not in program:
        return f'chdir to cwd ("{cwd}") set in config.json failed: no such file or directory'
    return f'exec: "{program}": {error}'
