"""The matrix of losses: it is whole, and the page on continuity shows it as it is played."""

from __future__ import annotations

from pathlib import Path

from jamcore.testing.continuity_matrix import Fate, Loss, Moment, cells, table

PAGE = Path(__file__).parents[3] / "docs" / "continuity.md"


def test_every_loss_has_an_answer_at_every_moment() -> None:
    """No pair is left out, and each is an exact resume or a refusal with its kind, never both and never neither."""
    assert [(cell.loss, cell.moment) for cell in cells()] == [(loss, moment) for loss in Loss for moment in Moment]
    assert len({cell.name for cell in cells()}) == len(cells())
    for cell in cells():
        assert (cell.source is None) is (cell.failure is not None), cell
        assert (cell.fate is Fate.NONE) is (cell.moment is Moment.BETWEEN_TURNS), cell


def test_the_page_shows_the_table() -> None:
    """What people read is what the tests play; a changed table is put into the page by hand."""
    assert table() in PAGE.read_text(), f"put this into {PAGE.name}:\n{table()}"
