"""``jam host cleanup``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.clearing import show_cleaned, show_cleanup
from jamcore.cli.confirming import digest_of
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.domain.cleanup_plans import CleanupQuestion, CleanupRequest
from jamcore.domain.errors import InvalidInputError


def command(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A sandbox's name, a host's id, or a room on it.")],
    plan: Annotated[bool, typer.Option("--plan", help="Show what would go; so does leaving --confirm out.")] = False,
    confirm: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Remove it: the digest of the plan, as this command shows it without.")
    ] = None,
    discard_work: Annotated[
        bool, typer.Option("--discard-work", help="The work that the plan names in a private clone goes with it, and is lost.")
    ] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show what removing a whole sandbox with its files would take away, or remove it on your word.

    Without `--confirm` nothing is changed: what would go, item by item in bytes, what stays, and everything that stands against it; such a
    plan ends with the status of a refusal. With `--confirm`, if all is still exactly what the plan showed, the sandbox goes first, once it
    is proven to be Jam's, then its directory with workspaces, provider state and checkpoints. Exports, change requests and all rows stay.
    What is cut short goes on when the daemon starts. What is freed is what it takes on the disk, as `du` counts it: blocks, and nothing
    for a file that has names elsewhere too. Exports are shown with the sum of their files' sizes.
    """

    async def work(session: Session) -> Exit:
        if plan and confirm is not None:
            raise InvalidInputError(field="--plan", problem="it shows what --confirm does: give one of them")
        if confirm is None:
            return await _plan(session, host, CleanupQuestion(discard_work=discard_work))
        return await _clean_up(
            session, host, CleanupRequest(id=session.ids.uuid(), confirmed=digest_of(confirm), discard_work=discard_work)
        )

    invoke(work, json=json, directory=app_directory)


async def _plan(session: Session, host: str, question: CleanupQuestion) -> Exit:
    output = session.output
    with output.ticker.during("looking at what would go"):
        plan = await session.client().clearing.plan_cleanup(host, question)
    if output.json:
        output.document(plan)
    else:
        show_cleanup(output, plan, host)
    return Exit.REFUSED if plan.standing else Exit.OK


async def _clean_up(session: Session, host: str, request: CleanupRequest) -> Exit:
    output = session.output
    with output.ticker.during("removing the sandbox and its files"):
        done = await session.client().clearing.clean_up(host, request)
    if output.json:
        output.document(done)
    else:
        show_cleaned(output, done)
    return Exit.OK
