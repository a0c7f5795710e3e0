"""What the bench's table says of figures."""

from __future__ import annotations

from benchmarks.table import Row


def test_laps_that_were_measured_in_pairs_are_compared_in_pairs() -> None:
    """A machine that slows down for a pair slows both: the difference is the pairs', and not that of the two medians."""
    jam, alone = (10.0, 12.0, 50.0, 21.0, 90.0), (7.0, 8.0, 45.0, 15.0, 83.0)
    row = Row("a turn", jam, "the program alone", alone, paired=True)
    pairs = {"median": 5.0, "quartiles": [4.0, 6.0]}
    assert row.as_data()["pairs"] == pairs
    assert row.as_data()["added"] == 6.0
    assert "+5.0 ms (+4.0 to +6.0), 1.40 x" in row.cells()


def test_one_pair_has_no_spread() -> None:
    """A single kill is a figure, too."""
    assert "+2.0 ms (+2.0 to +2.0), 1.50 x" in Row("a kill", (6.0,), "alone", (4.0,), paired=True).cells()
