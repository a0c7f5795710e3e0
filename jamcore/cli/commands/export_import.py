"""``jam export import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.imports import show_import
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.domain.imports import ImportRequest


def command(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The export's directory, as it came from elsewhere.")],
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Take in an export that was made on another machine, and show what there is to confirm.

    It is copied, and every name and byte of the copy is held against its own lists. Names that could mean another place, links out of it,
    special files and whatever differs are named, and nothing is taken in then. Nothing in it is used until `jam export confirm`.
    """

    async def work(session: Session) -> Exit:
        request = ImportRequest(id=session.ids.uuid(), path=str(directory.expanduser().absolute()))
        with session.output.ticker.during("taking the export in"):
            view = await session.client().imports.take(request)
        if session.output.json:
            session.output.document(view)
        else:
            show_import(session.output, view)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
