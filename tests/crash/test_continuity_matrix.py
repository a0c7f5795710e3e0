"""Every loss at every moment, each cell a real run: the exact conversation comes back, or it is refused and nothing starts.

What must come of a cell stands in :mod:`jamcore.testing.continuity_matrix`, how it is played in :mod:`jamcore.testing.continuity_play`;
the page on continuity shows the same table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.continuity.resuming.restore import RESTORE_POINTS
from jamcore.testing.continuity_matrix import Cell, Loss, Moment, cell, cells
from jamcore.testing.continuity_play import Play, playing
from jamcore.testing.crash import Lives

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap"),
    pytest.mark.guarantee("CONT-1", "CONT-7", "CONT-9", "CONT-11", "CONT-12"),
]

PROVIDER = "codex"
AGAIN = (
    *((cell(loss, Moment.IN_A_TURN), "") for loss in Loss if loss.keeps_live_state),
    *((cell(Loss.STATE_LOST, moment), point) for moment, point in zip(Moment, RESTORE_POINTS, strict=False)),
)
"""Cells in which the daemon is killed once more on the way back: when the program runs, or at a boundary of the restore."""
SHARED = (
    *(cell(loss, Moment.IN_A_TURN) for loss in Loss),
    *(cell(loss, Moment.BEFORE_THE_ROW) for loss in (Loss.PROVIDER_KILLED, Loss.STATE_LOST, Loss.REBOOT)),
)


def name(value: object) -> str:
    """Name a parameter."""
    return value.name if isinstance(value, Cell) else str(value) or "the-program-runs"


async def until_it_happened(play: Play) -> None:
    """Go to the moment, and let it happen."""
    await play.to_the_moment()
    await play.it_happens()


async def rightly(play: Play) -> None:
    """Come back, or be refused, as the cell says."""
    await play.again()
    if play.cell.failure is not None:
        await play.are_refused()
    else:
        await play.come_back_exactly()


@pytest.mark.parametrize("cell", cells(), ids=name)
async def test_a_loss_at_a_moment(cell: Cell, tmp_path: Path, lives: Lives) -> None:
    """Whatever is lost and whenever: the exact conversation, with what was cut said to be cut, or a refusal and nothing started."""
    async with playing(cell, tmp_path, provider=PROVIDER, lives=lives) as play:
        await until_it_happened(play)
        await rightly(play)


@pytest.mark.parametrize(("cell", "point"), AGAIN, ids=name)
async def test_a_second_kill_on_the_way_back(cell: Cell, point: str, tmp_path: Path, lives: Lives) -> None:
    """The way back is begun anew and ends in the same place; a kill in it costs nothing more."""
    async with playing(cell, tmp_path, provider=PROVIDER, lives=lives) as play:
        await until_it_happened(play)
        await play.again()
        await play.killed_on_the_way_back(point)
        await rightly(play)


@pytest.mark.guarantee("SHARE-5")
@pytest.mark.parametrize("cell", SHARED, ids=name)
async def test_a_loss_under_two_rooms_of_one_sandbox(cell: Cell, tmp_path: Path, lives: Lives) -> None:
    """Both rooms come back, each as its own thread and with nothing of the other, or both are refused."""
    async with playing(cell, tmp_path, provider=PROVIDER, lives=lives, rooms=2) as play:
        await until_it_happened(play)
        await rightly(play)
