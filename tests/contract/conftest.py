"""Where the workspace lies. Contract tests read the source tree; they prove what no single module can promise for itself."""

from __future__ import annotations

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
