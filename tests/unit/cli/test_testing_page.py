"""docs/testing.md: what it shows can be typed and run as it stands, and its lists are complete."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jamcore.cli.main import run
from jamcore.cli.table import find
from jamcore.testing.servers.apis import SERVERS
from jamcore.testing.servers.script import Match, Rule, Script

pytestmark = pytest.mark.unprivileged

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()


def test_the_script_that_is_shown_is_one() -> None:
    """It is accepted as it stands."""
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert len(Script.model_validate_json(shown).rules) == len(json.loads(shown)["rules"]) == 2


def test_every_field_of_a_rule_is_named() -> None:
    """And every kind of part."""
    kinds = {part["properties"]["kind"]["const"] for name, part in Rule.model_json_schema()["$defs"].items() if name in _PARTS}
    for name in {*Rule.model_fields, *Match.model_fields, *kinds}:
        assert f"`{name}`" in PAGE, name


def test_every_fault_is_named_with_its_fields() -> None:
    """Each has a row of the table."""
    faults = {name: form for name, form in Rule.model_json_schema()["$defs"].items() if name.endswith("Fault")}
    assert len(faults) == 7
    for form in faults.values():
        kind, *fields = [form["properties"]["kind"]["const"], *(name for name in form["properties"] if name != "kind")]
        (row,) = re.findall(rf"^\| `{kind}` \| .*$", PAGE, re.MULTILINE)
        assert [name for name in fields if f"`{name}`" not in row] == []


def test_every_server_is_named() -> None:
    """With its module and its class."""
    for name, server in SERVERS.items():
        assert f"| `{name}` | `{server.__name__}` |" in PAGE


def test_every_command_that_is_shown_is_one_with_its_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stands in the help of its command."""
    monkeypatch.setenv("COLUMNS", "200")
    shown = [line.split() for line in re.findall(r"^ {4}jam (.*)$", PAGE, re.MULTILINE)]
    assert len(shown) > 5
    for words in shown:
        found = find(words)
        assert found is not None, words
        assert run([*found[0].path, "--help"]) == 0
        known = capsys.readouterr().out
        assert [word for word in words if word.startswith("--") and f"{word} " not in known] == []


_PARTS = {"Text", "Reasoning", "Call", "CustomCall", "Hold", "Pause"}
