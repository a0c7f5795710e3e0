"""Where the workspace lies. Contract tests read the source tree; they prove what no single module can promise for itself."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from jamcore.testing.sources import Source, all_sources, core_sources, workspace_root


@pytest.fixture(scope="session")
def root() -> Path:
    """The workspace: the one that holds these tests."""
    return workspace_root(Path(__file__).resolve().parent)


@pytest.fixture(scope="session")
def core(root: Path) -> tuple[Source, ...]:
    """Every module of the core."""
    return core_sources(root)


@pytest.fixture(scope="session")
def sources(root: Path) -> tuple[Source, ...]:
    """Every module of the core and of the plugins."""
    return all_sources(root)


@pytest.fixture(scope="session")
def whole_workspace(sources: tuple[Source, ...]) -> None:
    """Every plugin of the workspace is installed: what is made of all of them would be something else of some."""
    if absent := sorted({source.package for source in sources if find_spec(source.package) is None}):
        pytest.skip(f"needs every plugin of the workspace installed; absent: {', '.join(absent)}")
