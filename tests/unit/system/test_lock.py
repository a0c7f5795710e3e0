"""The lock of an app directory: one holder, which says who it is and what it is about (OWN-7)."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jamcore.system.lock import AppDirectoryLockedError, doing_of, owning

pytestmark = pytest.mark.unprivileged

AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.guarantee("OWN-7")
def test_one_holds_it_and_others_are_told_who(tmp_path: Path) -> None:
    """Whatever it says besides; and when it lets go, the next one has it."""
    path = tmp_path / "lock"
    for _ in range(2):
        with owning(path, pid=os.getpid(), started_at=AT) as held:
            held.say("continuity resets")
            with pytest.raises(AppDirectoryLockedError) as refused, owning(path, pid=1, started_at=AT):
                pass
            assert refused.value.holder == f"process {os.getpid()}, started {AT.isoformat()}"


def test_what_the_holder_is_about_is_told_until_it_is_done(tmp_path: Path) -> None:
    """Longer words before shorter ones leave nothing behind, and a new holder says nothing of the one before."""
    path = tmp_path / "lock"
    assert doing_of(path) == ""
    with owning(path, pid=os.getpid(), started_at=AT) as held:
        assert doing_of(path) == ""
        for words in ("checkpoint payload deletions", "usage", ""):
            held.say(words)
            assert doing_of(path) == words
        held.say("continuity resets")
    with owning(path, pid=os.getpid(), started_at=AT):
        assert doing_of(path) == ""


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pid": "x", "doing": "y"}', '{"pid": 1073741824, "doing": "y"}', '{"doing": "y"}']
)
def test_what_nobody_who_lives_has_said_counts_for_nothing(tmp_path: Path, text: str) -> None:
    """A file that is cut, of another form, or of a process that is gone."""
    path = tmp_path / "lock"
    path.write_text(text)
    assert doing_of(path) == ""


def test_the_words_of_somebody_elses_process_are_not_asked_for_its_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may not be asked is another user's, and so no daemon of this directory."""

    def forbidden(_pid: int, _signal: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    path = tmp_path / "lock"
    path.write_text('{"pid": 1, "doing": "y"}')
    monkeypatch.setattr("jamcore.system.lock.os.kill", forbidden)
    assert doing_of(path) == ""
