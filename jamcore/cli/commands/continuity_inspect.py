"""``jam continuity inspect``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.output import Output
from jamcore.cli.words import quoted
from jamcore.domain.continuity import ContinuityFailure
from jamcore.domain.resets import ContinuityView, FilesCarried, SessionEvidence


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Say whether a room's conversation can be brought back, and show the evidence. Nothing is changed.

    Where it cannot, this shows what a fresh start would give up, what stays, and the command for it. A fresh start covers every room of
    the sandbox: on a shared one, its sound conversations too.
    """

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("reading the last checkpoint"):
            view = await session.client().inspect_continuity(room)
        if session.output.json:
            session.output.document(view)
        else:
            _show(session.output, room, view)
        return Exit.OK if view.evidence.failure is None else Exit.NOT_WELL

    invoke(work, json=json, directory=app_directory, room=room)


def _show(output: Output, room: str, view: ContinuityView) -> None:
    if view.evidence.failure is None:
        _show_sound(output, quoted(room), view)
        return
    _show_evidence(output, view)
    output.table(
        ("ROOM", "FAILURE", "TURNS", "SAFE", "FILES", "A FRESH START"),
        ((each.name, each.failure or "none", each.turns, each.captured, each.files, _GOES_ON[each.carried]) for each in view.rooms),
    )
    _advise(output, quoted(room), view)


def _show_sound(output: Output, room: str, view: ContinuityView) -> None:
    """Say that nothing is wrong, and nothing of what there is no reason for; damage that costs no conversation is told."""
    if view.evidence.generation_state == "corrupt":
        output.line(f"The last checkpoint is damaged, and no conversation is lost: {view.meaning}", "yellow")
    else:
        output.line(f"Nothing is wrong: {view.meaning}", "green")
    if not view.blocked:
        output.note(f"Bring it back: jam room resume {room}")


def _show_evidence(output: Output, view: ContinuityView) -> None:
    evidence = view.evidence
    row = evidence.checkpoint
    last = f"{row.id} (generation {row.generation}, {evidence.generation_state}, by {row.provider_version})" if row else "none"
    output.pairs(
        (
            ("failure", evidence.failure),
            ("which means", view.meaning),
            ("sandbox", evidence.sandbox),
            ("last checkpoint", last),
            ("program now", evidence.current_version),
            *(pair for session in evidence.sessions for pair in _observed(session)),
            ("evidence", view.digest),
        )
    )


def _advise(output: Output, room: str, view: ContinuityView) -> None:
    if view.unfinished:
        output.note("A fresh start was confirmed and cut. It can only be finished:")
    else:
        if view.evidence.failure is ContinuityFailure.RESUME_FAILED:
            output.note(f"The attempt may be made again, and a success settles it: jam room resume {room}")
        if sound := [each.name for each in view.rooms if each.failure is None and each.turns]:
            output.note(f"A fresh start gives up sound conversations too: {', '.join(sound)}", "yellow")
        output.note("A fresh start gives up the conversations above; their history stays readable, and nothing is deleted.")
    if view.can_start_fresh:
        output.note(f"Begin afresh: jam continuity start-fresh {room} --confirm --evidence {view.digest}")
    else:
        output.note(f"A fresh start is not possible now: {view.blocked}", "yellow")


_GOES_ON: Mapping[FilesCarried, str] = MappingProxyType(
    {"copied": "goes on with a copy", "in-place": "works on in them", "left": "begins without them; they stay"}
)


def _observed(session: SessionEvidence) -> tuple[tuple[str, object], ...]:
    seen = session.observation
    if seen is None:
        return ()
    return (("last resume", f"{seen.outcome}, {seen.observed_at:%Y-%m-%d %H:%M}: {seen.expected_identity}, reported {seen.said}"),)
