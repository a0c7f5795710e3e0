"""``jam approvals ls``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.approvals import show_approvals
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.domain.approvals import ApprovalState


def command(
    room: Annotated[str | None, typer.Option(metavar="ROOM", help="Of this room alone.")] = None,
    state: Annotated[ApprovalState | None, typer.Option(help="In this state alone.")] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """List what agents asked to do, newest first: what waits, and how the rest was decided."""

    async def work(session: Session) -> Exit:
        approvals = await session.client().approvals.list(room=room, state=state)
        if session.output.json:
            session.output.document(approvals)
            return Exit.OK
        show_approvals(session.output, approvals)
        if not approvals:
            session.output.note("Nothing was asked. Agents ask in rooms made with `jam room new AGENT --approvals ask`.")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
