"""``jam checkpoint ls``."""

from __future__ import annotations

from itertools import groupby

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.views import moment, show_checkpoints
from jamcore.domain.retention import CheckpointStanding


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List the checkpoints of a room, newest first: what each holds, and what it cost.

    BYTES is the whole state that the checkpoint brings back; WRITTEN is what it added to the disk. KEPT says why one cannot be removed, or
    that it was; `jam checkpoint rm` removes the others.
    """

    async def work(session: Session) -> Exit:
        found = await session.client().removals.standings(room)
        if session.output.json:
            session.output.document(found)
            return Exit.OK
        for position, (_, rows) in enumerate(groupby(found, key=lambda each: each.checkpoint.host_id)):
            if position:
                session.output.note("Of a sandbox that a fresh start left:")
            standings = list(rows)
            show_checkpoints(
                session.output, [each.checkpoint for each in standings], {each.checkpoint.id: _kept(each) for each in standings}
            )
        if not found:
            session.output.note("No checkpoint yet: the first one is made with the first turn.")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


def _kept(each: CheckpointStanding) -> str:
    if each.removed_at is not None:
        return f"payload removed on {moment(each.removed_at)}"
    return str(each.kept_because or "")
