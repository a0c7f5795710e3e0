"""``jam change ls``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.views import show_changes


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List change requests, newest first."""

    async def work(session: Session) -> Exit:
        listed = await session.client().judged_changes()
        if session.output.json:
            decided = {decision.change_id: decision.model_dump(mode="json") for decision in listed.decisions}
            session.output.document([c.model_dump(mode="json") | {"decision": decided.get(c.id)} for c in listed.items])
            return Exit.OK
        show_changes(session.output, listed.items, listed.decisions)
        if not listed.items:
            session.output.note('No change requests yet. Make one: jam run AGENT "…" --repo . (`jam provider ls` names the agents)')
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
