"""``jam checkpoint show``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import CheckpointArgument, DirectoryOption, JsonOption
from jamcore.cli.views import moment


def command(checkpoint: CheckpointArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show what a checkpoint holds: the agent's state as it was between two turns, by path."""

    async def work(session: Session) -> Exit:
        view = await session.client().checkpoint(checkpoint)
        output, row = session.output, view.checkpoint
        if output.json:
            output.document(view)
            return Exit.OK
        output.line(f"Checkpoint {row.id}, generation {row.generation}, {row.reason}, {moment(row.created_at)}", "bold")
        if view.removed_at is not None:
            output.note(f"Its payload was removed on {moment(view.removed_at)}.", "yellow")
            return Exit.OK
        output.table(("MODE", "KIND", "BYTES", "PATH"), ((each.mode, each.kind, each.bytes, each.path) for each in view.entries))
        if view.entries_total > len(view.entries):
            output.note(f"{view.entries_total - len(view.entries)} more.", "yellow")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
