"""Two rooms of every provider at once, killed at boundaries of their turns that are drawn, in the real sandbox.

The moments come from a seed that is printed; ``JAM_KILL_SEED`` repeats one, and ``JAM_KILL_ROUNDS`` says how many are played.
"""

from __future__ import annotations

import os
import random
import secrets
from pathlib import Path

import anyio
import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.scenario.kills import kills
from jamcore.testing.scenario.rows import ProviderRow, rows_of
from jamcore.testing.sources import workspace_root

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.slow, pytest.mark.timeout(600)]

SEED_VARIABLE, ROUNDS_VARIABLE = "JAM_KILL_SEED", "JAM_KILL_ROUNDS"
ROUNDS = 3
ROWS = rows_of(workspace_root(Path(__file__)))


def marks(row: ProviderRow) -> tuple[pytest.MarkDecorator, ...]:
    """What a row needs, and that it proves sharing where its rooms share a host."""
    shared = (pytest.mark.guarantee("SHARE-1", "SHARE-5"),) if row.shared else ()
    return (pytest.mark.needs(*row.needs), *shared)


@pytest.mark.guarantee("CONT-1", "CONT-11")
@pytest.mark.parametrize("row", [pytest.param(row, marks=marks(row), id=row.provider) for row in ROWS])
async def test_two_rooms_come_back_exactly(row: ProviderRow, tmp_path: Path, lives: Lives) -> None:
    """Whatever dies and wherever each of them stands: each is its own thread again, and the model is told what it had been told."""
    seed = int(os.environ.get(SEED_VARIABLE) or secrets.randbits(32))
    print(f"\n{SEED_VARIABLE}={seed}  {row.title}")
    rounds = int(os.environ.get(ROUNDS_VARIABLE) or ROUNDS)
    async with kills(row, tmp_path, lives, random.Random(f"{seed} {row.provider}"), rounds) as played:
        await played.open()
        for round_ in played.rounds:
            began = anyio.current_time()
            await played.play(round_)
            print(f"{round_}: {anyio.current_time() - began:.1f} s")
        await played.end()
