"""A guest that is none, for the tests of provider plugins: programs run as plain children of the test, in temporary directories.

It isolates nothing; what it shares with a sandbox is the port: streams, statuses, and that closing a process ends its whole tree.
Under :func:`jamcore.testing.guards.adopting_orphans` (the fixture ``no_leaks``) that includes what left its session.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from jamcore.domain.providers import RuntimeRequest
from jamcore.domain.sandboxes import ExecRefusedError, ExitStatus, TerminalSize
from jamcore.system.guest import GuestProcess
from jamcore.system.pipes import PipeReader, PipeWriter
from jamcore.system.process import Child, run_bounded, spawn
from jamcore.testing.guards import descendants, kill

PATH = "/usr/local/bin:/usr/bin:/bin"
SANDBOX = "local-guest"


class LocalProcess:
    """A child process as a :class:`jamcore.api.GuestProcess`."""

    def __init__(self, child: Child, stdin: PipeWriter, stdout: PipeReader, stderr: PipeReader) -> None:
        self._child = child
        self._streams = stdin, stdout, stderr

    @property
    def pid(self) -> int:
        """The process's number on the host."""
        return self._child.pid

    @property
    def stdin(self) -> ByteSendStream:
        """What the process reads."""
        return self._streams[0]

    @property
    def stdout(self) -> ByteReceiveStream:
        """What the process writes."""
        return self._streams[1]

    @property
    def stderr(self) -> ByteReceiveStream:
        """What the process writes to its error output."""
        return self._streams[2]

    async def wait(self) -> ExitStatus:
        """Wait for the end."""
        code = await self._child.wait()
        return ExitStatus(code=code, signal=None) if code >= 0 else ExitStatus(code=None, signal=-code)

    async def signal(self, number: int) -> None:
        """Signal the group."""
        self._child.signal_group(number)

    async def kill_tree(self) -> None:
        """Kill it with everything that it started."""
        while children := descendants(self.pid):
            kill(children)
        self._child.signal_group(signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await self._child.end(0)

    async def resize(self, size: TerminalSize) -> None:
        """Do nothing: there is no terminal."""

    async def aclose(self) -> None:
        """Close everything and kill the tree."""
        with anyio.CancelScope(shield=True):
            for stream in self._streams:
                await stream.aclose()
            await self.kill_tree()


class LocalGuest:
    """Starts processes; a :class:`jamcore.api.GuestLauncher` whose processes all end with :func:`local_guest`.

    Attributes:
        home: What a sandbox would show as the guest's home.
        work: A working directory for one session.
        state: The provider's state root.
        processes: What was started, oldest first.
    """

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.home, self.work, self.state = root / "home", root / "work", root / "state"
        self._temporary = root / "tmp"
        """What a program leaves there goes with the test, as in a sandbox it goes with the sandbox."""
        self.processes: list[LocalProcess] = []
        self._environment = dict(environment)
        for directory in (self.home, self.work, self.state, self._temporary):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def runtime_request(self, tools: Path, relay_url: str, expected_version: str | None = None) -> RuntimeRequest:
        """Return what a plugin is given to open its runtime here."""
        return RuntimeRequest(
            tools_root=str(tools),
            state_root=str(self.state),
            home=str(self.home),
            relay_url=relay_url,
            start_directory=str(self.home),
            expected_version=expected_version,
        )

    async def start(self, argv: tuple[str, ...], *, cwd: str, environment: tuple[tuple[str, str], ...] = ()) -> GuestProcess:
        """See :class:`jamcore.api.GuestLauncher`."""
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
        try:
            child = spawn(argv, env=self._all(environment), cwd=cwd, stdin=in_read, stdout=out_write, stderr=err_write)
        except OSError as error:
            for descriptor in (in_write, out_read, err_read):
                os.close(descriptor)
            raise ExecRefusedError(sandbox=SANDBOX, program=argv[0], reason=str(error)) from error
        finally:
            for descriptor in (in_read, out_write, err_write):
                os.close(descriptor)
        process = LocalProcess(child, PipeWriter(in_write), PipeReader(out_read), PipeReader(err_read))
        self.processes.append(process)
        return process

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        cwd: str,
        timeout_s: float,
        limit: int = 65_536,
        environment: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int | None, bytes]:
        """See :class:`jamcore.api.GuestLauncher`."""
        try:
            done = await run_bounded(argv, cwd=cwd, env=self._all(environment), limit_bytes=limit, timeout_s=timeout_s)
        except OSError as error:
            raise ExecRefusedError(sandbox=SANDBOX, program=argv[0], reason=str(error)) from error
        return (None if done.timed_out or done.returncode < 0 else done.returncode), done.stdout[:limit]

    def _all(self, environment: tuple[tuple[str, str], ...]) -> dict[str, str]:
        places = {"HOME": str(self.home), "TMPDIR": str(self._temporary)}
        return {"PATH": PATH, **places, "LANG": "C.UTF-8", **self._environment, **dict(environment)}


@asynccontextmanager
async def local_guest(root: Path, environment: Mapping[str, str] | None = None) -> AsyncIterator[LocalGuest]:
    """Make a guest in ``root``; at the end of the block every process that it started is gone."""
    guest = LocalGuest(root, environment or {})
    try:
        yield guest
    finally:
        for process in guest.processes:
            await process.aclose()
