"""``jam approvals show``."""

from __future__ import annotations

from jamcore.cli.approvals import show_approval
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import ApprovalArgument, DirectoryOption, JsonOption
from jamcore.domain.approvals import ApprovalState


def command(approval: ApprovalArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show what an agent asked to do, with all that is known of it, and how it was decided."""

    async def work(session: Session) -> Exit:
        found = await session.client().approvals.get(approval)
        if session.output.json:
            session.output.document(found)
            return Exit.OK
        show_approval(session.output, found)
        if found.state is ApprovalState.PENDING:
            session.output.note(f"Answer: jam approvals decide {found.id} allow   (or deny)")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
