"""``jam change show``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.views import show_change


def command(
    change: Annotated[
        str, typer.Argument(metavar="CHANGE", help="A change request's id, or 8 or more characters of its beginning or end.")
    ],
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
        show_change(session.output, view.change)
        if patch:
            session.output.line()
            for line in view.patch.splitlines():
                session.output.line(line, _STYLES.get(line[:1], ""))
            if view.patch_truncated:
                session.output.note("The patch is longer; the file has all of it.", "yellow")
        session.output.note(f"Files: {view.directory}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


_STYLES: Mapping[str, str] = MappingProxyType({"+": "green", "-": "red", "@": "cyan"})
