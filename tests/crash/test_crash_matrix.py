"""Every journaled kind of a composed daemon, killed at every boundary and again in what the next start does about it (WS-12).

The kinds, their boundaries and what a run passes come from the code. ``JAM_CRASH_MATRIX=all`` plays every second death; otherwise one for
each first is drawn, always the same, so that each kind's come to every boundary.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.crash_matrix import Matrix
from jamcore.testing.matrix.effects import GROUPS, crowded
from jamcore.testing.matrix.rows import HEADER
from jamcore.testing.matrix.scenarios import PLAYED, SCENARIOS
from jamcore.testing.parked_world import Rooms

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(3600)]

DRAWN: Mapping[Rooms, int] = dict.fromkeys(Rooms, 0) | {Rooms.MANAGED: 1}
"""Second deaths for each first: what a start goes on with for other rooms are the same steps, which the first deaths come to."""
AS_ORDINARY_USER = {"export-deletion", "provision"}
"""Played by an ordinary user too: what makes directories, and what removes a tree."""
WHOLE = os.environ.get("JAM_CRASH_MATRIX") == "all"


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory, lives: Lives) -> Matrix:
    """The matrix over one world."""
    return Matrix(tmp_path_factory.mktemp("matrix"), lives)


@pytest.mark.guarantee("WS-12", "START-6")
def test_every_kind_has_a_scenario(matrix: Matrix) -> None:
    """A kind that a daemon registers and nobody describes to the matrix fails here, by name."""
    assert matrix.without_scenario() == []


@pytest.mark.guarantee("WS-11", "WS-12", "START-1", "START-2", "OWN-5")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.unprivileged] if name in AS_ORDINARY_USER else []) for name in sorted(PLAYED)]
)
def test_killed_everywhere(matrix: Matrix, name: str) -> None:
    """Killed at each boundary, and at boundaries of the recovery: done once in the end, nothing left behind, nobody else touched."""
    played = list(matrix.rows(name, None if WHOLE else DRAWN[PLAYED[name].rooms]))
    print(f"## {name}", "", *HEADER, *(row.line() for row in played), sep="\n")
    assert {row.point for row in played} >= set(matrix.registered[PLAYED[name].kind])
    assert {outcome for row in played for outcome in row.outcomes} == {"succeeded"}


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize("kind", sorted(SCENARIOS))
def test_one_effect_between_two_boundaries(matrix: Matrix, kind: str) -> None:
    """A kill falls before an effect or after it, never unseen between two; what is a group on purpose is named, with its reason."""
    found = matrix.effects(kind)
    assert sum(map(len, found.values())) > len(SCENARIOS[kind].inner)
    named = {point for point in GROUPS if point in found}
    assert set(crowded(found)) == named, crowded(found)
