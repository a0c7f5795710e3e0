"""The words of lists."""

from __future__ import annotations

import pytest

from jamcore.cli.words import turn_word
from jamcore.domain.events import IN_DOUBT
from jamcore.domain.sessions import TurnState

pytestmark = pytest.mark.unprivileged


@pytest.mark.parametrize("state", TurnState)
def test_a_turn_that_ran_when_its_room_went_down_is_in_doubt(state: TurnState) -> None:
    """A parked room runs nothing, so its list must not say so; every other state is what is stored."""
    assert turn_word(state, live=True) == state
    assert turn_word(state, live=False) == (IN_DOUBT.replace("-", " ") if state is TurnState.RUNNING else state)
