"""``jam plugin block``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.plugins import outcome


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name, as `jam plugin ls` shows it.")],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="For whoever wonders later.")] = "",
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Never load a plugin of this name again, from the daemon's next start on.

    Nothing is deleted: rooms of a blocked agent stay listed with their files and conversations, and are refused with the command that
    unblocks it.
    """

    async def work(session: Session) -> Exit:
        views = await session.client().plugins.block(name, why=why)
        if session.output.json:
            session.output.document(views)
        else:
            session.output.line(outcome(name, views, blocked=True), "yellow")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
