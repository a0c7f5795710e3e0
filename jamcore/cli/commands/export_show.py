"""``jam export show``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.exports import show_export
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, ExportArgument, JsonOption


def command(export: ExportArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show an export: where it lies, what it holds, what was left out, and what in it looks like a credential."""

    async def work(session: Session) -> Exit:
        view = await session.client().exports.show(export)
        if session.output.json:
            session.output.document(view)
        else:
            show_export(session.output, view)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
