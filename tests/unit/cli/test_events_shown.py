"""What a person sees of a room's events: output of commands as it comes, and history without orders that are out of date."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.cli.command_lines import OPEN_CHARACTERS, OUTPUT_LINES, CommandLines
from jamcore.cli.events import EventView, Past
from jamcore.cli.failures import WHAT_TO_DO
from jamcore.cli.output import Output
from jamcore.domain.events import (
    IN_DOUBT,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    Notice,
    RoomEvent,
    RoomPayload,
    SessionNotice,
    TextDelta,
    TurnEnded,
    TurnOutcome,
    TurnStateChanged,
)
from jamcore.plugins.failures import TurnFailure

pytestmark = pytest.mark.unprivileged

TURN = UUID(int=5)
Show = Callable[..., str]
STARTED = CommandStarted(item="c", command="make test", cwd="/w")


def shown(*payloads: RoomPayload, past: Past | None = None) -> str:
    """Show events of one turn, numbered from 1, and return what is printed beside the answer."""
    out, err = io.StringIO(), io.StringIO()
    view = EventView(Output(json=False, out=out, err=err), ref="r", mine=set(), past=past)
    for seq, payload in enumerate(payloads, 1):
        view.show(RoomEvent(room_id=UUID(int=1), seq=seq, at=datetime(2026, 1, 1, tzinfo=UTC), turn_id=TURN, payload=payload))
    return err.getvalue()


def more(text: str, item: str = "c") -> CommandOutput:
    """Return output of the running command."""
    return CommandOutput(item=item, text=text)


def ended(output: str, exit_code: int = 0) -> CommandFinished:
    """Return the command's end with all that it printed."""
    return CommandFinished(item="c", command="make test", output=output, exit_code=exit_code)


def test_output_is_shown_as_it_comes_and_once() -> None:
    """Whole lines at once, an open one with what ends it; the end repeats nothing and says the status."""
    assert shown(STARTED, more("one\ntw")) == "$ make test\n  one\n"
    assert shown(STARTED, more("one\ntw"), more("o\n")) == "$ make test\n  one\n  two\n"
    whole = shown(STARTED, more("one\ntw"), more("o\nthr"), ended("one\ntwo\nthree\n", 2))
    assert whole == "$ make test\n  one\n  two\n  three\n  exit status 2\n"


def test_what_was_not_told_while_it_ran_is_shown_at_the_end() -> None:
    """A provider may tell less of it as it comes, or nothing."""
    assert shown(STARTED, ended("one\ntwo\n")) == "$ make test\n  one\n  two\n"
    assert shown(STARTED, more("one\n"), ended("one\ntwo\n")) == "$ make test\n  one\n  two\n"
    assert shown(STARTED, more("one\ntwo\nthree\n"), ended("cut by the provider")) == "$ make test\n  one\n  two\n  three\n"


def test_a_beginning_that_was_not_told_is_shown_in_the_end() -> None:
    """The real program does not tell what a command prints in its first moment; nobody is to miss an error there."""
    late = shown(STARTED, more("two\nthree\n"), ended("one\ntwo\nthree\n", 2))
    assert late == "$ make test\n  two\n  three\n  … and before that:\n  one\n  exit status 2\n"
    open_line = shown(STARTED, more("two\nthr"), ended("one\ntwo\nthr"))
    assert open_line == "$ make test\n  two\n  thr\n  … and before that:\n  one\n"


def test_commands_at_once_do_not_mix_their_lines() -> None:
    """An open line waits for its own end."""
    assert shown(more("a1", "a"), more("b1\n", "b"), more("a2\n", "a")) == "  b1\n  a1a2\n"


def test_a_flood_is_cut_to_its_end_each_time() -> None:
    """So the terminal follows, whatever a command prints; all of it is in the transcript."""
    flood = shown(more("".join(f"line {n}\n" for n in range(1000))), more("last\n"))
    assert flood.splitlines() == [f"  … {1000 - OUTPUT_LINES} lines before", *(f"  line {n}" for n in range(992, 1000)), "  last"]


