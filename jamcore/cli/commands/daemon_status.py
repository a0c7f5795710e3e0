"""``jam daemon status``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.views import moment
from jamcore.control.failures import DaemonNotRunningError


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Say whether the daemon runs. Exit status 5 when it does not. Starts nothing."""

    async def work(session: Session) -> Exit:
        try:
            health = await session.client(start=False, any_version=True).health()
        except DaemonNotRunningError as error:
            if not session.output.json:
                raise
            session.output.document({"running": False, "app_directory": error.app_directory})
            return Exit.UNREACHABLE
        if session.output.json:
            session.output.document({"running": True, "health": health})
            return Exit.OK
        session.output.pairs(
            (
                ("running", "yes"),
                ("version", health.version),
                ("pid", health.pid),
                ("since", moment(health.started_at)),
                ("app directory", health.app_directory),
            )
        )
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
