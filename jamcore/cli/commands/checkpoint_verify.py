"""``jam checkpoint verify``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import CheckpointArgument, DirectoryOption, JsonOption
from jamcore.cli.rooms import room_on
from jamcore.cli.views import moment


def command(checkpoint: CheckpointArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Read a checkpoint whole and say whether every byte is there and sound. Ends with a status of its own when one is not."""

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("reading the checkpoint"):
            verdict = await session.client().verify_checkpoint(checkpoint)
        row = verdict.checkpoint
        if session.output.json:
            session.output.document(verdict)
        elif verdict.removed_at is not None:
            session.output.line(f"Generation {row.generation}: payload removed on {moment(verdict.removed_at)}", "yellow")
        elif verdict.sound:
            session.output.line(f"Generation {row.generation} is sound: {row.files} files, {row.bytes_total} bytes", "green")
            if verdict.note:
                session.output.note(f"Its own pack is not: {verdict.note}", "yellow")
        else:
            session.output.line(f"Generation {row.generation} is damaged: {verdict.problem}", "red")
            room = await room_on(session.client(), row.host_id)
            session.output.note(
                "It is kept as it is. A live room's next turn makes a sound one; what becomes of a parked room: "
                f"jam continuity inspect {room}"
            )
        return Exit.OK if verdict.sound else Exit.NOT_WELL

    invoke(work, json=json, directory=app_directory)
