"""The page of the scenario says what is played: every provider of this workspace, every step."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from jamcore.plugins.manager import PROVIDERS
from jamcore.testing.scenario.page import PAGE, render
from jamcore.testing.scenario.rows import rows_of


@pytest.mark.usefixtures("whole_workspace")
def test_the_page_is_up_to_date(root: Path) -> None:
    """Steps and rows are those of the code: `make guarantees`."""
    assert (root / PAGE).read_text(encoding="utf-8") == render(rows_of(root))


@pytest.mark.usefixtures("whole_workspace")
@pytest.mark.guarantee("PLUG-2")
def test_every_installed_provider_has_a_row(root: Path) -> None:
    """A provider that comes into the workspace goes through the scenario, itself or by a stand-in that is called so."""
    rows = rows_of(root)
    own = {entry.name for entry in entry_points(group=PROVIDERS) if entry.dist is not None and entry.dist.name.startswith("jam-")}
    assert own <= {row.provider.removesuffix("_standin") for row in rows}
    assert all(bool(row.standin) == row.provider.endswith("_standin") for row in rows)


def test_a_plugin_without_rows_is_named(tmp_path: Path) -> None:
    """Otherwise nothing of it would be played, and nobody would see it."""
    (tmp_path / "plugins/new/tests").mkdir(parents=True)
    (tmp_path / "plugins/new/pyproject.toml").touch()
    with pytest.raises(LookupError, match=r"plugins/new/tests/scenario_rows\.py"):
        rows_of(tmp_path)
