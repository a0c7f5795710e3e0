"""``jam workspace inspect``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.workspaces import show_workspace
from jamcore.domain.sessions import WorkspaceState

WELL = (WorkspaceState.READY, WorkspaceState.ARCHIVED)


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show how a room's workspace stands: its place, its work, what has not ended, its exports, and what can be typed next.

    Changes nothing. Ends with status 1 when something is wrong with it.
    """

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("looking inside"):
            view = await session.client().workspaces.inspect(room)
        if session.output.json:
            session.output.document(view)
        else:
            show_workspace(session.output, view)
        wrong = view.unfinished is not None or view.workspace.state not in WELL
        there = view.workspace.state is WorkspaceState.ARCHIVED or (view.place is not None and view.place.sound)
        return Exit.NOT_WELL if wrong or not there else Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)
