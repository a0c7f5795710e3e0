"""``jam room ls`` and ``jam ls``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.views import show_rooms


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List rooms, newest first: which agent, in which engine, and what it is doing."""

    async def work(session: Session) -> Exit:
        rooms = await session.client().rooms()
        if session.output.json:
            session.output.document(rooms)
            return Exit.OK
        show_rooms(session.output, rooms)
        if not rooms:
            session.output.note("No rooms yet. Open one: jam room new AGENT (`jam provider ls` names them)")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
