"""The page of the suites of policies and families is what they say."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from jamcore.testing.policies.__main__ import PAGE, PARTS, render, section_of, suite_of

pytestmark = pytest.mark.guarantee("KIT-1")


def test_the_page_is_up_to_date(root: Path) -> None:
    """Made again it is the same: `make guarantees`."""
    assert (root / PAGE).read_text(encoding="utf-8") == render()


@pytest.mark.parametrize("module", dict(PARTS))
def test_every_check_says_its_rule_and_why(module: str) -> None:
    """So that a failure can be understood from the report alone, which names the place on the page."""
    suite = suite_of(module)
    checks = {key: value for key, value in inspect.getmembers(suite, inspect.isfunction) if key.startswith("test_")}
    assert checks
    assert [key for key, check in checks.items() if len((inspect.getdoc(check) or "").split("\n\n")) < 2] == []
    assert section_of(type("Mine", (suite,), {})) == f"{PAGE}#{module}"
