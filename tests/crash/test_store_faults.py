"""Every journaled kind of a composed daemon while the store fails: at a statement, at a commit, or after one and nobody is told (WS-12).

The calls come from a whole run of the code. ``JAM_STORE_MATRIX=all`` lets each of them fail; otherwise some of each kind's are drawn,
always the same ones, and besides each commit of a step's own that is made and nobody is told.
"""

from __future__ import annotations

import os

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.matrix.faulty_lives import DONE
from jamcore.testing.matrix.play import Play
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.matrix.store_faults import Call, Fault
from jamcore.testing.store_matrix import HEADER, StoreMatrix, drawn, due

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(3600)]

MOST = None if os.environ.get("JAM_STORE_MATRIX") == "all" else 8
ANSWERS = {
    Fault.FULL: "store.full",
    Fault.FAILING: "store.unusable",
    Fault.LOCKED: "store.busy",
    Fault.AWAY: "store.unusable",
    Fault.LOST: "store.full",
}
UNFINISHED = frozenset({"workspace.archive_unfinished"})
"""What an action is answered that has begun to remove something: it says how far it came, and its next start goes on."""
CHECKPOINT = "publish."
"""Where the boundaries of a checkpoint begin. One before an action that was not published is made again by the action itself (CONT-8)."""


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory, lives: Lives) -> StoreMatrix:
    """The matrix over one world."""
    return StoreMatrix(Play(tmp_path_factory.mktemp("store"), lives))


@pytest.mark.guarantee("WS-11", "WS-12", "START-1")
@pytest.mark.parametrize("kind", sorted(SCENARIOS))
def test_a_call_of_the_store_fails(matrix: StoreMatrix, kind: str) -> None:
    """It is answered by type or done all the same, the daemon lives on, and the action comes to its end with nothing lost or left."""
    played = list(matrix.cells(kind, MOST))
    print(*HEADER, *(cell.line() for cell in played), sep="\n")
    # A start that cannot do something goes on and says what; whoever asks for something is told.
    allowed = UNFINISHED if SCENARIOS[kind].has_words else {DONE}
    for cell in played:
        made_again = {DONE} if cell.after.startswith(CHECKPOINT) else set()
        assert cell.answer in {ANSWERS[cell.fault], *allowed, *made_again}, cell


def test_each_call_fails_and_each_commit_is_lost_too() -> None:
    """All ways to fail are played, and a draw has some of each."""
    calls = [Call("", "commit" if number % 9 == 0 else "SELECT") for number in range(1, 300)]
    faults = due(calls)
    assert {number for number, _, _ in faults} == set(range(1, 300))
    assert sum(fault is Fault.LOST for _, _, fault in faults) == sum(call.writes for call in calls)
    assert {fault for _, _, fault in drawn(faults, 8)} >= set(Fault) - {Fault.LOST}
