"""A thread that came back is held against what was captured of it: its id alone proves nothing (CONT-1, CONT-7)."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

import pytest

from jamcore.domain.continuity import Checkpoint, CheckpointReason, CheckpointSession
from jamcore.domain.events import TurnOutcome
from jamcore.domain.providers import ProviderTurn
from jamcore.domain.sessions import Turn, TurnState
from jamcore.runtime.proof import Lineage, came_with_turns, still_held, what_is_lost
from jamcore.testing.doubles.turns import SESSION, turns

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("CONT-1", "CONT-7")]

CAPTURED, COMPLETED, CUT, INTERRUPTED = (TurnState.CAPTURED, TurnState.COMPLETED, TurnState.CUT, TurnState.INTERRUPTED)
FINISHED, BROKEN_OFF, REFUSED = TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED, TurnOutcome.FAILED


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
    "whose end is told otherwise when it is told again": (TWO, held(("a", REFUSED), ("c", BROKEN_OFF))),
    "by the text that was said again, where a place moved": (
        turns((CAPTURED, "1", "go on"), (CAPTURED, "2", "go on"), (CAPTURED, "3", "go on")),
        held(("2", "go on"), ("3", "go on"), ("4", "go on")),
    ),
    "a completed turn that was not captured may be lost": (turns((CAPTURED, "a", "one"), (COMPLETED, "b", "two")), held("a")),
}
LOST = {
    "a blank conversation": (TWO, (), 0),
    "the last one is missing": (TWO, held("a", ("b", BROKEN_OFF)), 1),
    "the first one is missing": (TWO, held("c"), 0),
    "another order": (TWO, held("c", "a"), 1),
    "a turn with the same text is not both": (REPEATED, held(("b", "go on")), 1),
    "a captured turn without a name and without its text": (turns((CAPTURED, None, "one")), held("a"), 0),
}


def lost(mine: tuple[Turn, ...], theirs: tuple[ProviderTurn, ...]) -> str:
    """Return what is lost of a generation that holds all of the session's turns."""
    return what_is_lost(still_held(mine, SESSION, Lineage({}, ())), theirs)


def from_export(number: int, last: UUID | None) -> Checkpoint:
    """Return a generation that was made from an export which ends with a turn."""
    return Checkpoint(
        id=UUID(int=1000 + number),
        host_id=UUID(int=102),
        agent_id=UUID(int=103),
        provider="probe",
        generation=number,
        reason=CheckpointReason.FROM_EXPORT,
        provider_version="1",
        root_digest="0" * 64,
        files=1,
        bytes_total=1,
        bytes_written=1,
        sessions=(CheckpointSession(session_id=SESSION, provider_identity="thread", last_turn_id=last),),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def at(mine: tuple[Turn, ...], *numbers: int) -> tuple[tuple[Turn, ...], dict[UUID, int]]:
    """Return turns that were captured in these generations, and the generations' numbers."""
    made = tuple(
        turn.model_copy(update={"checkpoint_id": UUID(int=1000 + number)}) for turn, number in zip(mine, numbers, strict=True)
    )
    return made, {UUID(int=1000 + number): number for number in numbers}


def test_what_was_captured_after_an_export_is_gone_once_that_export_was_restored() -> None:
    """Also from each generation after it; what is captured later is held again. Of an import all of ours count."""
    four = turns((CAPTURED, "a", "one"), (CAPTURED, "b", "two"), (CAPTURED, "c", "three"), (CAPTURED, "d", "four"))
    captured, numbers = at(four, 1, 2, 3, 5)
    first, _, _, last = captured
    assert still_held(captured, SESSION, Lineage(numbers, (from_export(4, first.id),))) == (first, last)
    assert still_held(captured, SESSION, Lineage(numbers, (from_export(4, None),))) == (last,)
    assert still_held(captured, SESSION, Lineage(numbers, (from_export(4, UUID(int=999)),))) == captured
    assert still_held(captured, SESSION, Lineage(numbers, ())) == captured


def test_an_import_with_turns_must_come_back_with_some() -> None:
    """Its turns are another machine's, and none is known here; that there are some is."""
    captured, numbers = at(turns((CAPTURED, "a", "one")), 2)
    assert came_with_turns(captured, SESSION, Lineage(numbers, (from_export(1, UUID(int=999)),)))
    assert not came_with_turns(captured, SESSION, Lineage(numbers, (from_export(1, None),)))
    assert not came_with_turns(captured, SESSION, Lineage(numbers, (from_export(1, captured[0].id),)))


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
