"""``jam provider cells``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List the legal combinations of placement, configuration and workspace, and the engines here that can run each."""

    async def work(session: Session) -> Exit:
        rows = await session.client().cells()
        if session.output.json:
            session.output.document(rows)
            return Exit.OK
        session.output.table(
            ("AGENT", "PLACEMENT", "CONFIGURATION", "WORKSPACE", "ENGINES"),
            (
                (
                    row.provider,
                    row.cell.placement,
                    row.cell.configuration,
                    row.cell.workspace,
                    ", ".join(row.engines) or "none here",
                )
                for row in rows
            ),
        )
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
