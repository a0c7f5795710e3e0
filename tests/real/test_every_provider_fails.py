"""A model that is down, refuses, breaks off or stalls: of every provider the turn ends with a code, and its room goes on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.scenario.faults import FAULTS, faults
from jamcore.testing.scenario.rows import ProviderRow, rows_of
from jamcore.testing.sources import workspace_root

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.slow, pytest.mark.timeout(400)]
ROWS = rows_of(workspace_root(Path(__file__)))


@pytest.mark.guarantee("START-4", "CONT-11")
@pytest.mark.parametrize("row", [pytest.param(row, marks=pytest.mark.needs(*row.needs), id=row.provider) for row in ROWS])
async def test_a_room_outlives_its_model(row: ProviderRow, tmp_path: Path, lives: Lives) -> None:
    """One fault after another in one conversation; after each of them the model is told all the turns that were whole."""
    async with faults(row, tmp_path, lives) as met:
        await met.open()
        for name in FAULTS:
            began = anyio.current_time()
            print(f"{row.provider}: {name} …", end=" ", flush=True)
            print(f"{await met.meet(name)}, {anyio.current_time() - began:.1f} s")
