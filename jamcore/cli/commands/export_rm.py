"""``jam export rm``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.clearing import show_deletion
from jamcore.cli.confirming import digest_of
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, ExportArgument, JsonOption
from jamcore.cli.words import exact_size
from jamcore.domain.export_deletions import ExportDeletionRequest


def command(
    export: ExportArgument,
    confirm: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Delete it: the digest of the plan, as this command shows it without.")
    ] = None,
    lose_workspace: Annotated[
        bool, typer.Option("--lose-workspace", help="With --confirm: it is the only sound export, and its room's files are lost.")
    ] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show what deleting an export would take away, or delete it on your word.

    Without `--confirm` nothing is changed; a plan that something stands against ends with the status of a refusal. Only exports of archived
    workspaces go. The only sound one of a workspace goes with `--lose-workspace` alone. The record of the export stays. What is freed is
    what the export takes on the disk, as `du` counts it; other exports are shown with the sum of their files' sizes.
    """

    async def work(session: Session) -> Exit:
        output, client = session.output, session.client().clearing
        if confirm is None:
            with output.ticker.during("looking at what would go"):
                plan = await client.plan_deletion(export)
            if output.json:
                output.document(plan)
            else:
                show_deletion(output, plan)
            return Exit.OK if plan.digest else Exit.REFUSED
        request = ExportDeletionRequest(id=session.ids.uuid(), confirmed=digest_of(confirm), lose_workspace=lose_workspace)
        with output.ticker.during("deleting the export"):
            done = await client.delete_export(export, request)
        if output.json:
            output.document(done)
        else:
            output.line(f"Export {done.export_id}: deleted, {exact_size(done.bytes_freed)} freed")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
