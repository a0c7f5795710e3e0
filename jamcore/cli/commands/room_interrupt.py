"""``jam room interrupt``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.views import room_state


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Interrupt the turn that runs in a room, with the commands it left in the background. Does nothing when none runs."""

    async def work(session: Session) -> Exit:
        client = session.client()
        with session.output.ticker.during("interrupting"):
            busy = (await client.room(room)).busy
            view = await client.interrupt(room)
        if session.output.json:
            session.output.document(view)
        elif not busy:
            session.output.line(f"{view.room.name}: nothing was running ({room_state(view)})")
        else:
            session.output.line(f"{view.room.name}: {room_state(view)}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
