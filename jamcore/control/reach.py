"""Finding the daemon of an app directory, and starting it where it does not run."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

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
from jamcore.control.schemas import DaemonRecord
from jamcore.control.sockets import peer_uid
from jamcore.control.versions import API_VERSION, jam_version
from jamcore.system.process import Child, spawn

START_WAIT_S = 60.0
"""A start replays interrupted work before it listens; with many hosts that takes seconds, not minutes."""
POLL_S = 0.02
"""How often to look whether a daemon that was just started listens."""
REASON_CHARACTERS = 400
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
        command: tuple[str, ...] = DAEMON,
        start_wait_s: float = START_WAIT_S,
    ) -> None:
        """Name the daemon.

        Args:
            directory: The app directory.
            environ: What a daemon that is started gets as its environment.
            start: Start the daemon when it does not run.
            any_version: Accept a daemon of another release; only to ask who it is or to stop it.
            on_start: Called when a daemon is about to be started, to tell a person why it takes longer.
            command: The daemon's command; ``--app-directory`` is added.
            start_wait_s: How long a start may take.
        """
        self.directory = directory
        self._environ = environ
        self._start = start
        self._any_version = any_version
        self._on_start = on_start
        self._command = command
        self._start_wait_s = start_wait_s

    async def open(self) -> SocketStream:
        """Return a connection to the daemon, starting it first when that was asked for.

        Raises:
            DaemonNotRunningError: It does not run and was not to be started.
            DaemonStartFailedError: It ended instead of listening; carries its own reason.
            DaemonStartTimeoutError: It did not listen in time.
            DaemonOtherVersionError: It is of another release.
            ForeignDaemonError: Another user listens there.
            AddressUnreadableError: Its address cannot be read or reached.
        """
        if stream := await self.find():
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
        """Start a daemon in a session of its own, where no signal of this terminal reaches it, and wait until somebody listens."""
        with tempfile.TemporaryFile() as said:
            argv = (*self._command, "--app-directory", str(self.directory))
            launch = _Launch(spawn(argv, env=self._environ, cwd="/", stderr=said.fileno()), said)
            with anyio.move_on_after(self._start_wait_s):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(launch.watch)
                    stream = await self._wait(launch)
                    tasks.cancel_scope.cancel()
                return self._started(stream, launch)
        raise DaemonStartTimeoutError(app_directory=str(self.directory), waited_s=self._start_wait_s)

    async def _wait(self, launch: _Launch) -> SocketStream | None:
        """Poll until somebody listens, or until the daemon ended for another reason than that one runs already.

        Another client may have started one at the same moment: then ours ends, and that one counts.
        """
        while True:
            ended = launch.ended  # looked at first: what listened before the end is found below
            if stream := await self.find():
                return stream
            if ended and not _ALREADY.search(launch.reason()):
                return None
            await anyio.sleep(POLL_S)

    def _started(self, stream: SocketStream | None, launch: _Launch) -> SocketStream:
        if stream is None:
            raise DaemonStartFailedError(app_directory=str(self.directory), status=launch.status, reason=launch.reason())
        return stream


class _Launch:
    """A daemon that was just started, and what it says before it listens."""

    def __init__(self, child: Child, said: IO[bytes]) -> None:
        self._child = child
        self._said = said
        self.ended = False
        self.status = 0

    async def watch(self) -> None:
        """Note its end."""
        self.status = await self._child.wait()
        self.ended = True

    def reason(self) -> str:
        """Return the end of what it wrote to its standard error."""
        self._said.seek(0)
        text = self._said.read().decode(errors="replace").strip()
        return text[-REASON_CHARACTERS:] or "it said nothing"