def test_a_progress_bar_shows_its_last_state() -> None:
    """A line that is written again and again is one line; escapes in it stay visible and harmless."""
    assert shown(more("10%\r20%\r"), more("30%\x1b[2K\r\n")) == "  30%\\x1b[2K\n"


def test_a_line_without_an_end_is_kept_in_part() -> None:
    """Memory is bounded."""
    lines = CommandLines()
    for _ in range(100):
        assert lines.more("c", "x" * OPEN_CHARACTERS).shown == ()
    assert lines.more("c", "\n").shown == ("x" * OPEN_CHARACTERS,)


def test_output_begins_on_a_line_of_its_own() -> None:
    """An answer that is being written is not torn: its line ends first."""
    out, err = io.StringIO(), io.StringIO()
    view = EventView(Output(json=False, out=out, err=err), ref="r", mine=set())
    said: tuple[RoomPayload, ...] = (TextDelta(item="m", text="half"), more("one\n"), TextDelta(item="m", text=" more"))
    for seq, payload in enumerate(said, 1):
        view.show(RoomEvent(room_id=UUID(int=1), seq=seq, at=datetime(2026, 1, 1, tzinfo=UTC), turn_id=TURN, payload=payload))
    assert (out.getvalue(), err.getvalue()) == ("half\n more", "  one\n")


@given(st.lists(st.text("ab\n", max_size=6), max_size=8), st.booleans())
def test_every_line_is_shown_exactly_once(pieces: list[str], told: bool) -> None:
    """However the output was cut into pieces, and whether its end repeats it or the provider told only the pieces."""
    lines = CommandLines()
    seen = [line for piece in pieces for line in lines.more("c", piece).shown]
    output = "".join(pieces)
    seen += [line for part in lines.rest("c", output if told else "") for line in part.shown]
    while seen and not seen[-1]:
        seen.pop()
    assert seen == output.rstrip().splitlines()


def test_why_a_turn_failed_is_shown_whole() -> None:
    """It ends with what to do about it, and so does the notice before it: a line of a terminal is not enough for either."""
    why = f"Nothing was heard of the agent for 600 s. {'The model endpoint is there. ' * 8}Check it, then say it again."
    assert shown(TurnEnded(outcome=TurnOutcome.FAILED, code="turn.idle_timeout", detail=why)) == (
        f"the turn failed: {why} (turn.idle_timeout)\n"
    )
    assert shown(Notice(level="warning", text=why)) == f"{why}\n"


def test_why_a_turn_failed_is_shown_once_whoever_says_it() -> None:
    """The agent's words where it ended the turn; Jam's own where the turn failed before the agent began."""
    begun = TurnEnded(outcome=TurnOutcome.FAILED, code="usage_limit", detail="limit reached")
    failed = TurnStateChanged(state="failed", detail="name a model")
    assert shown(failed) == "the turn failed: name a model\n"
    assert shown(begun, failed) == f"the turn failed: limit reached (usage_limit)\n  {WHAT_TO_DO['usage_limit']}\n"
    assert shown(begun, failed, failed).endswith("the turn failed: name a model\n")


@pytest.mark.parametrize("code", [*TurnFailure, "a_code_of_tomorrow"])
def test_beside_what_the_vendor_says_stands_what_to_do(code: str) -> None:
    """Its text is shown as it is, also where there is none, with Jam's code and a sentence; in the past there is nothing to do."""
    ended = TurnEnded(outcome=TurnOutcome.FAILED, code=code, detail="Error: 0x7 please contact your administrator")
    vendor, advice = shown(ended).splitlines()
    assert vendor == f"the turn failed: {ended.detail} ({code})"
    assert advice.strip() == WHAT_TO_DO[code if code in set(TurnFailure) else TurnFailure.OTHER]
    assert shown(ended.model_copy(update={"detail": ""})).startswith(f"the turn failed: ({code})\n  ")
    assert shown(ended, past=Past(last_seq=1)) == f"{vendor}\n"


