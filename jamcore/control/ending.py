"""Stopping a daemon in order, and knowing that it has ended: for the command that stops it, and for the release that replaces it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio

from jamcore.control.address import read_record
from jamcore.control.client import JamClient
from jamcore.control.failures import (
    AddressUnreadableError,
    ConnectionDroppedError,
    DaemonNotRunningError,
    DaemonOlderBusyError,
    DaemonOtherVersionError,
    NoAnswerError,
)
from jamcore.control.peer import peer_pid
from jamcore.control.reach import Reach
from jamcore.control.settings import load_settings
from jamcore.control.versions import jam_version
from jamcore.control.wire import raw_socket
from jamcore.domain.activity import Activity
from jamcore.domain.errors import JamError
from jamcore.domain.limits import FORCED_EXIT_S

BEYOND_S = 5.0
"""The daemon ends itself by force after its own bound; this is waited beyond that."""

UNKNOWN = "unknown: that release cannot say what it does"
"""In the place of what is under way."""

Told = Callable[[tuple[str, ...], float], None]
"""Takes what is under way and the longest time that the end may take, before the end begins."""


class Process:
    """A process that is no child of this one; held by a descriptor, so that a reused number is never mistaken for it."""

    def __init__(self, pid: int) -> None:
        """Hold it.

        Raises:
            ProcessLookupError: There is none.
        """
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    async def ended(self, within_s: float) -> bool:
        """Wait for its end; return whether it came."""
        with anyio.move_on_after(within_s):
            await anyio.wait_readable(self._descriptor)
            return True
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


@contextmanager
def held(pid: int) -> Iterator[Process]:
    """Hold a process while the block runs.

    Raises:
        ProcessLookupError: There is none.
    """
    process = Process(pid)
    try:
        yield process
    finally:
        process.close()


async def listener(reach: Reach) -> int | None:
    """Return the process that listens, in the kernel's words; ``None`` when nobody does. Nothing is asked of it.

    Raises:
        AddressUnreadableError: The system cannot tell.
    """
    stream = await reach.find()
    if stream is None:
        return None
    async with stream:
        pid = peer_pid(raw_socket(stream))
    if pid is None:
        raise AddressUnreadableError(path=str(reach.directory), reason="the system does not say which process listens")
    return pid


def end_within_s(directory: Path, environ: Mapping[str, str]) -> float:
    """Return how long an orderly end may take, as the settings are now; with settings that nobody can read, the default's time."""
    try:
        return load_settings(directory, environ).settings.forced_exit_s + BEYOND_S
    except JamError:
        return FORCED_EXIT_S + BEYOND_S


async def end(reach: Reach, *, within_s: float, if_idle: bool, told: Told = lambda working, limit_s: None) -> bool:
    """Ask the daemon to stop in order and wait for its end; return whether it ran.

    Args:
        reach: The way to a daemon of any release.
        within_s: How long its end may take.
        if_idle: Leave a daemon that works as it is.
        told: Told what the end interrupts, before it begins.

    Raises:
        RemoteRefusalError: With ``if_idle``: something is under way (``daemon.busy``).
        DaemonOlderBusyError: With ``if_idle``: it is of a release that cannot say what it does.
        NoAnswerError: It does not answer, or did not end in time.
    """
    client = JamClient(reach)
    pid = await listener(reach)
    if pid is None:
        return False
    try:
        with held(pid) as process:
            activity = await _activity(client)
            if if_idle and activity is None:
                # It may not know the condition either, and would end in the middle of its work.
                raise DaemonOlderBusyError(daemon=_release(reach), client=jam_version(), working=UNKNOWN)
            told(() if activity is None else activity.working, within_s)
            with suppress(ConnectionDroppedError, DaemonNotRunningError):  # somebody else ends it: what counts is its end
                await client.shutdown(if_idle=if_idle)
            if not await process.ended(within_s):
                raise NoAnswerError(request="shutdown", waited_s=within_s, pid=str(pid))
    except ProcessLookupError:
        return False
    return True


async def _activity(client: JamClient) -> Activity | None:
    """Return what goes on, or ``None`` when that cannot be known: another release may say it in another form, or not at all.

    Raises:
        NoAnswerError: It is stuck, so it would not end in order either.
    """
    try:
        return (await client.health()).activity
    except (ConnectionDroppedError, DaemonNotRunningError):
        return Activity(live_rooms=0, working=())  # it is ending already: nothing is interrupted by one more request
    except DaemonOtherVersionError:
        return None


def _release(reach: Reach) -> str:
    record = read_record(reach.directory)
    return "unknown" if record is None else record.version
