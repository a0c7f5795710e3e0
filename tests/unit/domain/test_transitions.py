"""Every state machine of the domain, pair by pair: what may follow what is written here a second time, so that no arrow changes unseen."""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from jamcore.domain.errors import IllegalTransitionError
from jamcore.domain.operations import OPERATION, OperationState
from jamcore.domain.sessions import HOST, SESSION, TURN, WORKSPACE, HostState, SessionState, TurnState, WorkspaceState
from jamcore.domain.transitions import TransitionTable

ARROWS: dict[str, tuple[TransitionTable[Any], type[StrEnum], str]] = {
    "host": (
        HOST,
        HostState,
        """
        provisioning > active parked
        active > parked
        parked > active archived removed
        archived > parked removed
        """,
    ),
    "session": (SESSION, SessionState, "live > dormant \n dormant > live"),
    "workspace": (
        WORKSPACE,
        WorkspaceState,
        """
        planned > provisioning
        provisioning > ready provision-failed needs-reconciliation
        ready > recovering needs-reconciliation removal-blocked archived
        recovering > ready needs-reconciliation archived
        provision-failed > provisioning
        needs-reconciliation > recovering ready
        removal-blocked > ready archived
        archived > recovering
        """,
    ),
    "turn": (
        TURN,
        TurnState,
        """
        accepted > running failed interrupted cut
        running > completed interrupted failed cut
        completed > captured cut
        """,
    ),
    "operation": (
        OPERATION,
        OperationState,
        """
        pending > running failed cancelled
        running > succeeded failed cancelled
        """,
    ),
}


def arrows(text: str) -> set[tuple[str, str]]:
    """Read ``old > new new`` lines."""
    pairs = set()
    for line in filter(None, map(str.strip, text.splitlines())):
        old, _, news = line.partition(" > ")
        pairs |= {(old.strip(), new) for new in news.split()}
    return pairs


@pytest.mark.guarantee("WS-2", "WS-15", "CONT-11")
@pytest.mark.parametrize("name", ARROWS)
def test_every_pair(name: str) -> None:
    """A step is accepted exactly when it is written above, also from a state to itself; a refusal names machine, record and both states."""
    table, states, text = ARROWS[name]
    written = arrows(text)
    assert {(old.value, new.value) for old, new in table.edges()} == written
    for old, new in product(states, states):
        legal = (old.value, new.value) in written
        assert table.allows(old, new) is legal, (old, new)
        assert (old in table.sources_of(new)) is legal, (old, new)
        if legal:
            table.require(old, new, ref="r")
            continue
        with pytest.raises(IllegalTransitionError) as refused:
            table.require(old, new, ref="r")
        assert refused.value.context() == {"machine": table.machine, "ref": "r", "old": old.value, "new": new.value}


@pytest.mark.guarantee("WS-2")
def test_an_operation_has_exactly_six_arrows_and_ends_for_ever() -> None:
    """Terminal is terminal."""
    assert len(OPERATION.edges()) == 6
    ended = {state for state in OperationState if OPERATION.is_terminal(state)}
    assert ended == {OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED}


@pytest.mark.guarantee("CONT-11")
def test_a_turn_is_captured_only_after_it_completed() -> None:
    """Only the provider's own end mark comes before a capture, and what has ended otherwise never reads as safe."""
    assert TURN.sources_of(TurnState.CAPTURED) == {TurnState.COMPLETED}
    assert TURN.sources_of(TurnState.COMPLETED) == {TurnState.RUNNING}
    ended = {state for state in TurnState if TURN.is_terminal(state)}
    assert ended == {TurnState.CAPTURED, TurnState.INTERRUPTED, TurnState.FAILED, TurnState.CUT}


@pytest.mark.parametrize("name", ARROWS)
def test_every_state_can_be_reached(name: str) -> None:
    """A state that nothing leads to, and that no life begins with, would be vocabulary that nobody uses (WS-15)."""
    table, states, _ = ARROWS[name]
    beginnings = {
        "host": {"provisioning"},
        "session": {"live"},
        "workspace": {"planned"},
        "turn": {"accepted"},
        "operation": {"pending"},
    }
    reached = set(beginnings[name])
    while more := {new.value for old, new in table.edges() if old.value in reached} - reached:
        reached |= more
    assert reached == {state.value for state in states}


def test_a_table_with_a_state_missing_cannot_be_made() -> None:
    """Forgetting a row is found when the module is imported."""
    with pytest.raises(ValueError, match="no row for"):
        TransitionTable("half", {OperationState.PENDING: frozenset({OperationState.RUNNING})})
