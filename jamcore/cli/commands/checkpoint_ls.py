"""``jam checkpoint ls``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.views import show_standings
from jamcore.cli.words import quoted

COLUMNS = (
    "BYTES is what a checkpoint brings back, WRITTEN what it added to the disk when it was made. What its removal would free is another "
    "figure, since others may need the same bytes: jam checkpoint rm --room "
)


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List the checkpoints of a room, newest first: what each holds, and what it cost.

    BYTES is the whole state that the checkpoint brings back; WRITTEN is what it added to the disk when it was made. What its removal would
    free is another figure, since others may need the same bytes. KEPT says why one cannot be removed, or that it was; `jam checkpoint rm`
    shows for the others what would be freed, and removes them.
    """

    async def work(session: Session) -> Exit:
        found = await session.client().removals.standings(room)
        if session.output.json:
            session.output.document(found)
            return Exit.OK
        show_standings(session.output, found)
        session.output.note(COLUMNS + quoted(room) if found else "No checkpoint yet: the first one is made with the first turn.")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
