"""A real daemon as a child of a test or of the demo, in a private app directory: started, spoken to, killed, and looked at from outside.

Whose process is whose is decided by descent and start time, never by a name. What a test does with the daemon goes through the same
typed client that ``jam`` uses.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.control.directory import RECORD
from jamcore.control.failures import DaemonNotRunningError
from jamcore.control.reach import Reach
from jamcore.control.sockets import forget_dead, runtime_directory, socket_path
from jamcore.domain import layout
from jamcore.domain.events import RoomEvent
from jamcore.domain.plan import TOOLS_ROOT
from jamcore.domain.providers import ToolchainSpec
from jamcore.domain.requests import Health
from jamcore.plugins.manager import NO_TABLES, ProviderManager
from jamcore.sandbox.toolchain import COMPLETE, CompletionRecord
from jamcore.system.files import Files
from jamcore.testing.crash import Life, Lives
from jamcore.testing.daemon_process import begin_daemon
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.guards import kill as kill_processes
from jamcore.testing.toolchains import ToolchainUnavailableError, installed_toolchain

UP_S = 30.0
"""From its start to its first answer: one second, more on a machine that swaps."""
REAPED_S = 10.0
BACKSTOP_S = 60.0
"""Longer than the daemon's own forced exit."""
POLL_S = 0.002
"""How often to look for what no event announces: a process that appears or goes, a file."""


class DaemonFailedError(Exception):
    """The daemon, or what it runs, did not do what was waited for; the text says what."""


class DaemonChild:
    """The daemon in the foreground, as a child in a session of its own.

    Args:
        app: The app directory; made by the daemon.
        environment: Variables besides this process's own; a credential reaches the daemon here and nowhere else.
        private: A directory for everything that the daemon puts outside its app directory: its socket, temporary files, what it says.
            Without it the daemon uses the places that it always uses.
        lives: Forks it from a process that has it imported, instead of a new interpreter that imports for a second.
    """

    def __init__(
        self, app: Path, *, environment: Mapping[str, str] | None = None, private: Path | None = None, lives: Lives | None = None
    ) -> None:
        self.app = app
        self.private = private
        self._environment = dict(environment or {})
        self._lives = lives
        self._process: subprocess.Popen[bytes] | Life | None = None

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        if self._process is None:
            raise DaemonFailedError("the daemon was not started")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended; ``None`` while it runs."""
        return None if self._process is None else self._process.poll()

    def client(self) -> JamClient:
        """Return a client that never starts a daemon by itself."""
        return JamClient(Reach(self.app, environ={}))

    def start(self, **more: str) -> None:
        """Start it, with more variables for this life alone. The caller waits with :meth:`up`."""
        if self.returncode is None and self._process is not None:
            raise DaemonFailedError("the daemon runs already")
        said = self._said() if self.private else None
        environment = {**os.environ, **self._places(), **self._environment, **more}
        # What is imported from elsewhere is imported by a new interpreter: a fork has its own already.
        lives = None if "PYTHONPATH" in {**self._environment, **more} else self._lives
        self._process = begin_daemon(self.app, environment, said, lives)

    async def up(self, *, limit_s: float = UP_S) -> Health:
        """Wait until the daemon answers.

        Raises:
            DaemonFailedError: It ended by itself, another one answers, or it took too long.
        """
        with anyio.move_on_after(limit_s):
            while True:
                try:
                    health = await self.client().health()
                except DaemonNotRunningError:
                    self.require_alive()
                    await anyio.sleep(POLL_S)
                    continue
                if health.pid != self.pid:
                    raise DaemonFailedError(f"another daemon answers: process {health.pid}")
                return health
        raise DaemonFailedError(f"the daemon did not answer within {limit_s:.0f} s")

    def require_alive(self) -> None:
        """Accept a running daemon.

        Raises:
            DaemonFailedError: It has ended; with its last words.
        """
        if (code := self.returncode) is not None:
            raise DaemonFailedError(f"the daemon ended with code {code}: {self.last_words()}")

    def last_words(self) -> str:
        """Return the end of what it wrote on its standard streams, where that is kept."""
        if self.private is None or not self._said().exists():
            return ""
        return self._said().read_text(errors="replace")[-2000:].strip()

    def family(self) -> frozenset[Process]:
        """Return its living descendants; empty when it does not run."""
        return descendants(self.pid) if self.returncode is None and self._process is not None else frozenset()

    def kill(self) -> None:
        """SIGKILL, and reap."""
        if self._process is not None and self.returncode is None:
            self._process.kill()
        self.reap()

    def reap(self, limit_s: float = REAPED_S) -> int:
        """Wait for its end and return how it ended.

        Raises:
            DaemonFailedError: It goes on.
        """
        if self._process is None:
            raise DaemonFailedError("the daemon was not started")
        try:
            return self._process.wait(timeout=limit_s)
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            raise DaemonFailedError(f"the daemon did not end within {limit_s:.0f} s") from error

    def terminate(self) -> None:
        """Send SIGTERM and return at once."""
        if self._process is not None and self.returncode is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> int | None:
        """End it in an orderly way and return its code; SIGKILL when it does not end within its own backstop."""
        if self._process is None:
            return None
        self.terminate()
        try:
            code = self.reap(BACKSTOP_S)
        except DaemonFailedError:
            self.kill()
            raise
        finally:
            self._forget_socket()
        return code

    def _forget_socket(self) -> None:
        """Remove the socket of a life that a signal ended: nobody comes after it to do so. An orderly end must have done it itself.

        One that ran into its backstop has removed its record already, and not its socket.
        """
        if self.returncode is None or self.returncode >= 0:
            return
        runtime = runtime_directory(None, {**os.environ, **self._places(), **self._environment})
        forget_dead(socket_path(self.app, runtime))
        with suppress(FileNotFoundError, ValueError, KeyError):
            path = Path(json.loads((self.app / RECORD).read_bytes())["socket"])
            if path.is_socket():
                path.unlink()

    def _places(self) -> dict[str, str]:
        if self.private is None:
            return {}
        places = {"XDG_RUNTIME_DIR": self.private / "run", "TMPDIR": self.private / "tmp"}
        for directory in places.values():
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return {name: str(directory) for name, directory in places.items()}

    def _said(self) -> Path:
        assert self.private is not None
        return self.private / "daemon.out"


@asynccontextmanager
async def running_daemon(child: DaemonChild, **more: str) -> AsyncIterator[JamClient]:
    """Start a daemon, its first life with more variables, yield its client once it answers, and stop whichever life runs at the end."""
    try:
        child.start(**more)
        await child.up()
        yield child.client()
    finally:
        with anyio.CancelScope(shield=True):  # bounded by BACKSTOP_S
            await to_thread.run_sync(child.stop)


# ---------------------------------------------------------------------------------------------------------------- waiting


async def until(what: str, condition: Callable[[], bool], *, limit_s: float = 20.0) -> None:
    """Wait for a condition that no event announces.

    Raises:
        DaemonFailedError: It did not come true within ``limit_s`` seconds.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise DaemonFailedError(f"{what}: not within {limit_s:.0f} s")
        await anyio.sleep(POLL_S)


