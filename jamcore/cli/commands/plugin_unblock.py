"""``jam plugin unblock``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.plugins import outcome


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name, as `jam plugin ls` shows it.")],
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Load plugins of this name again, from the daemon's next start on.

    Refused for one that the setting blocked_plugins names: a command changes no setting.
    """

    async def work(session: Session) -> Exit:
        views = await session.client().plugins.unblock(name)
        if session.output.json:
            session.output.document(views)
        else:
            session.output.line(outcome(name, views, blocked=False), "green")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
