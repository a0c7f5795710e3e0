"""A private app directory and an engine over it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jamcore.domain.plan import Plan
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.doubles.world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A new daemon over a new app directory; its engine ends with the test."""
    engine = DirectoryEngine()
    yield World.over(tmp_path / "app", engine)
    await engine.close()


@pytest.fixture
def plan() -> Plan:
    """A plan that runs on the engine of these tests."""
    return plans.plan()
