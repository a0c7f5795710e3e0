"""``jam workspace restore``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.words import exact_size, quoted
from jamcore.domain.keeping import RestoreRequest


def command(
    room: RoomArgument,
    export: Annotated[
        str | None, typer.Option(metavar="EXPORT", help="From this export of the room. Default: the newest that there is.")
    ] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Bring a room's archived files back from an export of them, compared name by name and byte by byte.

    The export is read whole first, and stays as it is. Nothing that is there is overwritten. The conversation comes back with the next
    resume, from a checkpoint of the sandbox or, where that is lost, from the export's.
    """

    async def work(session: Session) -> Exit:
        output = session.output
        with output.ticker.during("bringing the files back"):
            done = await session.client().exports.restore(room, RestoreRequest(id=session.ids.uuid(), export=export))
        if output.json:
            output.document(done)
            return Exit.OK
        output.line(f"Back: {done.files} files, {exact_size(done.bytes_total)}, from export {done.export_id}", "green")
        output.line(done.checkpoint[:1].upper() + done.checkpoint[1:])
        output.note(f"Go on: jam room resume {quoted(room)}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
