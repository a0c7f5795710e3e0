"""The page of the crash matrix is what the code has (WS-12)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jamcore.journal.replay import ActionRegistry
from jamcore.testing.crash_page import PAGE, boundaries, render, write
from jamcore.testing.matrix.effects import GROUPS
from jamcore.testing.matrix.rows import NOT_PLAYED, Row, read_rows
from jamcore.testing.matrix.scenarios import PLAYED
from jamcore.testing.operations_page import registered

pytestmark = pytest.mark.guarantee("WS-12")
SUCCEEDED = frozenset({"succeeded"})


@pytest.fixture(scope="module")
def actions() -> ActionRegistry:
    """The kinds of a whole daemon."""
    return anyio.run(registered)


def test_the_page_is_up_to_date(root: Path, actions: ActionRegistry) -> None:
    """Scenarios, boundaries and groups are those of the code: `make guarantees`. What was played is what the page says of it."""
    page = (root / PAGE).read_text(encoding="utf-8")
    assert page == render(actions, read_rows(page))


def test_every_boundary_of_every_kind_is_on_the_page(root: Path, actions: ActionRegistry) -> None:
    """Each has a line of its own below its scenario, played or not, and nothing that was played came to another end than success."""
    sections = (root / PAGE).read_text(encoding="utf-8").split("\n## ")
    told = {section.partition("\n")[0]: section for section in sections}
    assert {scenario.kind for scenario in PLAYED.values()} == set(actions.kinds())
    for name, scenario in PLAYED.items():
        for point in boundaries(actions, scenario):
            assert f"\n| {point} |" in told[name], (name, point)
        assert {outcome for row in read_rows(f"## {told[name]}").get(name, ()) for outcome in row.outcomes} <= SUCCEEDED
    assert all(f"| {point} | {why} |" in sections[-1] for point, why in GROUPS.items())


def test_what_was_played_is_kept_until_it_is_played_again(tmp_path: Path, actions: ActionRegistry) -> None:
    """Of one scenario at a time; a boundary that the code no longer has is forgotten, and one that nobody played is said to be so."""
    first = boundaries(actions, PLAYED["export"])[0]
    (tmp_path / "docs").mkdir()
    write(tmp_path, actions, {"export": [Row(first, 7, SUCCEEDED), Row("export.gone.acted", 1, SUCCEEDED)]})
    write(tmp_path, actions, {"import": [Row("import.begun", 3, SUCCEEDED), Row("import.begun (2)", 4, SUCCEEDED)]})
    write(tmp_path, actions)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    played = read_rows(page)
    assert {name: [(row.point, row.again) for row in rows] for name, rows in played.items()} == {
        "export": [(first, 7)],
        "import": [("import.begun", 3), ("import.begun (2)", 4)],
    }
    assert "| **all** | 3 | 14 | succeeded |" in page
    assert f"| archive | 0 | 0 | {NOT_PLAYED} |" in page
