"""A thread that came back is held against what was captured of it: its id alone proves nothing (CONT-1, CONT-7)."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

import pytest

from jamcore.domain.events import TurnOutcome
from jamcore.domain.providers import ProviderTurn
from jamcore.domain.sessions import Turn, TurnState
from jamcore.runtime.proof import in_generation, what_is_lost

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("CONT-1", "CONT-7")]

CAPTURED, COMPLETED, CUT, INTERRUPTED = (TurnState.CAPTURED, TurnState.COMPLETED, TurnState.CUT, TurnState.INTERRUPTED)
FINISHED, BROKEN_OFF, REFUSED = TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED, TurnOutcome.FAILED


def turns(*rows: tuple[TurnState, str | None, str]) -> tuple[Turn, ...]:
    """Return a session's turns: state, the provider's id, text."""
    return tuple(
        Turn(
            id=UUID(int=number),
            room_id=UUID(int=100),
            session_id=UUID(int=101),
            text=text,
            state=state,
            provider_turn=provider_turn,
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=1,
            accepted_at=datetime(2026, 1, 1, tzinfo=UTC),
            ended_at=None,
        )
        for number, (state, provider_turn, text) in enumerate(rows)
    )


def held(*entries: str | tuple[str, str] | tuple[str, TurnOutcome]) -> tuple[ProviderTurn, ...]:
    """Return what a provider holds: a turn's name, and its text or its outcome where it is not finished."""
    made = []
    for entry in entries:
        name, more = (entry, None) if isinstance(entry, str) else entry
        digest = sha256(more.encode()).hexdigest() if isinstance(more, str) and not isinstance(more, TurnOutcome) else None
        made.append(
            ProviderTurn(provider_turn=name, outcome=more if isinstance(more, TurnOutcome) else FINISHED, text_digest=digest)
        )
    return tuple(made)


TWO = turns((CAPTURED, "a", "one"), (INTERRUPTED, "b", "no"), (CAPTURED, "c", "two"))
REPEATED = turns((CAPTURED, "a", "go on"), (CAPTURED, "b", "go on"))
PLACES = turns((CAPTURED, "1", "one"), (INTERRUPTED, None, "stop"), (CAPTURED, "2", "two"))

PROVEN = {
    "nothing was captured": (turns((CUT, "a", "one"), (COMPLETED, "b", "two")), ()),
    "by name, without a digest": (TWO, held("a", "c")),
    "with turns between and behind": (TWO, held("a", ("b", BROKEN_OFF), "x", "c", "d")),
    "by the text, where a place moved": (PLACES, held(("1", "one"), ("2", BROKEN_OFF), ("3", "two"))),
    "a completed turn that was not captured may be lost": (turns((CAPTURED, "a", "one"), (COMPLETED, "b", "two")), held("a")),
}
LOST = {
    "a blank conversation": (TWO, (), 0),
    "the last one is missing": (TWO, held("a", ("b", BROKEN_OFF)), 1),
    "the first one is missing": (TWO, held("c"), 0),
    "another order": (TWO, held("c", "a"), 1),
    "one was never finished": (TWO, held("a", ("c", BROKEN_OFF)), 1),
    "one failed": (TWO, held(("a", REFUSED), "c"), 0),
    "a turn with the same text is not both": (REPEATED, held(("b", "go on")), 0),
    "another one of the same text behind it does not help": (REPEATED, held(("b", "go on"), ("c", "go on")), 1),
    "a captured turn without a name and without its text": (turns((CAPTURED, None, "one")), held("a"), 0),
}


def lost(mine: tuple[Turn, ...], theirs: tuple[ProviderTurn, ...]) -> str:
    """Return what is lost of a generation that holds all of the session's turns."""
    return what_is_lost(in_generation(mine, None), theirs)


def test_a_generation_of_an_older_export_is_held_against_its_own_turns_alone() -> None:
    """What was captured after the export went with its own generation; what the export has must be there."""
    first, _, last = TWO
    assert in_generation(TWO, first.id) == (first,)
    assert in_generation(TWO, last.id) == (first, last)
    assert in_generation(TWO, UUID(int=999)) == (first, last)
    assert what_is_lost(in_generation(TWO, first.id), held("a")) == ""
    assert what_is_lost(in_generation(TWO, first.id), ()) != ""


@pytest.mark.parametrize("case", PROVEN)
def test_a_thread_with_all_that_was_captured_is_the_exact_one(case: str) -> None:
    """Finished turns in their order, whatever lies between them."""
    assert lost(*PROVEN[case]) == ""


@pytest.mark.parametrize("case", LOST)
def test_a_thread_without_a_captured_turn_is_another_one(case: str) -> None:
    """It is said which turn is the first that is missing."""
    mine, theirs, place = LOST[case]
    captured = [turn for turn in mine if turn.state is CAPTURED]
    said = lost(mine, theirs)
    assert f"the first {place}, and turn {captured[place].id} not" in said
