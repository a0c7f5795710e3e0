"""``jam plugin ls``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.plugins import COLUMNS, notes_on, plugin_row


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List provider, engine, policy and family plugins: where each comes from, which interface it was built for, and what became of it.

    One that was not loaded is listed with everything that is wrong with it; one that uses what will go, with a warning.
    """

    async def work(session: Session) -> Exit:
        plugins = await session.client().plugins.list()
        if session.output.json:
            session.output.document(plugins)
            return Exit.OK
        session.output.table(COLUMNS, map(plugin_row, plugins))
        for view in plugins:
            for note, style in notes_on(view):
                session.output.note(note, style)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
