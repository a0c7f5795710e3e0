"""The command line names the engine of a new room, and says plainly when nothing isolates its agent (CAP-1, ENG-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.cli.engines import WARNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jamcore.testing.jam_program import Terminal
    from tests.unit.cli.conftest import Jam

pytestmark = pytest.mark.guarantee("CAP-1", "ENG-4")


def test_an_engine_that_was_not_named_is_filled_in_visibly(jam: Jam) -> None:
    """Before anything is made, with its isolation and how to choose another."""
    made = jam("room", "new", "codex")
    assert made.status == 0
    assert "Engine: bubblewrap (isolation: namespace); --engine names another." in made.err
    assert WARNING not in made.err
    assert "isolation\tnamespace" in made.out


def test_a_named_engine_is_not_announced(jam: Jam) -> None:
    """The person knows it."""
    assert "Engine:" not in jam("room", "new", "codex", "--engine", "bubblewrap").err


@pytest.mark.parametrize(
    "words", [("room", "new", "codex", "--engine", "local"), ("run", "codex", "do it", "--engine", "local", "--detach")]
)
def test_host_processes_are_chosen_with_a_warning(jam: Jam, words: tuple[str, ...]) -> None:
    """Wherever the engine is chosen."""
    made = jam(*words, "--engine", "local")
    assert made.status == 0
    assert WARNING in made.err


def test_host_processes_are_shown_as_such(jam: Jam, terminal: Callable[..., Terminal]) -> None:
    """In the list, in the room, and to who attaches; for programs it is a field."""
    made = jam("room", "new", "codex", "--engine", "local", "--json")
    assert made.json["isolation"] == "none"
    assert made.err == ""
    name = made.json["room"]["name"]
    (row,) = [line.split("\t") for line in jam("ls").out.splitlines() if line.startswith(name)]
    assert row[3] == "local (no isolation)"
    assert [each["isolation"] for each in jam("ls", "--json").json if each["room"]["name"] == name] == ["none"]
    assert "isolation\tnone" in jam("room", "show", name).out
    terminal("attach", name, "--watch").expect("Nothing isolates this agent")


def test_an_unknown_engine_is_the_daemons_to_refuse(jam: Jam) -> None:
    """The command line adds nothing to its words."""
    assert jam("room", "new", "codex", "--engine", "weak").status != 0
