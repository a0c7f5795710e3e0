"""``jam provider cells``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.domain.cells import Placement
from jamcore.domain.shared_hosts import ONE_TRUST_DOMAIN


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
        if any(row.cell.placement is Placement.SHARED for row in rows):
            session.output.note(ONE_TRUST_DOMAIN)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
