"""``jam daemon stop``."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.control.address import read_record
from jamcore.control.ending import end, end_within_s, held, listener
from jamcore.control.failures import AddressUnreadableError, NoAnswerError

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
            stopped = await (_force(session) if force else stop(session))
        if session.output.json:
            session.output.document({"stopped": stopped, "running": False})
        else:
            session.output.line("The daemon has ended." if stopped else "The daemon was not running.")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


async def stop(session: Session, *, if_idle: bool = False) -> bool:
    """Stop it as it wishes, saying what that interrupts and how long it may take; return whether it ran.

    Raises:
        RemoteRefusalError: With ``if_idle``: it works (``daemon.busy``).
        NoAnswerError: It does not answer, or did not end in time.
    """

    def told(working: tuple[str, ...], limit_s: float) -> None:
        for line in () if if_idle else working:
            session.output.note(f"waiting for the end of: {line} (at most {limit_s:.0f} s)")

    reach = session.reach(start=False, any_version=True)
    return await end(reach, within_s=end_within_s(session.directory, session.environ), if_idle=if_idle, told=told)


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
        with held(record.pid) as process:
            # The process is held first. Whoever listens after that with the same number is the process that is held, or it is over.
            found = await listener(session.reach(start=False, any_version=True))
            if found is None:
                return False
            if found != record.pid:
                raise AddressUnreadableError(path=record.socket, reason=f"who listens is not process {record.pid}")
            process.signal(signal.SIGTERM)
            if not await process.ended(TERM_S):
                process.signal(signal.SIGKILL)
                if not await process.ended(KILLED_S):
                    raise NoAnswerError(request="SIGKILL", waited_s=KILLED_S, pid=str(record.pid))
    except ProcessLookupError:
        return False
    return True
