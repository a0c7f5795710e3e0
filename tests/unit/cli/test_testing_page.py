"""docs/testing.md: the script it shows is one, and its lists are complete."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

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


_PARTS = {"Text", "Reasoning", "Call", "CustomCall", "Hold", "Pause"}
