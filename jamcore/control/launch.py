"""Starting a daemon that belongs to nobody: no child of the command that starts it, in a session of its own, at home in ``/``."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO

import anyio

from jamcore.system.process import spawn

REASON_CHARACTERS = 400
"""A daemon that cannot start says why in one line; this much of it is passed on."""
DETACH_S = 10.0
"""The go-between forks, executes and exits: milliseconds on an idle machine."""

_GO_BETWEEN = """
import os, sys
ready, held = os.pipe()  # the child's end closes when it executes the daemon
pid = os.fork()
if pid == 0:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    try:
        os.execv(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}")
        sys.stderr.flush()
    os._exit(127)
os.close(held)
os.read(ready, 1)
os.write(1, b"%d" % pid)
"""


class Launch:
    """A daemon that was just started: its end, and what it says before it listens."""

    def __init__(self, pid: int, pidfd: int | None, said: IO[bytes]) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._said = said

    async def ended(self) -> None:
        """Wait for its end; for a daemon that listens this never comes."""
        if self._pidfd is not None:
            await anyio.wait_readable(self._pidfd)

    def dismiss(self) -> None:
        """Tell it to go: another daemon answers, and one that is slow to find that out must not take over from it later."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)

    def reason(self) -> str:
        """Return the last line that it wrote to its standard error: its typed error, or the end of a traceback."""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return next((line.strip()[:REASON_CHARACTERS] for line in reversed(lines) if line.strip()), "it said nothing")


@asynccontextmanager
async def launched(argv: Sequence[str], environ: Mapping[str, str]) -> AsyncIterator[Launch]:
    """Start the daemon; it goes on after the block. ``argv[0]`` is absolute.

    A go-between forks it and exits, so that it is never a zombie of a client that lives long, and no signal of the client's terminal
    reaches it.
    """
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as pid:
        between = spawn(
            (sys.executable, "-I", "-S", "-c", _GO_BETWEEN, *argv), env=environ, cwd="/", stdout=pid.fileno(), stderr=said.fileno()
        )
        try:
            with anyio.fail_after(DETACH_S):
                await between.wait()
        except BaseException:
            await between.end(0)
            raise
        pid.seek(0)
        number = int(pid.read() or b"0")
        pidfd = _open(number)
        try:
            yield Launch(number, pidfd, said)
        finally:
            if pidfd is not None:
                os.close(pidfd)


def _open(pid: int) -> int | None:
    """Hold the daemon by a descriptor; ``None`` when it has ended already."""
    try:
        return os.pidfd_open(pid) if pid else None
    except ProcessLookupError:
        return None
