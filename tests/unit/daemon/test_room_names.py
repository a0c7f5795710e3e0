"""A room's name is one line that says what it shows (SEC-3)."""

from __future__ import annotations

import pytest

from jamcore.daemon.resolve import ROOM_NAME_CHARACTERS, require_room_name
from jamcore.domain.errors import InvalidInputError

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("SEC-3")]


@pytest.mark.parametrize("name", [None, "a", "my room/50%", "zimmer-ä", "部屋", "x" * ROOM_NAME_CHARACTERS])
def test_names_of_people(name: str | None) -> None:
    """Every script, spaces between words, or none at all."""
    require_room_name(name)


@pytest.mark.parametrize(
    "name", ["", " ", " a", "a ", "a\nb", "a\tb", "a\x1b[2Jb", "a\u202eb", "a\u200bb", "x" * (ROOM_NAME_CHARACTERS + 1)]
)
def test_names_that_would_deceive(name: str) -> None:
    """Line ends, escapes, what reorders or hides: refused before anything exists."""
    with pytest.raises(InvalidInputError):
        require_room_name(name)
