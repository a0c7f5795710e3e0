"""``jam change show``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.diff import diff_lines
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import ChangeArgument, DirectoryOption, JsonOption
from jamcore.cli.views import show_change


def command(
    change: ChangeArgument,
    patch: Annotated[bool, typer.Option("--patch/--no-patch", help="Show the patch too.")] = True,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show a change request: the files it changes, what to look at twice, and the patch.

    The patch that is shown has its control characters escaped; the file to apply is named at the end.
    """

    async def work(session: Session) -> Exit:
        view = await session.client().change(change)
        if session.output.json:
            session.output.document(view)
            return Exit.OK
        show_change(session.output, view.change, view.decision)
        if patch:
            session.output.line()
            for line in diff_lines(view.patch):
                session.output.line(line.text, line.style)
            if view.patch_truncated:
                session.output.note("The patch is longer; the file has all of it.", "yellow")
        session.output.note(f"Files: {view.directory}")
        if view.decision is None and view.change.paths:
            session.output.note(f"Accept it: jam change accept {view.change.id}   Or: jam change reject {view.change.id} --why '…'")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
