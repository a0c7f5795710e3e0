"""``jam approvals decide``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import ApprovalArgument, DirectoryOption, JsonOption
from jamcore.domain.approvals import ApprovalAnswer, DecisionRequest, RuleScope


def command(
    approval: ApprovalArgument,
    decision: Annotated[ApprovalAnswer, typer.Argument(help="This once, or no.")],
    always: Annotated[
        RuleScope | None, typer.Option(help="Allow the same from now on: in this room, or in all of this agent's.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="With --always: allow every plain command that begins with these words."),
    ] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Answer what an agent asked. The first answer counts; a later one is refused and says how it was decided.

    The agent only ever hears "this once" or "no". What --always allows is Jam's own rule: `jam approvals rules ls` lists it.
    """

    async def work(session: Session) -> Exit:
        request = DecisionRequest(id=session.ids.uuid(), decision=decision, always=always, prefix=prefix)
        decided = await session.client().approvals.decide(approval, request)
        if session.output.json:
            session.output.document(decided)
        else:
            session.output.line(f"{decided.id}: {decided.state}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
