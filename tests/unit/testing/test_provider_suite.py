"""The provider suite itself: every check has a rule and says why, it names no provider, and its stand-ins do what a test says."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jamcore.testing import providers
from jamcore.testing.providers.standin import StandIn

NAMES = re.compile("codex|copilot|claude|opencode|cursor", re.IGNORECASE)
TEXT = """#!/usr/bin/env python3
import sys
for word in sys.argv[1:]:
    #said
    print(word)
#end
"""


def checks() -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of every check in every part of the suite."""
    for module in (
        importlib.import_module(f"{providers.__name__}.{found.name}") for found in pkgutil.iter_modules(providers.__path__)
    ):
        for part in vars(module).values():
            if inspect.isclass(part) and part.__module__ == module.__name__:
                for name, check in vars(part).items():
                    if name.startswith("test_"):
                        yield f"{part.__name__}.{name}", inspect.getdoc(check) or ""


@pytest.mark.guarantee("KIT-2")
def test_every_check_says_its_rule_and_why_it_is_one() -> None:
    """An author whose plugin fails a check reads both: the first line is the rule, the rest is why."""
    found = dict(checks())
    assert len(found) > 50
    assert [name for name, text in found.items() if not re.fullmatch(r"[^\n]+\.\n\n(?s:.+)\.", text)] == []


@pytest.mark.guarantee("KIT-2")
def test_the_suite_names_no_provider() -> None:
    """It is for plugins that nobody has thought of; what is peculiar to one is said in its own tests."""
    sources = [
        Path(place) / f"{found.name}.py" for found in pkgutil.iter_modules(providers.__path__) for place in providers.__path__
    ]
    assert [path.name for path in sources if NAMES.search(path.read_text())] == []


def test_statements_stand_at_their_places(tmp_path: Path) -> None:
    """Indented as the place is, line by line; a place without statements does nothing."""
    stand_in = StandIn("bin/it", TEXT)
    assert stand_in.places == {"said", "end"}
    stand_in.write(tmp_path, said="if word == 'b':\n    continue")
    done = subprocess.run([sys.executable, tmp_path / "bin" / "it", "a", "b", "c"], capture_output=True, text=True, check=True)
    assert done.stdout == "a\nc\n"


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A misbehaviour that is put nowhere would be a test that cannot fail."""
    with pytest.raises(KeyError, match="sayd"):
        StandIn("it", TEXT).write(tmp_path, sayd="continue")