async def room_event(client: JamClient, room: str, wanted: Callable[[RoomEvent], bool], *, limit_s: float = 30.0) -> RoomEvent:
    """Return the first event of a room, past or coming, that ``wanted`` accepts.

    Raises:
        DaemonFailedError: None came within ``limit_s`` seconds.
    """
    seen: list[str] = []
    with anyio.move_on_after(limit_s):
        async with aclosing(client.events(room, after=0, follow=True)) as events:
            async for event in events:
                seen.append(event.payload.kind)
                if wanted(event):
                    return event
    raise DaemonFailedError(f"no such event within {limit_s:.0f} s; the last ones: {', '.join(seen[-12:])}")


async def parked(client: JamClient, room: str, *, limit_s: float = 30.0) -> None:
    """Wait until a room's host has gone down by itself, its last checkpoint included.

    Raises:
        DaemonFailedError: It still is.
    """
    with anyio.move_on_after(limit_s):
        while (await client.room(room)).live:  # noqa: ASYNC110 - the daemon's answer, not an event of this process
            await anyio.sleep(0.01)
        await client.stop(room)  # a host that goes down is not live any more; this returns when it is down
        return
    raise DaemonFailedError(f"the room is still live after {limit_s:.0f} s")


def gone(family: frozenset[Process], *, limit_s: float = 5.0) -> tuple[Process, ...]:
    """Wait until all of a family have ended and return those that have not."""
    return settle(family, limit_s)


# ---------------------------------------------------------------------------------------------------------------- victims


