"""``jam change reject``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import ChangeArgument, DirectoryOption, JsonOption, PatchDigestOption
from jamcore.domain.requests import RejectRequest


def command(
    change: ChangeArgument,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; the agent hears it as the room's next turn.")],
    quietly: Annotated[bool, typer.Option("--quietly", help="Record the reason only; the agent is not told.")] = False,
    patch_sha256: PatchDigestOption = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Reject a change request. The reason becomes the room's next turn, so that the agent can do better."""

    async def work(session: Session) -> Exit:
        client = session.client()
        view = await client.change(change)
        request = RejectRequest(
            id=session.ids.uuid(),
            patch_sha256=patch_sha256 or view.change.patch_sha256,
            reason=why,
            turn_id=None if quietly else session.ids.uuid(),
        )
        decision = await client.reject_change(str(view.change.id), request)
        if session.output.json:
            session.output.document(decision)
            return Exit.OK
        session.output.line(f"Rejected: {decision.change_id}", "yellow")
        if decision.turn_id is not None:
            room = view.change.room_id
            session.output.note(f"The agent was told. Watch it: jam attach {room}; when it is done: jam change new {room}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
