"""What becomes of a turn whose end Jam did not see: one pure decision over what the provider remembers (CONT-11)."""

from __future__ import annotations

from itertools import product

import pytest

from jamcore.domain.events import TurnOutcome
from jamcore.domain.sessions import TURN, Turn, TurnState
from jamcore.runtime.turns import STATE_OF_OUTCOME, kept_or_cut
from jamcore.testing.doubles.turns import turns

UNFINISHED = (TurnState.ACCEPTED, TurnState.RUNNING, TurnState.COMPLETED)
REMEMBERED = (None, *TurnOutcome)


def turn(state: TurnState, provider_turn: str | None = "u1") -> Turn:
    """Return a turn in a state."""
    return turns((state, provider_turn, "do it"))[0]


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize(("state", "outcome"), tuple(product(UNFINISHED, REMEMBERED)))
def test_every_unfinished_turn_is_kept_or_cut(state: TurnState, outcome: TurnOutcome | None) -> None:
    """Kept exactly when the provider holds it as completed; everything else is cut, and a person reads why."""
    remembered = {} if outcome is None else {"u1": outcome}
    decided = kept_or_cut(turn(state), remembered)
    kept = outcome is TurnOutcome.COMPLETED and state is not TurnState.ACCEPTED
    if state is TurnState.COMPLETED and kept:
        assert decided is None  # it stays as it is and waits to be captured
        return
    assert decided is not None
    new, why = decided
    assert new is (TurnState.COMPLETED if kept else TurnState.CUT)
    assert why
    assert TURN.allows(state, new)


@pytest.mark.guarantee("CONT-11")
def test_a_turn_is_compared_by_the_providers_own_id() -> None:
    """Another turn that the provider completed says nothing about this one."""
    decided = kept_or_cut(turn(TurnState.RUNNING, "u2"), {"u1": TurnOutcome.COMPLETED})
    assert decided is not None
    assert decided[0] is TurnState.CUT


@pytest.mark.guarantee("CONT-11")
def test_a_cut_turn_says_how_much_of_it_is_kept() -> None:
    """A room shows what a program said that it did; what the program wrote down of that, and tells its model, may be less, or nothing."""
    partly = kept_or_cut(turn(TurnState.RUNNING), {"u1": TurnOutcome.INTERRUPTED})
    nothing = kept_or_cut(turn(TurnState.RUNNING), {})
    assert partly is not None
    assert nothing is not None
    assert "may be less" in partly[1]
    assert "holds nothing of it" in nothing[1]


@pytest.mark.guarantee("CONT-11")
def test_only_captured_is_safe() -> None:
    """No end mark of a provider leads to CAPTURED by itself: only a published generation does."""
    assert TurnState.CAPTURED not in STATE_OF_OUTCOME.values()
    assert TURN.sources_of(TurnState.CAPTURED) == {TurnState.COMPLETED}