@dataclass(frozen=True, slots=True)
class Victims:
    """The processes of one running sandbox, found by descent.

    ``outer`` is the daemon's own child, ``init`` is process 1 of the sandbox, ``programs`` are what Jam started in it, oldest first, and
    ``provider`` is the one of them whose file lies where the provider's tools are mounted.
    """

    outer: Process
    init: Process
    programs: tuple[Process, ...]
    provider: Process | None


def victims(daemon: int) -> Victims | None:
    """Find the processes of the daemon's only running sandbox; ``None`` while it has no process 1 yet."""
    below = descendants(daemon)
    parents = {process.pid: _parent(process.pid) for process in below}
    init = next((process for process in below if _number_inside(process.pid) == 1), None)
    if init is None:
        return None
    # Each program leads a session of its own, two generations below process 1: between them is the process that adopts its orphans.
    programs = [p for p in below if p.session == p.pid and parents.get(parents.get(p.pid, 0), 0) == init.pid]
    outer = next((p for p in below if parents.get(p.pid) == daemon and _is_above(p.pid, init.pid, parents)), None)
    if outer is None:
        return None
    programs.sort(key=lambda p: (p.started, p.pid))
    provider = next((p for p in programs if _executable(p.pid).startswith(f"{TOOLS_ROOT}/")), None)
    return Victims(outer, init, tuple(programs), provider)


def kill(processes: tuple[Process, ...]) -> None:
    """SIGKILL exactly these processes and wait for their end."""
    kill_processes(processes)


def _is_above(ancestor: int, pid: int, parents: Mapping[int, int]) -> bool:
    while pid in parents:
        if pid == ancestor:
            return True
        pid = parents[pid]
    return False


def _status(pid: int, field: str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return next((line.split()[1:] for line in text.splitlines() if line.startswith(f"{field}:")), [])


def _parent(pid: int) -> int:
    return int((_status(pid, "PPid") or ["0"])[0])


def _executable(pid: int) -> str:
    """Return the path of a process's file as it is seen in the sandbox."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def _number_inside(pid: int) -> int:
    """Return the process's number in its own pid namespace; 0 when it lives in ours."""
    numbers = _status(pid, "NSpid")
    return int(numbers[-1]) if len(numbers) > 1 else 0


# ------------------------------------------------------------------------------------------------------------ toolchain


async def place_toolchain(app: Path, provider: str, *, tables: Mapping[str, object] = NO_TABLES) -> None:
    """Put the pinned program of a provider where the daemon would install it, without a download for each test.

    Args:
        app: The daemon's app directory.
        provider: Of an installed plugin, or of one of the tables.
        tables: The providers by configuration that the daemon will read.

    Raises:
        ToolchainUnavailableError: The plugin is not installed or not loaded, or its program cannot be had here.
    """
    spec = await _pinned(provider, tables)
    source = await to_thread.run_sync(installed_toolchain, spec)
    await to_thread.run_sync(_link, app, provider, spec, source)


def probe_provider(provider: str, tables: Mapping[str, object] = NO_TABLES) -> str | None:
    """Answer a need: ``None`` when the plugin is installed, or of a table, and its pinned program can be had, else why not."""
    try:
        installed_toolchain(anyio.run(_pinned, provider, tables))
    except ToolchainUnavailableError as error:
        return str(error)
    return None


async def _pinned(provider: str, tables: Mapping[str, object] = NO_TABLES) -> ToolchainSpec:
    manager = ProviderManager()
    await manager.load(tables=tables)
    if provider not in manager.names():
        raise ToolchainUnavailableError(f"the provider plugin {provider} is not installed")
    spec = manager.provider(provider).description.toolchain
    if spec is None:
        raise ToolchainUnavailableError(f"the provider plugin {provider} names no program")
    return spec


def _link(app: Path, provider: str, spec: ToolchainSpec, source: Path) -> None:
    files = Files()
    final = app / layout.toolchain(provider, spec.version)
    files.make_private(final.parent)
    shutil.copytree(source, final, copy_function=_link_or_copy)
    record = CompletionRecord.model_validate_json((source / COMPLETE).read_bytes()).model_copy(update={"provider": provider})
    files.write_atomic(final / COMPLETE, record.canonical_json() + b"\n")


def _link_or_copy(source: str, target: str) -> None:
    """Link, so that hundreds of megabytes are not copied for each test; copy where the two lie on different file systems."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
