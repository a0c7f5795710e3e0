"""``jam export ls``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.exports import show_exports
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(
    room: Annotated[str | None, typer.Argument(metavar="[ROOM]", help="Of this room alone.")] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """List exports, newest first: of which room each is, how large, and when it was last read whole."""

    async def work(session: Session) -> Exit:
        found = await session.client().exports.list(room)
        if session.output.json:
            session.output.document(found)
            return Exit.OK
        show_exports(session.output, found)
        if not found:
            session.output.note("No exports yet. Make one: jam export new ROOM")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
