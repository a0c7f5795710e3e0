"""``jam operation watch``."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.operations import show_end, show_line, state_word
from jamcore.cli.options import DirectoryOption, JsonOption, OperationArgument
from jamcore.cli.signals import Interruptible
from jamcore.domain.operation_views import OperationView
from jamcore.domain.operations import OperationState


def command(
    operation: OperationArgument,
    after: Annotated[int, typer.Option(metavar="N", min=0, help="Begin after this line of the story.")] = 0,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Follow an operation to its end, one line for each thing that happens. Ctrl-C leaves; the operation goes on.

    Ends with status 1 when the operation did not succeed. With --json each line is a line `{"line": …}`; its `seq` is what --after takes.
    """

    async def work(session: Session) -> Exit:
        view = await session.client().operations.show(operation)
        _begin(session, view)

        async def leave() -> bool:
            return False

        watched = await Interruptible(lambda: _watch(session, view.row.id, after), leave).run()
        if watched is None:
            session.output.note(f"Left; the operation goes on. Come back with: jam operation watch {view.row.id}", "bold")
            return Exit.INTERRUPTED
        done = await session.client().operations.show(view.row.id)
        if not session.output.json:
            show_end(session.output, done)
        return Exit.OK if done.row.state == OperationState.SUCCEEDED else Exit.NOT_WELL

    invoke(work, json=json, directory=app_directory)


def _begin(session: Session, view: OperationView) -> None:
    session.output.note(f"{view.row.title}: {state_word(view.row)}", "bold")
    if view.next and not view.row.ended_at:
        session.output.note(view.next, "yellow")


async def _watch(session: Session, operation: str, after: int) -> bool:
    """Print what happens until nothing follows."""
    output = session.output
    async with aclosing(session.client().operations.events(operation, after=after)) as lines:
        async for line in lines:
            if output.json:
                output.json_line({"line": line})
            else:
                show_line(output, line)
    return True
