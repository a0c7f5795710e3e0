"""Every provider of this workspace goes through the whole story in a real daemon and a real sandbox (docs/providers-scenario.md)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.scenario.rows import ProviderRow, rows_of
from jamcore.testing.scenario.story import STEPS, story
from jamcore.testing.sources import workspace_root

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.slow]
ROWS = rows_of(workspace_root(Path(__file__)))


@pytest.mark.guarantee("PLAN-5", "CONT-1", "CONT-11", "WS-6", "WS-8")
@pytest.mark.parametrize("row", [pytest.param(row, marks=pytest.mark.needs(*row.needs), id=row.provider) for row in ROWS])
async def test_the_story(row: ProviderRow, tmp_path: Path, lives: Lives) -> None:
    """All steps in their order; each needs those before it."""
    async with story(row, tmp_path, lives) as played:
        for name, step in STEPS:
            began = anyio.current_time()
            print(f"{row.provider}: {name} …", end=" ", flush=True)  # which one it was, when one fails
            await step(played)
            print(f"{anyio.current_time() - began:.1f} s")
