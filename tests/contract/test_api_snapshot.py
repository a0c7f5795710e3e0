"""What authors may import changes only on purpose."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SNAPSHOT = Path(__file__).parent / "data" / "api.txt"


@pytest.mark.guarantee("PLUG-2")
def test_the_published_names_are_the_snapshot() -> None:
    """``jamcore.api.__all__`` is exactly the recorded list, sorted, and each name exists.

    A name that goes or changes its meaning breaks authors: say so in changelog.d with the type ``plugin-api``.
    """
    api = importlib.import_module("jamcore.api")
    assert [name for name in api.__all__ if not hasattr(api, name)] == []
    assert sorted(api.__all__) == SNAPSHOT.read_text(encoding="utf-8").split()
