"""``jam session inspect``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.output import Output
from jamcore.cli.views import moment, show_checkpoints, show_trouble, show_turns
from jamcore.cli.words import quoted
from jamcore.domain.continuity import why_refused
from jamcore.domain.requests import SessionInspection


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show the evidence that a room's conversation can be brought back: checkpoints, resumes, and what was decided at its last start."""

    async def work(session: Session) -> Exit:
        found = await session.client().inspect(room)
        if session.output.json:
            session.output.document(found)
        else:
            _show(session.output, found)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


def _show(output: Output, found: SessionInspection) -> None:
    output.line(f"{found.room.room.name}: conversation {found.room.session.provider_identity or 'none yet'}", "bold")
    if decision := found.decision:
        failure = f" ({decision.failure})" if decision.failure else ""
        output.line(f"Its last start was decided to be: {decision.outcome}{failure}", "red" if decision.failure else "green")
        if why := why_refused(decision):
            output.line(why)
        output.note(f"What would be decided now: jam continuity inspect {quoted(found.room.room.name)}")
    show_trouble(output, found.room)
    output.line("\nCheckpoints", "bold")
    show_checkpoints(output, found.checkpoints)
    output.line("\nResumes", "bold")
    output.table(
        ("OUTCOME", "FROM", "EXPECTED", "REPORTED", "AT", "DETAIL"),
        (
            (each.outcome, each.source, each.expected_identity, each.reported_identity, moment(each.observed_at), each.detail)
            for each in found.observations
        ),
    )
    output.line("\nTurns", "bold")
    show_turns(output, found.turns)
