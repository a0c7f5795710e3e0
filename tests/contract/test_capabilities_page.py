"""The page of capabilities is what the plugins of this workspace say of themselves (CAP-5, KIT-1)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jamcore.testing.capabilities_page import PAGE, Installed, load, render

pytestmark = pytest.mark.guarantee("CAP-5")


@pytest.fixture(scope="module")
def installed(root: Path) -> Installed:
    """The workspace's plugins, all of which must be there: a page of some of them would be another one."""
    found = anyio.run(load, root)
    if found.absent:
        pytest.skip(f"needs every plugin of the workspace installed; absent: {', '.join(found.absent)}")
    return found


def test_the_page_is_up_to_date(root: Path, installed: Installed) -> None:
    """Made again it is the same: `make guarantees`."""
    assert (root / PAGE).read_text(encoding="utf-8") == render(installed)


def test_every_combination_of_the_table_is_on_it(installed: Installed) -> None:
    """As many yeses for a provider as it has cells, and each engine with its isolation."""
    lines = [line.split(" | ") for line in render(installed).splitlines() if "/" in line and line.startswith("| `")]
    cells = [line for line in lines if line[0].count("/") == 2]
    for column, name in enumerate(installed.providers, start=1):
        assert sum(line[column] == "yes" for line in cells) == sum(provider == name for provider, _ in installed.table.rows())
    page = render(installed)
    assert all(engine.isolation.name.lower() in page for engine in installed.engines.values())
