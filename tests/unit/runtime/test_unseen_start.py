"""A turn that reached the provider while the note of its start was lost is found again, or it is left unnamed (CONT-11)."""

from __future__ import annotations

from hashlib import sha256

import pytest

from jamcore.domain.events import TurnOutcome
from jamcore.domain.providers import ProviderTurn
from jamcore.domain.sessions import TurnState
from jamcore.runtime.unseen import match_unseen
from jamcore.testing.doubles.turns import turns

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("CONT-11")]

CAPTURED, ACCEPTED, FAILED, CUT, INTERRUPTED = (
    TurnState.CAPTURED,
    TurnState.ACCEPTED,
    TurnState.FAILED,
    TurnState.CUT,
    TurnState.INTERRUPTED,
)


def remembered(*names: str, text: str | None = None) -> tuple[ProviderTurn, ...]:
    """Return what a provider remembers; ``text`` is that of the last one, where the provider tells."""
    digest = None if text is None else sha256(text.encode()).hexdigest()
    last = len(names) - 1
    return tuple(
        ProviderTurn(provider_turn=name, outcome=TurnOutcome.COMPLETED, text_digest=digest if place == last else None)
        for place, name in enumerate(names)
    )


FIRST = (CAPTURED, "u1", "one")


@pytest.mark.parametrize("told", [None, "two é"])
@pytest.mark.parametrize(
    "before", [(), (FIRST,), (FIRST, (CUT, None, "never sent")), (FIRST, (INTERRUPTED, None, "had not begun"))]
)
def test_the_one_turn_that_jam_does_not_know_is_the_oldest_accepted_one(
    before: tuple[tuple[TurnState, str | None, str], ...], told: str | None
) -> None:
    """Turns that still waited behind it were not sent. The text need not be told; where it is told, it is the same."""
    rows = turns(*before, (ACCEPTED, None, "two é"), (ACCEPTED, None, "three"))
    names = [provider_turn for _, provider_turn, _ in before if provider_turn] + ["u9"]
    matched = match_unseen(rows, remembered(*names, text=told))
    assert matched is not None
    assert (matched[0], matched[1].provider_turn) == (rows[len(before)], "u9")


NOTHING_FITS = {
    "the provider remembers no more than Jam": (turns(FIRST, (ACCEPTED, None, "two")), remembered("u1")),
    "the provider remembers nothing": (turns((ACCEPTED, None, "one")), ()),
    "no turn waits": (turns(FIRST), remembered("u1", "u2")),
    "the text is another": (turns(FIRST, (ACCEPTED, None, "two")), remembered("u1", "u2", text="another")),
    "there are two that Jam does not know": (turns(FIRST, (ACCEPTED, None, "two")), remembered("u1", "u2", "u3", text="two")),
    "the unknown one is older than a known one": (turns(FIRST, (ACCEPTED, None, "two")), remembered("u0", "u1")),
    "it may as well be one that failed": (turns(FIRST, (FAILED, None, "x"), (ACCEPTED, None, "two")), remembered("u1", "u2")),
    "it is one that failed": (turns(FIRST, (FAILED, None, "x"), (ACCEPTED, None, "two")), remembered("u1", "u2", text="x")),
    "two of one text": (turns(FIRST, (FAILED, None, "two"), (ACCEPTED, None, "two")), remembered("u1", "u2", text="two")),
    "it waited behind the one that was sent": (
        turns(FIRST, (ACCEPTED, None, "two"), (ACCEPTED, None, "three")),
        remembered("u1", "u2", text="three"),
    ),
}


@pytest.mark.parametrize("case", NOTHING_FITS)
def test_in_doubt_nothing_is_named(case: str) -> None:
    """Jam never takes one turn for another: such a turn is cut, with words, as one whose fate is not known."""
    rows, entries = NOTHING_FITS[case]
    assert match_unseen(rows, entries) is None


def test_a_failed_turn_of_another_text_is_no_rival() -> None:
    """The text decides where the position leaves two."""
    rows = turns(FIRST, (FAILED, None, "x"), (ACCEPTED, None, "two"))
    matched = match_unseen(rows, remembered("u1", "u2", text="two"))
    assert matched is not None
    assert matched[0] == rows[2]
