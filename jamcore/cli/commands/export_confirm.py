"""``jam export confirm``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.confirming import digest_of
from jamcore.cli.exits import Exit
from jamcore.cli.imports import show_import
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, ExportArgument, JsonOption
from jamcore.domain.imports import ConfirmRequest


def command(
    export: ExportArgument,
    *,
    confirm: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Let it be restored: the digest that this command shows without.")
    ] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show what there is to confirm of an export from elsewhere, or confirm it, so that it may become a room.

    All of it is read each time. Without `--confirm` nothing is changed. Who made it is what it says itself; nothing proves that.
    """

    async def work(session: Session) -> Exit:
        request = None if confirm is None else ConfirmRequest(confirmed=digest_of(confirm))
        with session.output.ticker.during("reading the export"):
            imports = session.client().imports
            view = await (imports.inspect(export) if request is None else imports.confirm(export, request))
        if session.output.json:
            session.output.document(view)
        else:
            show_import(session.output, view)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
