"""What a person is told of shared sandboxes, and of one that could not be parked (SHARE-6, START-5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args
from uuid import UUID

import pytest

from jamcore.cli.commands.room_stop import _OUTCOMES
from jamcore.cli.requests import room_request
from jamcore.cli.words import room_word
from jamcore.domain.cells import Placement
from jamcore.domain.requests import StopResult
from jamcore.domain.shared_hosts import ONE_TRUST_DOMAIN

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

DOCUMENTS = ("README.md", "docs/architecture.md", "docs/decisions/0009-shared-hosts.md", "docs/engines-bubblewrap.md")


def flat(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split())


@pytest.mark.guarantee("SHARE-6")
def test_a_shared_room_says_that_it_is_one_trust_domain(jam: Jam) -> None:
    """When it is made, when it is shown, and where its combination is offered; a dedicated one does not."""
    made = jam("room", "new", "codex", "--name", "ours", "--placement", "shared", "--agent", "reviewer")
    assert flat(ONE_TRUST_DOMAIN) in flat(made.err)
    assert flat(ONE_TRUST_DOMAIN) in flat(jam("room", "show", "ours").err)
    own = jam("room", "new", "codex", "--name", "own")
    assert "trust domain" not in own.err + own.out


def test_the_agent_is_part_of_the_request() -> None:
    """Rooms of one agent share; without a name it is the provider's own."""
    assert room_request(UUID(int=1), "codex", placement=Placement.SHARED, agent="reviewer").agent == "reviewer"
    assert room_request(UUID(int=1), "codex").agent is None


@pytest.mark.guarantee("SHARE-6")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_say_so(name: str) -> None:
    """Every page that speaks of shared sandboxes."""
    root = Path(__file__).parents[3]
    assert "one trust domain" in flat((root / name).read_text())


@pytest.mark.guarantee("SHARE-2")
def test_every_outcome_of_a_stop_has_words() -> None:
    """Left, parked, or parked already."""
    assert set(_OUTCOMES) == set(get_args(StopResult.model_fields["outcome"].annotation))


@pytest.mark.guarantee("START-5")
@pytest.mark.parametrize(
    ("busy", "live", "trouble", "word"),
    [
        (True, True, "", "working"),
        (False, True, "", "live"),
        (False, False, "", "parked"),
        (False, False, "busy", "not parked yet"),
        (False, True, "busy", "live"),
    ],
)
def test_a_room_whose_sandbox_could_not_be_stopped_is_not_called_parked(busy: bool, live: bool, trouble: str, word: str) -> None:
    """In lists and when it is shown."""
    assert room_word(busy=busy, live=live, not_parked=trouble) == word
