"""``jam plugin new`` and ``jam plugin check`` hand over to programs of the testing package."""

from __future__ import annotations

import json

import pytest

from jamcore.cli.commands import plugin_check, plugin_new
from jamcore.cli.main import run

Became = list[tuple[str, ...]]


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> Became:
    """What each command becomes."""
    found: Became = []
    for module in (plugin_check, plugin_new):
        monkeypatch.setattr(module, "become", lambda *words: found.append(words))
    return found


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (("new", "my_agent"), ("jamcore.testing.skeleton", "--", "my_agent")),
        (("new", "my_engine", "--engine", "--json"), ("jamcore.testing.skeleton", "--engine", "--json", "--", "my_engine")),
        (("new", "my_rule", "--policy"), ("jamcore.testing.skeleton", "--policy", "--", "my_rule")),
        (("new", "x", "--directory", "-d"), ("jamcore.testing.skeleton", "--directory=-d", "--", "x")),
        (("check",), ("jamcore.testing.check",)),
        (("check", "."), ("jamcore.testing.check", "--", ".")),
        (("check", "--json", "--", "-x"), ("jamcore.testing.check", "--json", "--", "-x")),
    ],
)
def test_the_words_are_handed_over(became: Became, words: tuple[str, ...], program: tuple[str, ...]) -> None:
    """As they are: no name is ever read as an option."""
    assert run(["plugin", *words]) == 0
    assert became == [program]


def test_a_check_without_pytest_is_refused(
    became: Became, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to install; nothing is run."""
    monkeypatch.setattr(plugin_check, "find_spec", lambda _: None)
    assert run(["plugin", "check", "--json"]) == 3
    assert "jamcore[testing]" in json.loads(capsys.readouterr().out)["error"]["context"]["problem"]
    assert became == []
