"""How a room's conversation is kept, as people see it: lists, one room, and a last checkpoint that failed (CONT-8, CONT-11)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jamcore.cli.exits import Exit
from jamcore.cli.words import kept_word
from tests.unit.cli.conftest import Jam

NOW = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)
KEPT = {"generation": 12, "created_at": "2026-01-02T04:01:05Z"}


@pytest.mark.parametrize(
    ("safety", "word"),
    [
        ({"kept": None, "turns_outside": 0, "unsaved": None}, ""),
        ({"kept": None, "turns_outside": 2, "unsaved": None}, "+2"),
        ({"kept": KEPT, "turns_outside": 0, "unsaved": None}, "12, 3 min"),
        ({"kept": KEPT, "turns_outside": 1, "unsaved": None}, "12, 3 min +1"),
        ({"kept": KEPT, "turns_outside": 1, "unsaved": {"code": "x"}}, "not saved"),
    ],
)
def test_one_short_column(safety: dict[str, Any], word: str) -> None:
    """Generation, age, turns that are in none; a room that does not start says so instead."""
    assert kept_word(safety, NOW) == word


@pytest.mark.guarantee("CONT-11")
def test_a_room_says_what_it_comes_back_from(jam: Jam, room: str) -> None:
    """Generation, age, size, when it was last read whole, and how many turns are in none; the same in JSON."""
    shown = dict(line.split("\t", 1) for line in jam("room", "show", room).out.splitlines() if "\t" in line)
    assert shown["kept in"].startswith("generation 2, ")
    assert shown["kept in"].endswith(" old, 4.0 KiB, 3 files")
    assert shown["verified"].startswith("2026-01-0")
    assert shown["turns in none"] == "0"
    assert "It was live already: nothing was brought back." in jam("room", "resume", room).err
    jam("room", "stop", room)
    assert "Resumed exactly (generation 2: restored from it)." in jam("room", "resume", room).err
    safety = jam("room", "show", room, "--json").json["room"]["safety"]
    assert (safety["kept"]["generation"], safety["kept"]["bytes_total"], safety["trouble"]) == (2, 4096, None)


@pytest.mark.guarantee("CONT-11", "SEC-3")
def test_files_that_are_ahead_are_said_to_whoever_brings_the_room_back(jam: Jam) -> None:
    """By the command that does it, once: files that were ahead at an earlier time are none of its business."""
    jam("room", "new", "codex", "--name", "ahead")
    jam("room", "stop", "ahead")
    resumed = jam("room", "resume", "ahead")
    assert "Resumed exactly (generation 2: restored from it).\nThe files are ahead: ~ a\\x1b[2J.txt." in resumed.err
    assert "ahead:" not in jam("room", "resume", "ahead").err


@pytest.mark.guarantee("CONT-11", "SEC-3")
def test_a_turn_that_is_not_captured_yet_says_why(jam: Jam) -> None:
    """Whose turn it waits for; what a name holds cannot steer the terminal."""
    jam("room", "new", "codex", "--name", "troubled")
    said = jam("room", "show", "troubled")
    assert "Not captured yet: the turn of room " in said.err
    assert "is running; it is asked for again when that ends" in said.err
    assert "\x1b[2J" not in said.err + said.out
    assert "turns in none\t1" in said.out
    (row,) = [line.split("\t") for line in jam("ls").out.splitlines() if line.startswith("troubled")]
    assert row[5].endswith("+1")
    jam("room", "new", "codex", "--name", "sibling")
    assert "Not captured" not in jam("room", "show", "sibling").err, "a room of the same sandbox that has nothing to capture"


@pytest.mark.guarantee("CONT-8", "SEC-3")
def test_a_last_checkpoint_that_failed_says_what_to_type(jam: Jam) -> None:
    """A status of its own; lists and the room say it; the next start is refused; giving it up names the turns."""
    jam("room", "new", "codex", "--name", "unsaved")
    stopped = jam("room", "stop", "unsaved")
    assert stopped.status == Exit.NOT_WELL
    assert "Next: jam room stop unsaved" in stopped.err
    assert "\x1b[2J" not in stopped.err
    assert "not saved" in jam("ls").out
    assert "does not start before that is settled" in jam("room", "show", "unsaved").err
    refused = jam("room", "resume", "unsaved")
    assert refused.status == Exit.REFUSED
    assert "continuity.unsaved" in refused.err
    assert "`jam room stop unsaved --accept-unsaved`" in refused.err
    assert jam("room", "stop", "unsaved").status == Exit.REFUSED
    given_up = jam("room", "stop", "unsaved", "--accept-unsaved")
    assert given_up.status == Exit.OK
    assert "1 completed turn is in no checkpoint" in given_up.err
    assert "turn 00000000-0000-0000-0000-000000000009" in given_up.err
    assert "state\tlive" in jam("room", "resume", "unsaved").out
    assert "1 completed turn is in no checkpoint" in jam("stop", "unsaved", "--accept-unsaved").err


@pytest.mark.guarantee("CONT-8")
def test_a_stop_from_within_the_room_says_so_too(jam: Jam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not say that a message brings the room back; the attach that comes next begins with what to type."""
    jam("room", "new", "codex", "--name", "unsaved-too")
    typed = tmp_path / "typed"

    def attached(text: str) -> str:
        typed.write_text(text)
        with typed.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            return jam("attach", "unsaved-too").err

    said = attached("/stop\n")
    assert "Next: jam room stop unsaved-too" in said
    assert "brings the room back" not in said
    assert "so it does not start. Next: jam room stop unsaved-too" in attached("")


@pytest.mark.guarantee("CONT-8")
def test_what_is_to_be_typed_can_be_copied_whatever_the_room_is_called(jam: Jam) -> None:
    """Names may have spaces."""
    made = jam("room", "new", "codex", "--name", "unsaved by hand")
    assert "jam attach 'unsaved by hand'" in made.err
    stopped = jam("room", "stop", "unsaved by hand")
    assert "Next: jam room stop 'unsaved by hand'" in stopped.err
    assert "`jam room stop 'unsaved by hand' --accept-unsaved`" in jam("room", "resume", "unsaved by hand").err
    assert jam("room", "stop", "unsaved by hand", "--accept-unsaved").status == Exit.OK
    shown = jam("room", "stop", "unsaved by hand").err
    assert "jam room resume 'unsaved by hand'" in shown
    assert "jam continuity inspect 'unsaved by hand'" in jam("session", "inspect", "unsaved by hand").err
    assert "jam session inspect 'unsaved by hand'" in jam("room", "resume", "unsaved by hand").err
