"""What a live terminal shows of a room: work folded to a line each, the status line, and how the conversation stands. All of it pure."""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

import pytest

from jamcore.cli.live.folds import INLINE_DIFF_LINES, KEPT, Folds
from jamcore.cli.live.status import Status
from jamcore.cli.live.view import LiveView
from jamcore.cli.output import Output
from jamcore.cli.standing import standing
from jamcore.domain.approvals import ApprovalState, DecidedBy
from jamcore.domain.continuity import (
    Activation,
    ActivationDecision,
    ActivationEvidence,
    Checkpoint,
    CheckpointReason,
    ContinuityFailure,
    Observation,
    ObservationOutcome,
    ResumeSource,
)
from jamcore.domain.events import (
    IN_DOUBT,
    ApprovalDecided,
    ApprovalRequested,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    Message,
    RoomEvent,
    RoomPayload,
    SessionNotice,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    TurnStateChanged,
    UsageReported,
    UserSaid,
)
from jamcore.domain.requests import RoomRequest, SessionInspection
from jamcore.domain.sessions import TurnState
from jamcore.testing.fake_daemon.records import conversation_of

pytestmark = pytest.mark.unprivileged

AT = datetime(2026, 1, 1, tzinfo=UTC)
TURN = UUID(int=5)
STARTED = CommandStarted(item="c", command="make test", cwd="/w")


def finished(output: str = "", exit_code: int | None = 0) -> CommandFinished:
    """Return the command's end."""
    return CommandFinished(item="c", command="make test", output=output, exit_code=exit_code)


def changed(diff: str, change: Literal["add", "update", "delete"] = "update") -> FileChanged:
    """Return a change of a file."""
    return FileChanged(item="f", path="src/app.py", change=change, diff=diff)


def event(payload: RoomPayload, seq: int = 1, at: datetime = AT) -> RoomEvent:
    """Return an event of one turn."""
    return RoomEvent(room_id=UUID(int=1), seq=seq, at=at, turn_id=TURN, payload=payload)


def lines(*payloads: RoomPayload) -> list[str]:
    """Return the folds of some events as lines."""
    folds = Folds()
    return [fold.line for payload in payloads for fold in folds.take(payload)]


def screen(*payloads: RoomPayload) -> tuple[LiveView, io.StringIO]:
    """Show events on one stream, as the live terminal has it."""
    stream = io.StringIO()
    view = LiveView(Output(json=False, out=stream, err=stream), ref="r")
    for seq, payload in enumerate(payloads, 1):
        view.show(event(payload, seq))
    return view, stream


# ------------------------------------------------------------------------------------------------------------------------------ folds


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (finished(), "✓ $ make test   /show 1"),
        (finished("ok\n"), "✓ $ make test   ok   /show 1"),
        (finished("a\nb\nc\n"), "✓ $ make test   3 lines   /show 1"),
        (finished("a\nb\n", 2), "✗ $ make test   exit status 2   2 lines   /show 1"),
        (finished("", -1), "✗ $ make test   killed   /show 1"),
        (finished("", None), "· $ make test   /show 1"),
    ],
    ids=["well", "one line", "more", "badly", "killed", "not known"],
)
def test_a_command_is_one_line_with_its_result(end: CommandFinished, line: str) -> None:
    """However much it printed."""
    assert lines(STARTED, end) == [line]


def test_a_command_that_runs_shows_its_last_line() -> None:
    """What a terminal would show of it now; and nothing once it has ended."""
    folds = Folds()
    folds.take(STARTED)
    assert folds.running == ("… $ make test",)
    folds.take(CommandOutput(item="c", text="one\n10 %\r50 %\r90 %"))
    assert folds.running == ("… $ make test   90 %",)
    folds.take(finished())
    assert not folds.running


@pytest.mark.parametrize(
    "end",
    [
        TurnEnded(outcome=TurnOutcome.INTERRUPTED),
        TurnStateChanged(state=IN_DOUBT),
        SessionNotice(code="session.parked", detail=""),
        SessionNotice(code="provider.gone", detail=""),
    ],
    ids=["ended", "in doubt", "parked", "gone"],
)
def test_a_command_whose_end_was_not_seen_says_so(end: RoomPayload) -> None:
    """It is never shown as if it had ended well, and what it printed can be looked at."""
    folds = Folds()
    folds.take(STARTED)
    folds.take(CommandOutput(item="c", text="half\n"))
    [fold] = folds.take(end)
    assert fold.line == "? $ make test   no end was seen   /show 1"
    assert [line.text for line in fold.detail] == ["$ make test", "half"]
    assert folds.take(end) == ()