def test_every_kind_of_failure_has_an_advice_and_no_other_has() -> None:
    """The command line knows them by name alone."""
    assert set(WHAT_TO_DO) == set(TurnFailure)


def test_why_the_end_of_a_turn_was_not_seen_is_said_with_it() -> None:
    """A program that spoke nonsense has not ended: the reason is all that a person has to go by."""
    said = shown(TurnStateChanged(state=IN_DOUBT, detail="provider.protocol: problem=no session id"))
    assert said.splitlines()[1:] == ["  provider.protocol: problem=no session id"]


# ------------------------------------------------------------------------------------------------------------ the past

DOUBT = (
    TurnStateChanged(state=IN_DOUBT, detail="provider.gone"),
    SessionNotice(code="provider.gone", detail="exit status 137"),
    SessionNotice(code="session.parked", detail="the provider ended: exit status 137"),
)
BACK = (
    SessionNotice(code="session.resumed", detail="thread t resumed exactly"),
    TurnStateChanged(state="cut", detail="the provider ended in the middle of it"),
    SessionNotice(code="session.live", detail="jam-1"),
)
ORDER = "jam room resume r"


@pytest.mark.guarantee("CONT-11")
def test_a_doubt_that_is_settled_is_no_order_any_more() -> None:
    """History says what became of the turn, and no longer what to do about it; a doubt that still stands is said with it."""
    history = shown(*DOUBT, *BACK, past=Past(last_seq=6, live=True, settled=frozenset({TURN})))
    assert ORDER not in history
    assert "the room was parked" in history
    assert "the turn was cut: the provider ended in the middle of it" in history
    assert shown(*DOUBT, past=Past(last_seq=3)).count(ORDER) == 2


@pytest.mark.guarantee("CONT-7", "CONT-8")
@pytest.mark.parametrize(
    ("why", "way"),
    [
        ("continuity.refused: failure=corrupt", "jam continuity inspect r"),
        ("continuity.resume_failed: reported=another", "jam continuity inspect r"),
        ("continuity.unsaved: problem=full", "jam room stop r"),
    ],
)
def test_a_room_that_does_not_come_back_by_being_spoken_to_says_what_does(why: str, way: str) -> None:
    """What would be refused once more is no advice."""
    said = shown(SessionNotice(code="session.parked", detail=why))
    assert way in said
    assert ORDER not in said


@pytest.mark.guarantee("CONT-11")
def test_a_new_doubt_is_said_though_the_turn_was_settled_before() -> None:
    """What happens while somebody looks is never past."""
    past = Past(last_seq=6, live=True, settled=frozenset({TURN}))
    assert shown(*DOUBT, *BACK, *DOUBT, past=past).count(ORDER) == 2


def test_the_past_of_a_running_command_is_its_end() -> None:
    """Of a command that has ended since, its own end is shown; of one that still runs, the last lines, and then what comes."""
    flood = more("".join(f"line {n}\n" for n in range(20)) + "op")
    over = shown(STARTED, flood, ended("all of it"), past=Past(last_seq=3))
    assert over == "$ make test\n  all of it\n"
    runs = shown(STARTED, flood, more("en\n"), past=Past(last_seq=2))
    assert runs.splitlines() == ["$ make test", "  … 12 lines before", *(f"  line {n}" for n in range(12, 20)), "  open"]


def test_a_command_that_was_killed_with_its_turn_is_forgotten() -> None:
    """Its number may come again in another turn."""
    turn_over = TurnEnded(outcome=TurnOutcome.INTERRUPTED)
    assert shown(more("one\nha"), turn_over, more("two\n")) == "  one\n  two\n"
