"""``jam daemon restart``."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from jamcore.cli.commands.daemon_stop import stop
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.control.address import read_record
from jamcore.control.failures import RemoteRefusalError
from jamcore.control.handover import BUSY, require_replaceable

LOOK_S = 0.5
"""How often a daemon that works is asked again."""
WAIT_S = 600.0
"""As long as an agent's question waits for a person."""


def command(
    now: Annotated[
        bool, typer.Option("--now", help="Interrupt running turns, as `jam daemon stop` does, instead of waiting for their end.")
    ] = False,
    wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for what runs.")] = WAIT_S,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Stop the daemon and start it again, in the release of this command. Waits for what runs; rooms come back when they are used.

    A daemon that still works after the wait is left as it is. A daemon of a newer release is never replaced.
    """

    async def work(session: Session) -> Exit:
        record = read_record(session.directory)
        if record is not None:
            require_replaceable(record)
        stopped = await (_now(session) if now else _when_idle(session, wait))
        with session.output.ticker.during("waiting for the daemon"):
            health = await session.client().health()
        if session.output.json:
            session.output.document({"stopped": stopped, "running": True, "health": health})
        else:
            session.output.line(f"The daemon runs: version {health.version}, pid {health.pid}", "green")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


async def _now(session: Session) -> bool:
    with session.output.ticker.during("stopping the daemon"):
        return await stop(session)


async def _when_idle(session: Session, wait_s: float) -> bool:
    """Stop it once nothing is under way, saying what that is whenever it changes; return whether it ran.

    Raises:
        RemoteRefusalError: It still works after the wait (``daemon.busy``).
    """
    said = ""
    deadline = anyio.current_time() + wait_s
    with session.output.ticker.during("stopping the daemon when it is idle (Ctrl-C leaves it as it is)"):
        while True:
            try:
                return await stop(session, if_idle=True)
            except RemoteRefusalError as error:
                if error.code != BUSY or anyio.current_time() >= deadline:
                    raise
                working = error.context().get("working", "")
            if working != said:
                session.output.note(f"waiting for: {working}")
                said = working
            await anyio.sleep(LOOK_S)
