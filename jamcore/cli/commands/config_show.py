"""``jam config show``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(
    *,
    origin: Annotated[
        bool, typer.Option("--origin/--no-origin", help="Say where each value comes from, and what it means.")
    ] = True,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show every setting, its value and where it comes from.

    That is the command line, a JAM_ variable, config.toml, an older name of the setting, or the default. A running daemon keeps the
    settings it was started with.
    """

    async def work(session: Session) -> Exit:
        from jamcore.control.settings import load_settings  # late: only this command and the daemon read all settings

        rows = load_settings(app_directory, session.environ).rows()
        if session.output.json:
            session.output.document(
                {row.name: {"value": row.value, "origin": row.origin, "description": row.description} for row in rows}
            )
            return Exit.OK
        if origin:
            session.output.table(("SETTING", "VALUE", "FROM", "MEANING"), rows)
        else:
            session.output.table(("SETTING", "VALUE"), ((row.name, row.value) for row in rows))
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
