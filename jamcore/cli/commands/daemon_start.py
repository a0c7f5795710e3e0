"""``jam daemon start``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Start the daemon and wait until it answers. Most commands do this themselves; an already running one is fine."""

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("waiting for the daemon"):
            health = await session.client().health()
        if session.output.json:
            session.output.document(health)
        else:
            session.output.line(f"The daemon runs: version {health.version}, pid {health.pid}", "green")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
