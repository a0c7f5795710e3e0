"""``jam approvals rules rm``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule's id, or 8 or more characters of its beginning or end.")],
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Remove a rule: from now on the agent asks again. What the rule allowed stays done."""

    async def work(session: Session) -> Exit:
        removed = await session.client().approvals.remove_rule(rule)
        if session.output.json:
            session.output.document(removed)
        else:
            session.output.line(f"{removed.id}: removed")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
