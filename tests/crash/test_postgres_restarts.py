"""A real PostgreSQL server that goes away in the middle of an action and comes back: the daemon finds it again by itself (WS-12)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.matrix.postgres_lives import restarts

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.needs("postgres"), pytest.mark.timeout(600)]

POINTS = {
    "export": ("export.begun", "writing.export.copied", "export.keep.acted"),
    "archive": ("archive.choose.recorded", "archive.mark.recorded", "archive.remove.acted"),
    "restore": ("restore.begun", "restore.place.intended", "restore.settle.intended"),
    "host-cleanup": ("host-cleanup.begun", "host-cleanup.sandbox.acted", "host-cleanup.root.recorded"),
}
LIFE_S = 300.0


@pytest.mark.guarantee("WS-12", "START-1")
@pytest.mark.parametrize("kind", POINTS)
def test_the_server_goes_in_the_middle(tmp_path: Path, lives: Lives, kind: str) -> None:
    """Restarted, away until the request was answered, or killed before a commit: the answer is typed, and the action comes to its end."""
    said = tmp_path / "said"
    life = lives.begin(restarts, tmp_path, kind, POINTS[kind], environment=dict(os.environ), said=said)
    try:
        code = life.wait(LIFE_S)
    finally:
        life.kill()
    words = said.read_text()
    print(words)
    assert code == 0, words[-4000:]
    assert "store.unreachable" in words, "nobody was told"
