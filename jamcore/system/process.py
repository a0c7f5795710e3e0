"""Starting programs on the host: every child has an owner, a bound and a reaper.

A child gets its own session, ``/dev/null`` as standard input unless told otherwise, exactly the environment that it is given, and no
descriptor but those it is given. Whatever it left in its process group ends with it. What runs for the length of a call or a block ends
with this process too, however that ends (:mod:`jamcore.system.mortal`); who uses :func:`spawn` itself gives the child a lifeline.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from jamcore.system.mortal import mortal
from jamcore.system.pipes import PipeReader, PipeWriter

END_GRACE_S = 2.0
"""Between TERM and KILL: long enough for git to remove its lock files, short enough for a shutdown."""
KILLED_WITHIN_S = 5.0
"""After KILL a process is gone at once, unless the kernel holds it in an uninterruptible call."""
DRAIN_S = 1.0
"""After a program ended, how long its output may still be held open by something it started in another session."""


@dataclass(frozen=True, slots=True)
class RunAs:
    """An unprivileged host identity for a child; it keeps no supplementary group. Only root can use it."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Finished:
    """How a bounded program ended. ``returncode`` is negative for a signal, as in :mod:`subprocess`."""

    returncode: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with code 0 and its output is complete."""
        return self.returncode == 0 and not self.truncated and not self.timed_out


class Child:
    """A running child process, held by a pidfd, so that no signal ever reaches a process that got its number later."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reaping = anyio.Lock()
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except BaseException:
            process.kill()
            process.wait()
            raise

    @property
    def pid(self) -> int:
        """Its process id, which is its session and group id too."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The code once it was reaped; negative for a signal."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for the end, end what is left of the group, reap, and return the code. Several callers may wait."""
        async with self._reaping:
            if self._process.returncode is None:
                await anyio.wait_readable(self._pidfd)
                # The zombie still holds the number, so the group cannot be somebody else's.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                os.close(self._pidfd)
        return self._process.returncode

    def signal(self, number: int) -> None:
        """Send a signal to the child alone; does nothing once it was reaped."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def signal_group(self, number: int) -> None:
        """Send a signal to the child's whole process group; does nothing once it was reaped."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def end(self, grace_s: float = END_GRACE_S) -> int:
        """End the group, TERM first and KILL after ``grace_s`` (0: KILL at once), and reap. Not interrupted by cancellation.

        Raises:
            TimeoutError: The kernel would not let it go within :data:`KILLED_WITHIN_S`.
        """
        with anyio.CancelScope(shield=True):
            if grace_s > 0:
                self.signal_group(signal.SIGTERM)
                with anyio.move_on_after(grace_s):
                    await self.wait()
            self.signal_group(signal.SIGKILL)
            with anyio.fail_after(KILLED_WITHIN_S):
                code = await self.wait()
        return code


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
    user: RunAs | None = None,
    executable: str | None = None,
) -> Child:
    """Start a program and return it; the caller owns it and must ``wait`` or ``end`` it. ``argv[0]`` should be absolute.

    ``executable`` is the file to run instead of ``argv[0]``.

    Raises:
        OSError: It could not be started.
    """
    process = subprocess.Popen(
        tuple(argv),
        executable=executable,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=dict(env),
        pass_fds=tuple(pass_fds),
        start_new_session=True,
        user=None if user is None else user.uid,
        group=None if user is None else user.gid,
        extra_groups=None if user is None else (),
    )
    return Child(process)


@asynccontextmanager
async def spawned(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
    user: RunAs | None = None,
) -> AsyncIterator[Child]:
    """Start a program that ends with the block, whatever ends the block."""
    child = spawn(mortal(argv, env=env), env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds, user=user)
    try:
        yield child
    finally:
        await child.end()


async def run_bounded(
    argv: Sequence[str],
    *,
    cwd: Path | str | None,
    env: Mapping[str, str],
    limit_bytes: int,
    timeout_s: float,
    user: RunAs | None = None,
    stdin: bytes = b"",
    heard: Callable[[bytes], None] | None = None,
) -> Finished:
    """Run a program to its end within a time and an output limit, and end it with all its group when it oversteps the time.

    ``limit_bytes`` bounds stdout and stderr each; what is beyond is read and dropped and ``truncated`` says so. ``heard`` is told all of
    stdout as it comes. Cancellation ends the program too.

    Raises:
        OSError: It could not be started.
    """
    pairs: list[tuple[int, int]] = []
    try:
        pairs.extend(os.pipe2(os.O_CLOEXEC) for _ in range(3))  # extended one by one: a failure closes those that were made
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = pairs
        child = spawn(
            mortal(argv, env=env),
            env=env,
            cwd=cwd,
            stdin=in_read if stdin else subprocess.DEVNULL,
            stdout=out_write,
            stderr=err_write,
            user=user,
        )
    except BaseException:
        for pair in pairs:
            os.close(pair[0])
            os.close(pair[1])
        raise
    for descriptor in (in_read, out_write, err_write):
        os.close(descriptor)
    writer, out, err = PipeWriter(in_write), _Drain(out_read, limit_bytes, heard), _Drain(err_read, limit_bytes)
    timed_out = True
    try:
        with anyio.move_on_after(timeout_s):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_feed, writer, stdin)
                tasks.start_soon(out.run)
                tasks.start_soon(err.run)
                await child.wait()
                tasks.cancel_scope.deadline = anyio.current_time() + DRAIN_S
            timed_out = child.returncode is None
    finally:
        try:
            returncode = await child.end()
        finally:
            for stream in (writer, out.reader, err.reader):
                stream.close()
    truncated = out.truncated or err.truncated
    return Finished(returncode, bytes(out.data), bytes(err.data), truncated=truncated, timed_out=timed_out)


class _Drain:
    """Reads a stream to its end and keeps the first bytes."""

    def __init__(self, descriptor: int, limit: int, heard: Callable[[bytes], None] | None = None) -> None:
        self._heard = heard
        self.reader = PipeReader(descriptor)
        self.data = bytearray()
        self.truncated = False
        self._limit = limit

    async def run(self) -> None:
        """Read until the end. Left early, the output counts as truncated."""
        ended = False
        try:
            async for chunk in self.reader:
                if self._heard is not None:
                    self._heard(chunk)
                room = self._limit - len(self.data)
                self.data += chunk[:room]
                self.truncated |= len(chunk) > room
            ended = True
        finally:
            self.truncated |= not ended


async def _feed(writer: PipeWriter, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError):
        await writer.send(data)
    await writer.aclose()
