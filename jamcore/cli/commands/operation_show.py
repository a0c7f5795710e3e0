"""``jam operation show``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.operations import show_operation
from jamcore.cli.options import DirectoryOption, JsonOption, OperationArgument


def command(operation: OperationArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show an operation: what it is about, what was confirmed, each step with its time, and what to do when it failed."""

    async def work(session: Session) -> Exit:
        view = await session.client().operations.show(operation)
        if session.output.json:
            session.output.document(view)
        else:
            show_operation(session.output, view)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
