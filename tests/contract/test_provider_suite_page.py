"""The page of the provider suite is what the suite says."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from jamcore.testing.check.report import explained
from jamcore.testing.providers.__main__ import PAGE, PARTS, render

pytestmark = pytest.mark.guarantee("KIT-1")


def test_the_page_is_up_to_date(root: Path) -> None:
    """Made again it is the same: `make guarantees`."""
    assert (root / PAGE).read_text(encoding="utf-8") == render()


@pytest.mark.parametrize(("module", "name"), PARTS, ids=[name for _, name in PARTS])
def test_every_check_says_its_rule_and_why(module: str, name: str) -> None:
    """So that a failure can be understood from the report alone."""
    suite = getattr(importlib.import_module(f"jamcore.testing.providers.{module}"), name)
    checks = {key: value for key, value in inspect.getmembers(suite, inspect.isfunction) if key.startswith("test_")}
    assert checks
    silent = [key for key, check in checks.items() if len((inspect.getdoc(check) or "").split("\n\n")) < 2]
    assert silent == []


def test_every_part_of_the_suite_is_on_the_page(root: Path) -> None:
    """A class with checks that no page names is one that no author finds."""
    places = sorted(path.stem for path in (root / "jamcore/testing/providers").glob("[!_]*.py"))
    found = set[str]()
    for place in places:
        module = importlib.import_module(f"jamcore.testing.providers.{place}")
        found |= {
            name for name, each in vars(module).items() if inspect.isclass(each) and name.startswith("Provider") and _asks(each)
        }
    assert found == {name for _, name in PARTS}


def test_a_failure_names_the_place_on_the_page_that_explains_it(request: pytest.FixtureRequest) -> None:
    """For a check of the suite; a test of an author's own has none."""
    assert isinstance(request.node, pytest.Item)
    rule, why, page = explained(request.node)
    assert (rule, page) == ("For a check of the suite; a test of an author's own has none.", "")
    assert not why


def _asks(suite: type) -> bool:
    return any(name.startswith("test_") for name in dir(suite))
