"""Starts the supervisor of a local sandbox: a process of Jam's own, below which every program runs and with which every program ends."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from jamcore.domain.sandboxes import EngineFailedError, EngineUnavailableError, SandboxSpec
from jamcore.engines.local.marks import MARK, end_carriers
from jamcore.engines.local.names import ENGINE
from jamcore.engines.local.places import Places
from jamcore.engines.supervised.guest import frames
from jamcore.engines.supervised.sandbox import RunningSandbox, base_environment
from jamcore.system.process import Child, spawn
from jamcore.system.tasks import owned_tasks

START_LIMIT_S = 20.0
"""From spawn to the supervisor's first word: tens of milliseconds, seconds on a machine that is swapping."""
END_LIMIT_S = 10.0
"""How long a supervisor may take to end its tree and itself: longer than its own bound, after which it is killed."""

_CODE = str(Path(__file__).resolve().parents[3])
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from jamcore.engines.supervised.guest.init import main; main()"
_NO_RELAY, _NO_LIMIT, _NO_PORTS = "-1", "0", ""


class LocalSandbox(RunningSandbox):
    """A running sandbox whose supervisor ends the tree by itself; killing it first would set its programs free."""

    def __init__(
        self, spec: SandboxSpec, child: Child, control: socket.socket, places: Places, mark: str, tasks: TaskGroup
    ) -> None:
        super().__init__(spec, child, control, tasks, engine=ENGINE, base=environment(places, mark))
        self._mark = mark

    async def stop(self) -> None:
        """See :meth:`RunningSandbox.stop`.

        Raises:
            EngineUnknownError: A process does not end.
        """
        with anyio.CancelScope(shield=True):
            self._control.close()
            with anyio.move_on_after(END_LIMIT_S):
                await self.child.wait()
            with suppress(TimeoutError):  # then it is found below, with its programs
                await self.child.end(grace_s=0)
            try:
                await end_carriers(self._mark)
            finally:
                self._end()


@asynccontextmanager
async def running(spec: SandboxSpec, places: Places, mark: str, *, limit_s: float = START_LIMIT_S) -> AsyncIterator[LocalSandbox]:
    """Start a sandbox and yield it once its supervisor has answered; at the end nothing of it is left.

    Raises:
        EngineUnavailableError: Python cannot be started.
        EngineFailedError: The supervisor did not come up.
    """
    async with AsyncExitStack() as stack:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        stack.callback(ours.close)
        with theirs:
            tasks = await stack.enter_async_context(owned_tasks())
            stack.callback(tasks.cancel_scope.cancel)
            child = _spawn(theirs.fileno(), mark)
        sandbox = LocalSandbox(spec, child, ours, places, mark, tasks)
        stack.push_async_callback(sandbox.stop)
        tasks.start_soon(sandbox.serve)
        tasks.start_soon(sandbox.watch)
        with anyio.move_on_after(limit_s):
            await sandbox.wait_ready()
        if sandbox.version != frames.VERSION:
            ended = "it ended at once" if sandbox.gone.is_set() else f"no answer within {limit_s:g} s"
            raise EngineFailedError(engine=ENGINE, operation="start", detail=f"the supervisor: {ended}")
        yield sandbox


def environment(places: Places, mark: str) -> tuple[tuple[str, str], ...]:
    """Return what every program finds: directories of the sandbox's own and the mark, nothing of the daemon's environment (ENV-1)."""
    home = str(places.home)
    return (
        *base_environment(home, _user()),
        ("TMPDIR", str(places.temporary)),
        ("XDG_CONFIG_HOME", f"{home}/.config"),
        ("XDG_CACHE_HOME", f"{home}/.cache"),
        ("XDG_DATA_HOME", f"{home}/.local/share"),
        ("XDG_STATE_HOME", f"{home}/.local/state"),
        (MARK, mark),
    )


def _spawn(control: int, mark: str) -> Child:
    program = (sys.executable, "-I", "-S", "-B", "-c", _BOOT, _CODE, str(control), _NO_RELAY, _NO_LIMIT, _NO_PORTS)
    try:
        return spawn(program, env={MARK: mark}, cwd="/", pass_fds=(control,))
    except OSError as error:
        raise EngineUnavailableError(engine=ENGINE, reason=f"{sys.executable} cannot be started: {error.strerror}") from error


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user that is in no list, as in many containers
        return str(os.geteuid())