def test_a_change_is_counted_and_its_diff_is_coloured() -> None:
    """The beginning of a long one at once, the rest when asked for."""
    patch = "@@ -1,2 +1,2 @@\n same\n-old\n+new\n"
    folds = Folds()
    [short] = folds.take(changed(patch))
    assert short.line == "✓ ~ src/app.py   +1 -1"
    assert [(line.text, line.style) for line in short.inline] == [
        ("@@ -1,2 +1,2 @@", "cyan"),
        (" same", ""),
        ("-old", "red"),
        ("+new", "green"),
    ]
    [long] = folds.take(changed("text\n" * 50, "add"))
    assert long.line == "✓ + src/app.py   +50 -0   /show 2"
    assert (len(long.inline), len(long.detail)) == (INLINE_DIFF_LINES, 50)
    assert {(line.text, line.style) for line in long.detail} == {("+text", "green")}


def test_a_tool_is_one_line() -> None:
    """With its arguments and its result behind it."""
    folds = Folds()
    [good] = folds.take(ToolCall(item="t", name="search", arguments='{"q": 1}', result="found\nmore"))
    [bad] = folds.take(ToolCall(item="t", name="search", arguments="", ok=False))
    assert (good.line, bad.line) == ("✓ tool search   /show 1", "✗ tool search   failed   /show 2")
    assert [line.text for line in good.detail] == ['tool search {"q": 1}', "found", "more"]


def test_folds_are_found_by_number_and_bounded() -> None:
    """The last by no number; an old one is gone after a bound, and its number is nobody else's."""
    folds = Folds()
    assert folds.find("") is None
    for _ in range(KEPT + 1):
        folds.take(finished())
    last = folds.find("")
    assert last is not None
    assert (last.number, folds.find(str(KEPT + 1)), folds.find("1"), folds.find("x")) == (KEPT + 1, last, None, None)


def test_the_answer_and_the_work_beside_it_are_told_apart() -> None:
    """A whole turn as a terminal shows it: what was said, one line of work, the answer as it came, once."""
    _, stream = screen(
        UserSaid(text="do it"),
        STARTED,
        CommandOutput(item="c", text="a\n"),
        finished("a\nb\n"),
        TextDelta(item="m", text="Do"),
        TextDelta(item="m", text="ne."),
        Message(item="m", text="Done."),
    )
    assert stream.getvalue() == "> do it\n✓ $ make test   2 lines   /show 1\nDone.\n"


@pytest.mark.guarantee("SEC-3")
def test_unfolding_shows_all_of_it_and_steers_nothing() -> None:
    """Also what a command printed to steer a terminal is text."""
    view, stream = screen(STARTED, finished("one\n\x1b[2Jtwo\n"))
    assert not view.unfold("2")
    stream.truncate(0)
    stream.seek(0)
    assert view.unfold("1")
    assert stream.getvalue() == "✓ 1\n  $ make test\n  one\n  \\x1b[2Jtwo\n"


# ----------------------------------------------------------------------------------------------------------------------------- status


def status(*payloads: RoomPayload, state: str = "idle") -> Status:
    """Return the status after some events."""
    found = Status(room="r", agent="a", engine="e", state=state)
    for payload in payloads:
        found = found.after(event(payload))
    return found


RUNNING = TurnStateChanged(state=TurnState.RUNNING)
ASKED = ApprovalRequested(item="i", subject="command", detail="x", request=str(UUID(int=9)))
DECIDED = ApprovalDecided(approval=UUID(int=9), state=ApprovalState.DENIED, decided_by=DecidedBy.PERSON)


@pytest.mark.parametrize(
    ("payloads", "state"),
    [
        ((), "idle"),
        ((RUNNING,), "working"),
        ((RUNNING, ASKED), "waits for your answer"),
        ((RUNNING, ASKED, DECIDED), "working"),
        ((RUNNING, TurnStateChanged(state=TurnState.COMPLETED)), "idle"),
        ((RUNNING, TurnStateChanged(state=TurnState.INTERRUPTED)), "idle"),
        ((RUNNING, TurnStateChanged(state=TurnState.COMPLETED), RUNNING, TurnStateChanged(state=TurnState.CAPTURED)), "working"),
        ((RUNNING, TurnStateChanged(state=IN_DOUBT)), "in doubt"),
        ((RUNNING, TurnStateChanged(state=IN_DOUBT), SessionNotice(code="session.parked", detail="")), "parked"),
        ((SessionNotice(code="session.parked", detail=""), SessionNotice(code="session.live", detail="")), "idle"),
    ],
)
def test_the_state_follows_the_events(payloads: Iterable[RoomPayload], state: str) -> None:
    """A turn that is captured while the next one runs does not make the room idle."""
    assert status(*payloads).state == state


