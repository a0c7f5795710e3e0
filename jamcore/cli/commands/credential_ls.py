"""``jam credential ls``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List credentials by name and where each comes from; never their text."""

    async def work(session: Session) -> Exit:
        rows = await session.client().credentials()
        if session.output.json:
            session.output.document(rows)
            return Exit.OK
        session.output.table(("NAME", "PRESENT", "FROM"), ((row.name, row.present, row.source) for row in rows))
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
