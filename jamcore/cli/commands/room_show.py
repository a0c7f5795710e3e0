"""``jam room show``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.views import show_room, show_turns


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show one room: its agent, sandbox and workspace, and how each turn ended."""

    async def work(session: Session) -> Exit:
        client = session.client()
        view, turns = await client.room(room), await client.turns(room)
        if session.output.json:
            session.output.document({"room": view, "turns": turns})
            return Exit.OK
        show_room(session.output, view)
        if turns:
            session.output.line()
            show_turns(session.output, turns)
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
