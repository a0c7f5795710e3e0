"""``jam session inspect``."""

from __future__ import annotations

from collections.abc import Iterable

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.output import Output
from jamcore.cli.views import fresh_start_pairs, moment, show_standings, show_trouble, show_turns
from jamcore.cli.words import quoted
from jamcore.domain.continuity import Activation, ActivationDecision, Observation, why_refused
from jamcore.domain.requests import SessionInspection
from jamcore.domain.resets import MEANING
from jamcore.domain.retention import CheckpointStanding


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Show the evidence that a room's conversation can be brought back: checkpoints, resumes, and what was decided at its last start.

    Checkpoints and resumes are listed newest first, turns in their order.
    """

    async def work(session: Session) -> Exit:
        client = session.client()
        found = await client.inspect(room)
        if session.output.json:
            session.output.document(found)
        else:
            _show(session.output, found, await client.removals.standings(room))
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)


def _show(output: Output, found: SessionInspection, standings: tuple[CheckpointStanding, ...]) -> None:
    output.line(f"{found.room.room.name}: conversation {found.room.session.provider_identity or 'none yet'}", "bold")
    if decision := found.decision:
        output.line(_decided(decision), "red" if decision.failure else "green")
        if why := why_refused(decision):
            output.line(why)
        output.note(f"What would be decided now: jam continuity inspect {quoted(found.room.room.name)}")
    output.pairs(fresh_start_pairs(found.room.fresh_starts))
    show_trouble(output, found.room)
    if standings:
        output.line("\nCheckpoints", "bold")
        show_standings(output, standings)
    if found.observations:
        output.line("\nResumes", "bold")
        _show_resumes(output, reversed(found.observations))
    if found.turns:
        output.line("\nTurns", "bold")
        show_turns(output, found.turns)


def _show_resumes(output: Output, observations: Iterable[Observation]) -> None:
    output.table(
        ("OUTCOME", "FROM", "EXPECTED", "REPORTED", "AT", "DETAIL"),
        (
            (each.outcome, each.source, each.expected_identity, each.reported_identity, moment(each.observed_at), each.detail)
            for each in observations
        ),
    )


def _decided(decision: ActivationDecision) -> str:
    """Return what was decided, in words that fit the kind of failure: one outcome stands for several."""
    if decision.failure is not None:
        return f"Its last start was refused: {MEANING[decision.failure]} ({decision.failure})"
    if decision.evidence.live_holds:
        return f"Its last start was decided to be: an exact resume, from live state beside damage ({decision.evidence.problem})"
    if decision.outcome is Activation.EXACT_RESUME:
        return "Its last start was decided to be: an exact resume"
    return "Its last start was decided to be: a new conversation"
