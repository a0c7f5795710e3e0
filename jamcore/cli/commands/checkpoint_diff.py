"""``jam checkpoint diff``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import CheckpointArgument, DirectoryOption, JsonOption


def command(
    older: CheckpointArgument, newer: CheckpointArgument, json: JsonOption = False, app_directory: DirectoryOption = None
) -> None:
    """Show which files of the agent's state were added (+), changed (~) and removed (-) between two checkpoints of one room."""

    async def work(session: Session) -> Exit:
        diff = await session.client().diff_checkpoints(older, newer)
        output = session.output
        if output.json:
            output.document(diff)
            return Exit.OK
        for mark, entries, style in (("+", diff.added, "green"), ("~", diff.changed, "yellow"), ("-", diff.removed, "red")):
            for each in entries:
                output.line(f"{mark} {each.path} ({each.kind}, {each.bytes} bytes)", style)
        listed = len(diff.added) + len(diff.changed) + len(diff.removed)
        if diff.total > listed:
            output.note(f"{diff.total - listed} more.", "yellow")
        if not diff.total:
            output.note("Nothing differs.")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
