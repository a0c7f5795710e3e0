"""``jam daemon stop``."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Annotated

import anyio
import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.control.address import read_record
from jamcore.control.failures import AddressUnreadableError, DaemonNotRunningError, NoAnswerError, SettingsInvalidError
from jamcore.control.peer import peer_pid
from jamcore.control.wire import raw_socket
from jamcore.domain.limits import FORCED_EXIT_S

BEYOND_S = 5.0
"""The daemon ends itself by force after its own bound; this is waited beyond that."""
KILLED_S = 50.0
"""A process that was killed ends at once, unless the machine swaps or a disk hangs."""
TERM_S = 10.0
"""How long a daemon that does not answer gets to end by itself before it is killed."""


def command(
    force: Annotated[
        bool, typer.Option("--force", help="For a daemon that does not answer: ask by signal, and kill it after 10 seconds.")
    ] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Stop the daemon and wait until it has ended. Running turns are interrupted and checkpointed; all rooms come back later."""

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("stopping the daemon"):
            stopped = await (_force(session) if force else _ask(session))
        if session.output.json:
            session.output.document({"stopped": stopped, "running": False})
        else:
            session.output.line("The daemon has ended." if stopped else "The daemon was not running.")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


async def _ask(session: Session) -> bool:
    """Stop it as it wishes; return whether it ran."""
    client = session.client(start=False, any_version=True)
    wait_s = _forced_exit_s(session) + BEYOND_S
    try:
        process = _Process((await client.health()).pid)
    except (DaemonNotRunningError, ProcessLookupError):
        return False
    try:
        await client.shutdown()
        if not await process.ended(wait_s):
            raise NoAnswerError(request="shutdown", waited_s=wait_s, pid=str(process.pid))
    finally:
        process.close()
    return True


async def _force(session: Session) -> bool:
    """End it without its help; return whether it ran.

    Raises:
        AddressUnreadableError: Another process than the one that is written down listens, so nothing was signalled.
        NoAnswerError: It did not even end when it was killed.
    """
    record = read_record(session.directory)
    if record is None:
        return False
    try:
        process = _Process(record.pid)
    except ProcessLookupError:
        return False
    try:
        # The process is held first. Whoever listens after that with the same number is the process that is held, or it is over.
        stream = await session.reach(start=False, any_version=True).find()
        if stream is None:
            return False
        async with stream:
            if peer_pid(raw_socket(stream)) != record.pid:
                raise AddressUnreadableError(path=record.socket, reason=f"who listens is not process {record.pid}")
        process.signal(signal.SIGTERM)
        if not await process.ended(TERM_S):
            process.signal(signal.SIGKILL)
            if not await process.ended(KILLED_S):
                raise NoAnswerError(request="SIGKILL", waited_s=KILLED_S, pid=str(record.pid))
    finally:
        process.close()
    return True


def _forced_exit_s(session: Session) -> float:
    """Return the daemon's own bound, as its settings are now; with settings that nobody can read, the default."""
    from jamcore.control.settings import load_settings  # late: no other command but `jam config show` reads all settings

    try:
        return load_settings(session.directory, session.environ).settings.forced_exit_s
    except SettingsInvalidError:
        return FORCED_EXIT_S


class _Process:
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
