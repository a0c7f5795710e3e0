"""What is tested is what is shipped: under tox the modules come from built wheels, and the core has no plugin beside it."""

from __future__ import annotations

import os
from importlib.metadata import entry_points, requires
from pathlib import Path

import pytest

import jamcore

TOX_ENV = os.environ.get("TOX_ENV_NAME", "")


@pytest.mark.skipif(not TOX_ENV.startswith("core-"), reason="runs in tox -e core-…: elsewhere the core is the working tree")
@pytest.mark.guarantee("KIT-2")
def test_the_core_comes_from_its_wheel_alone() -> None:
    """The core under test lies in site-packages, and no provider plugin is installed."""
    assert "site-packages" in Path(jamcore.__file__).parts
    assert list(entry_points(group="jam.providers")) == []


@pytest.mark.guarantee("KIT-2")
def test_no_plugin_depends_on_another() -> None:
    """A plugin's distribution needs the core, never another plugin."""
    for plugin in {entry.dist.name for entry in entry_points(group="jam.providers") if entry.dist}:
        assert [need for need in requires(plugin) or () if need.startswith("jam-")] == []


def test_no_conftest_at_the_root(root: Path) -> None:
    """A conftest beside the package would put the working tree in front of the wheel."""
    assert not (root / "conftest.py").exists()
