"""``jam host capacity``."""

from __future__ import annotations

from jamcore.cli.clearing import show_capacity
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show what each sandbox, its files and checkpoints, and all exports take on the disk, the largest first. Nothing is changed.

    What is older than 30 days and needed by nothing is named, with the command that would remove it. The newest checkpoint of a sandbox,
    the newest export of a workspace, and what something refers to are never named.
    """

    async def work(session: Session) -> Exit:
        report = await session.client().clearing.capacity()
        if session.output.json:
            session.output.document(report)
        else:
            show_capacity(session.output, report)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
