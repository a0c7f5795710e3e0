"""``jam workspace recover``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.words import quoted
from jamcore.domain.sessions import WorkspaceState
from jamcore.domain.workspace_care import RecoverRequest, RecoveryWay


def command(
    room: RoomArgument,
    way: Annotated[
        RecoveryWay,
        typer.Argument(
            metavar="retry|export|restore-latest",
            help="Finish what was begun or put the place right; export what is there; or put the newest sound export in its place.",
        ),
    ],
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Recover a room's workspace. None of the ways removes anything.

    `retry` finishes the operation that was cut short, or makes the directories again; where somebody else's manifest was in the way, it is
    kept beside the new one. `export` keeps what is there as a verified export. `restore-latest` keeps what is there beside its place, under
    a name that says when, and puts the files of the newest sound export there. Look first: `jam workspace inspect ROOM`.
    """

    async def work(session: Session) -> Exit:
        output = session.output
        with output.ticker.during("recovering"):
            done = await session.client().workspaces.recover(room, RecoverRequest(id=session.ids.uuid(), way=way))
        well = done.state is WorkspaceState.READY
        if output.json:
            output.document(done)
            return Exit.OK if well or way is RecoveryWay.EXPORT else Exit.NOT_WELL
        output.line(f"{done.said[:1].upper()}{done.said[1:]}. The workspace is {done.state}.", "green" if well else "yellow")
        if done.export_id is not None:
            output.line(f"Export: {done.export_id}")
        if done.kept_aside:
            output.line(f"What was there is kept: {done.kept_aside}")
        output.note(f"Next: jam {'resume' if well else 'workspace inspect'} {quoted(room)}")
        return Exit.OK if well or way is RecoveryWay.EXPORT else Exit.NOT_WELL

    invoke(work, json=json, directory=app_directory, room=room)
