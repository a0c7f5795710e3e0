"""Every journaled kind of a composed daemon while the disk fails at one of its calls, or is full or read-only from one on (WS-12).

The kinds come from the code, and the calls from a whole run. ``JAM_FAULT_MATRIX=all`` plays every call; otherwise some are drawn from all
over a run, always the same ones.
"""

from __future__ import annotations

import os

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.fault_matrix import HEADER, FaultMatrix
from jamcore.testing.matrix.play import Play
from jamcore.testing.matrix.scenarios import SCENARIOS

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(7200)]

MOST = None if os.environ.get("JAM_FAULT_MATRIX") == "all" else 8


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory, lives: Lives) -> FaultMatrix:
    """The matrix over one world."""
    return FaultMatrix(Play(tmp_path_factory.mktemp("faults"), lives))


@pytest.mark.guarantee("WS-12")
def test_every_kind_has_a_scenario(matrix: FaultMatrix) -> None:
    """A kind that a daemon registers and nobody describes to the matrix fails here, by name."""
    assert matrix.play.registered.keys() - SCENARIOS.keys() == set()


@pytest.mark.guarantee("WS-4", "WS-5", "WS-6", "WS-7", "WS-8", "WS-11", "WS-12", "START-1")
@pytest.mark.parametrize("kind", sorted(SCENARIOS))
def test_a_disk_that_fails_at_a_call(matrix: FaultMatrix, kind: str) -> None:
    """Whoever asks is told by type, the daemon lives on, and in the end it is done once, with nothing left behind or lost."""
    played = [cell() for cell in matrix.cells(kind, MOST)]
    print(*HEADER, *(cell.line() for cell in played), sep="\n")
    assert played


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize("kind", sorted(SCENARIOS))
def test_a_slow_disk(matrix: FaultMatrix, kind: str) -> None:
    """When every call is late, the same comes of it."""
    assert matrix.slow(kind) > 0