def test_the_status_line_says_how_long_and_how_much_is_kept() -> None:
    """The most important first, since a narrow terminal cuts the end."""
    checkpointed = status(UsageReported(input_tokens=1, output_tokens=1, total_tokens=12345)).proven(inspection(generations=2))
    assert checkpointed.line(AT + timedelta(minutes=3)) == "r · idle · a in e · generation 2, 3 min old · 12,345 tokens"
    assert checkpointed.after(event(RUNNING)).line(AT + timedelta(seconds=7)).startswith("r · working 7 s · a in e")
    assert status().line(AT) == "r · idle · a in e · no checkpoint yet"


@pytest.mark.guarantee("SEC-3")
def test_a_name_does_not_steer_the_status_line() -> None:
    """A room's name may hold anything."""
    assert Status(room="\x1b[2J\nx", agent="a", engine="e", state="idle").line(AT).startswith("\\x1b[2J x · ")


# --------------------------------------------------------------------------------------------------------------------------- standing


def inspection(
    *,
    live: bool = False,
    generations: int = 1,
    failure: ContinuityFailure | None = None,
    outcome: ObservationOutcome | None = None,
    identity: str | None = "thread-1",
) -> SessionInspection:
    """Return the evidence on a room."""
    room = conversation_of(RoomRequest(id=UUID(int=1), name="r", provider="codex"))
    room.live = live
    view = room.view()
    view = view.model_copy(update={"session": view.session.model_copy(update={"provider_identity": identity})})
    checkpoints = tuple(
        Checkpoint(
            id=UUID(int=100 + number),
            host_id=view.host.id,
            agent_id=view.host.agent_id,
            provider="codex",
            provider_version="1",
            reason=CheckpointReason.AFTER_TURN,
            root_digest="",
            sessions=(),
            files=1,
            bytes_total=1,
            bytes_written=1,
            generation=number,
            created_at=AT,
        )
        for number in range(1, generations + 1)
    )
    evidence = ActivationEvidence(
        provider_identity=identity,
        checkpoint_id=None,
        generation_state="verified",
        session_captured=True,
        captured_identity=identity,
        version_compatible=True,
        captured_version="1",
        current_version="1",
    )
    refused = Activation.REFUSE_NO_CHECKPOINT if failure else Activation.EXACT_RESUME
    observed = Observation(
        id=UUID(int=6),
        session_id=view.session.id,
        checkpoint_id=UUID(int=100 + generations),
        outcome=outcome or ObservationOutcome.SUCCEEDED,
        source=ResumeSource.GENERATION,
        expected_identity="thread-1",
        reported_identity="thread-1",
        detail="",
        observed_at=AT,
    )
    return SessionInspection(
        room=view,
        decision=ActivationDecision(outcome=refused, failure=failure, evidence=evidence),
        checkpoints=checkpoints,
        observations=(observed,) if outcome else (),
        turns=(),
    )


def test_how_the_conversation_stands_is_said() -> None:
    """New, kept, resumed exactly with the generation, parked with what brings it back, or refused with what to look at."""
    well, badly = ObservationOutcome.SUCCEEDED, ObservationOutcome.FAILED
    assert standing(inspection(identity=None, generations=0))[0] == "No conversation yet; the first message begins it."
    assert standing(inspection(generations=0))[0] == "The conversation has begun; no checkpoint of it yet."
    assert standing(inspection(live=True))[0] == "Live since it began; kept in generation 1."
    assert standing(inspection(live=True, outcome=well, generations=3))[0] == "Resumed exactly (generation 3: restored from it)."
    assert "`jam room resume r`, resumes it exactly (generation 2)" in standing(inspection(generations=2))[0]
    for refused in (inspection(failure=ContinuityFailure.CORRUPT), inspection(outcome=badly)):
        text, style = standing(refused)
        assert style == "red"
        assert text.endswith("Next: jam continuity inspect r")
    assert "(corrupt)" in standing(inspection(failure=ContinuityFailure.CORRUPT))[0]
    assert "(the last resume failed)" in standing(inspection(outcome=badly))[0]


@pytest.mark.guarantee("CONT-11")
def test_files_ahead_of_the_conversation_are_said() -> None:
    """On entry, not only at the moment at which it was found out."""
    said = standing(inspection(live=True), ahead="the files are ahead of the conversation: + new.txt, - old.txt")[0]
    assert said.endswith("\nThe files are ahead of the conversation: + new.txt, - old.txt.")
    assert "ahead" not in standing(inspection(live=True))[0]
