"""Finding the daemon of an app directory, and starting it where it does not run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import SocketStream

from jamcore.control import wire
from jamcore.control.address import read_record
from jamcore.control.failures import (
    AddressUnreadableError,
    DaemonNotRunningError,
    DaemonOtherVersionError,
    DaemonStartFailedError,
    DaemonStartTimeoutError,
    ForeignDaemonError,
)
from jamcore.control.launch import Launch, launched
from jamcore.control.peer import peer_pid, peer_uid
from jamcore.control.schemas import DaemonRecord
from jamcore.control.versions import API_VERSION, jam_version
from jamcore.domain import layout
from jamcore.system.lock import doing_of
from jamcore.system.tasks import owned_tasks

START_WAIT_S = 60.0
"""A start replays interrupted work before it listens; with many hosts that takes seconds."""
RECOVERY_WAIT_S = 900.0
"""A start that says what it recovers is waited for so long: it may copy a whole work tree, or what checkpoints need."""
LOOK_S = 0.5
"""How often to look what a start is about."""
POLL_S = 0.005
"""How often to look whether a daemon that was just started listens: a look is one small file."""
RELAUNCH_S = 1.0
"""How long to look for another daemon before starting ours again, twice as long each time: it holds the directory while it ends or
recovers, which takes seconds."""
DAEMON = (sys.executable, "-P", "-m", "jamcore.jamd")
"""``-P``: a package of the same name in the current directory is never run instead."""

_ALREADY = re.compile(r"\bdaemon\.already_running\b")


def _ignore() -> None:
    return None


class Reach:
    """The way to one daemon. Each call of :meth:`open` finds it anew, so a daemon that came back is found too."""

    def __init__(
        self,
        directory: Path,
        *,
        environ: Mapping[str, str],
        start: bool = False,
        any_version: bool = False,
        on_start: Callable[[], None] = _ignore,
        on_recovery: Callable[[str], None] = lambda _doing: None,
        command: tuple[str, ...] = DAEMON,
        start_wait_s: float = START_WAIT_S,
        replace: Callable[[Reach], Awaitable[None]] | None = None,
    ) -> None:
        """Name the daemon.

        Args:
            directory: The app directory.
            environ: What a daemon that is started gets as its environment.
            start: Start the daemon when it does not run.
            any_version: Accept a daemon of another release; only to ask who it is or to stop it.
            on_start: Called when a daemon is about to be started, to tell a person why it takes longer.
            on_recovery: Called with what a start is about, each time that this is something else.
            command: The daemon's command; ``--app-directory`` is added.
            start_wait_s: How long a start may take that does not say what it is about.
            replace: What to do about a daemon of another release where one may be started: ends it, or raises. Absent: it is refused.
        """
        self.directory = directory
        self.environ = environ
        self._start = start
        self._any_version = any_version
        self._on_start = on_start
        self._on_recovery = on_recovery
        self._command = command
        self._start_wait_s = start_wait_s
        self._replace = replace

    def to_any_version(self) -> Reach:
        """Return a way to the same daemon, of whatever release it is, that starts none: to ask who it is, or to stop it."""
        return Reach(self.directory, environ=self.environ, any_version=True)

    def pid(self) -> str:
        """Return the pid that the daemon wrote down, for a person to look at. Nothing may be done to it on this word alone."""
        record = read_record(self.directory)
        return "unknown" if record is None else str(record.pid)

    async def open(self) -> SocketStream:
        """Return a connection to the daemon, starting it first when that was asked for.

        Raises:
            DaemonNotRunningError: It does not run and was not to be started.
            DaemonStartFailedError: It ended instead of listening; carries its own reason.
            DaemonStartTimeoutError: It did not listen in time; says what it is about.
            DaemonOtherVersionError: It is of another release.
            ForeignDaemonError: Another user listens there.
            AddressUnreadableError: Its address cannot be read or reached.
        """
        try:
            stream = await self.find()
        except DaemonOtherVersionError:
            if not self._start or self._replace is None:
                raise
            await self._replace(self)
            stream = await self.find()  # somebody else may have started one meanwhile
        if stream is not None:
            return stream
        if not self._start:
            raise DaemonNotRunningError(app_directory=str(self.directory))
        self._on_start()
        return await self._start_and_wait()

    async def find(self) -> SocketStream | None:
        """Return a connection if a daemon listens, else ``None``. Starts nothing."""
        record = read_record(self.directory)
        if record is None:
            return None
        path = Path(record.socket)
        try:
            stream = await wire.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise AddressUnreadableError(path=record.socket, reason=error.strerror or type(error).__name__) from error
        try:
            self._accept(record, stream)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
        return stream

    def _accept(self, record: DaemonRecord, stream: SocketStream) -> None:
        owner = peer_uid(wire.raw_socket(stream))
        if owner is not None and owner != os.geteuid():
            raise ForeignDaemonError(socket=record.socket, owner_uid=owner)
        ours = jam_version()
        if not self._any_version and (record.api != API_VERSION or record.version != ours):
            raise DaemonOtherVersionError(daemon=record.version, client=ours)

    async def _start_and_wait(self) -> SocketStream:
        """Start a daemon in a session of its own, where no signal of this terminal reaches it, and wait until somebody listens.

        Ours may find another one: then that one counts, or it is just ending, and after a while ours is started again.
        """
        begun = anyio.current_time()
        with anyio.CancelScope(deadline=begun + self._start_wait_s) as bound:
            return await _until_first(self._launch, partial(self._follow, bound, begun + RECOVERY_WAIT_S))
        waited, doing = anyio.current_time() - begun, doing_of(self.directory / layout.LOCK)
        raise DaemonStartTimeoutError(app_directory=str(self.directory), waited_s=round(waited, 1), doing=doing)

    async def _launch(self) -> SocketStream:
        argv = (*self._command, "--app-directory", str(self.directory))
        pause = RELAUNCH_S
        while True:
            async with launched(argv, self.environ) as launch:
                if stream := await self._wait(launch):
                    if peer_pid(wire.raw_socket(stream)) not in {launch.pid, None}:
                        launch.dismiss()
                    return stream
                reason = launch.reason()
            if not _ALREADY.search(reason):
                raise DaemonStartFailedError(app_directory=str(self.directory), reason=reason)
            with anyio.move_on_after(pause):
                return await self._poll()
            pause *= 2

    async def _follow(self, bound: anyio.CancelScope, latest: float) -> None:
        """Pass on what the start is about, and put the bound off for as long as it says something."""
        said = ""
        while True:
            await anyio.sleep(LOOK_S)
            doing = doing_of(self.directory / layout.LOCK)
            if doing:
                bound.deadline = min(latest, anyio.current_time() + self._start_wait_s)
            if doing and doing != said:
                self._on_recovery(doing)
            said = doing

    async def _wait(self, launch: Launch) -> SocketStream | None:
        """Return a connection to whoever listens first, or ``None`` when ours ended and nobody does."""
        found: list[SocketStream] = []

        async def look(scope: anyio.CancelScope) -> None:
            found.append(await self._poll())
            scope.cancel()

        async with owned_tasks() as tasks:
            tasks.start_soon(look, tasks.cancel_scope)
            await launch.ended()
            tasks.cancel_scope.cancel()
        # What listened just before the end was perhaps not yet looked at.
        return found[0] if found else await self.find()

    async def _poll(self) -> SocketStream:
        while True:
            if stream := await self.find():
                return stream
            await anyio.sleep(POLL_S)


async def _until_first(
    work: Callable[[], Awaitable[SocketStream]], beside: Callable[[], Coroutine[None, None, None]]
) -> SocketStream:
    """Return what ``work`` returns; what is done beside it ends with it."""
    async with owned_tasks() as tasks:
        tasks.start_soon(beside)
        found = await work()
        tasks.cancel_scope.cancel()
    return found
