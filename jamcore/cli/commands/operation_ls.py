"""``jam operation ls``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.operations import show_operations
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.domain.operation_views import LISTED, MOST_LISTED


def command(
    room: Annotated[str | None, typer.Option(metavar="ROOM", help="Of this room, and of its sandbox as a whole.")] = None,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Of this sandbox: its name, its host's id, or a room on it.")
    ] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only those that have not ended.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=MOST_LISTED, help="At most so many.")] = LISTED,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """List what Jam did that changes more than a conversation: exports, archives, removals and the like; newest first.

    One that has not ended and was cut short goes on when its command is repeated, and at each start of the daemon.
    """

    async def work(session: Session) -> Exit:
        page = await session.client().operations.list(room=room, host=host, unfinished=unfinished, limit=limit)
        if session.output.json:
            session.output.document(page.items)
            return Exit.OK
        show_operations(session.output, page.items)
        if not page.items:
            session.output.note("Every operation has ended." if unfinished else "No operations yet.")
        if page.more:
            session.output.note(f"There are older ones; --limit N shows up to {MOST_LISTED}.")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
