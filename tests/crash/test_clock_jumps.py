"""Every journaled kind of a composed daemon while the machine's clock is set back an hour, at each boundary and before the first (WS-12).

``JAM_CLOCK_MATRIX=all`` plays each boundary; otherwise some of each kind's are drawn, always the same ones, and one is followed by a start
whose clock is right again.
"""

from __future__ import annotations

import os

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.matrix.clocks import AT_ONCE, forward, turn_back
from jamcore.testing.matrix.play import Play
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.store_matrix import drawn

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(3600)]

MOST = None if os.environ.get("JAM_CLOCK_MATRIX") == "all" else 4


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory, lives: Lives) -> Play:
    """One world."""
    return Play(tmp_path_factory.mktemp("clock"), lives)


@pytest.mark.guarantee("WS-11", "WS-12", "WS-3")
@pytest.mark.parametrize("kind", sorted(SCENARIOS))
def test_the_clock_is_set_back(play: Play, kind: str) -> None:
    """The action is done as ever, what was begun first stays first, nothing ends before it begins, and nobody else is touched."""
    play.prepare(kind)
    points = [*play.registered[kind], *(point for point in SCENARIOS[kind].inner if point not in play.registered[kind])]
    chosen = [AT_ONCE, *drawn(points, MOST)]
    for turn, point in enumerate(chosen):
        play.bring_back("prepared")
        play.cell = f"{kind}, an hour back at {point or 'once'}"
        play.live(turn_back, play.world.root, kind, point)
        play.require_held(kind)
        if turn == 0 or MOST is None:
            play.live(forward, play.world.root, kind)
        play.require_tidy()
