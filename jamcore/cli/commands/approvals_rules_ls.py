"""``jam approvals rules ls``."""

from __future__ import annotations

from jamcore.cli.approvals import show_rules
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List what was allowed for good, newest first."""

    async def work(session: Session) -> Exit:
        rules = await session.client().approvals.rules()
        if session.output.json:
            session.output.document(rules)
            return Exit.OK
        show_rules(session.output, rules)
        if not rules:
            session.output.note("No rules yet. Make one: jam approvals decide ID allow --always room")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
