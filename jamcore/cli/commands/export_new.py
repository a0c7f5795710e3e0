"""``jam export new``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.archives import left_out_path
from jamcore.cli.exits import Exit
from jamcore.cli.exports import show_export
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.words import quoted
from jamcore.domain.keeping import RoomExportRequest


def command(
    room: RoomArgument,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A path below the workspace that may be lost, with all below it. May be repeated."),
    ] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Export a room's workspace and its conversation as plain files, which can be read and checked without Jam.

    The room may be live: its turns wait, and its sandbox is held still where the engine can. What cannot be kept exactly, and what changes
    meanwhile, is named, and nothing is exported then; `--leave-out` says what may be lost. What looks like a credential is exported, and
    named. Nothing of the room is changed.
    """

    async def work(session: Session) -> Exit:
        request = RoomExportRequest(id=session.ids.uuid(), leave_out=tuple(left_out_path(each) for each in leave_out or ()))
        with session.output.ticker.during("exporting the workspace"):
            view = await session.client().exports.new(room, request)
        if session.output.json:
            session.output.document(view)
        else:
            show_export(session.output, view)
            session.output.note(f"Check it without Jam: cd {quoted(view.path)} && sha256sum -c SHA256SUMS")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
