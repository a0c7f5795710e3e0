"""``jam change new``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.views import show_change


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Make a change request of a room's files as they are now."""

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("building the change request"):
            change = await session.client().build_change(room, session.ids.uuid())
        if session.output.json:
            session.output.document(change)
            return Exit.OK
        show_change(session.output, change)
        session.output.note(f"Look at the patch: jam change show {change.id}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
