"""There is one table of combinations, and no second copy of it in code or in documents (CAP-5)."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from jamcore.domain.cells import Cell, Configuration, Placement, WorkspaceSource

ROOT = Path(__file__).parents[2]
SETS = re.compile(r"\b(?:SHARED_CELL|DEDICATED_CELLS|DEDICATED_MANAGED_CELLS|FULL_CELLS)\b")
OWNERS = (
    "jamcore/domain/cells.py",
    "jamcore/domain/provider_rules.py",
    "jamcore/plugins/validation.py",
    "jamcore/api.py",
    "jamcore/testing/",
)
"""Who may name a set of combinations: where they are defined, what checks a plugin's own, what plugins import, and doubles of these."""
GENERATED = {"capabilities.md", "guarantees.md"}
CELLS = [str(Cell(configuration=c, workspace=w, placement=p)) for c, w, p in product(Configuration, WorkspaceSource, Placement)]


@pytest.mark.guarantee("CAP-5")
def test_no_module_decides_by_a_set_of_its_own() -> None:
    """Whoever needs to know whether a combination is legal asks the table that was built from the plugins."""
    named = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "jamcore").rglob("*.py")
        if SETS.search(path.read_text()) or "Cell(" in re.sub(r"class Cell\(|\w+Cell\(", "", path.read_text())
    ]
    assert "jamcore/domain/cells.py" in named, "the search works"
    made = {"jamcore/daemon/resolve.py", "jamcore/sandbox/planning.py"}
    assert [path for path in named if not path.startswith(OWNERS) and path not in made] == []
    for path in made:  # each makes one from what was asked
        assert not SETS.search((ROOT / path).read_text())


@pytest.mark.guarantee("CAP-5")
def test_no_document_lists_the_combinations() -> None:
    """The documents name the command that prints the table."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "plugins").glob("*/README.md")]
    listed = [page.name for page in pages if page.name not in GENERATED and any(cell in page.read_text() for cell in CELLS)]
    assert listed == []
    assert "jam provider cells" in (ROOT / "docs" / "cli.md").read_text()
