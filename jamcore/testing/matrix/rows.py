"""What a crash matrix has found, as lines of a table (WS-12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEADER = ("| first death at | second deaths in the start after it | what came of it |", "|---|---|---|")
COLUMNS = 3
NOT_PLAYED = "not played yet"


@dataclass(frozen=True, slots=True)
class Row:
    """One first death: where, at how many boundaries the start after it was killed too, and what came of the action each time."""

    point: str
    again: int
    outcomes: frozenset[str]

    def line(self) -> str:
        """Return it as a line of a Markdown table."""
        return f"| {self.point} | {self.again} | {', '.join(sorted(self.outcomes))} |"


def read_rows(page: str) -> dict[str, list[Row]]:
    """Return what a page says was played, by the heading above it."""
    found: dict[str, list[Row]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif row := _read(line):
            found.setdefault(heading, []).append(row)
    return found


def lines(points: Iterable[str], played: Iterable[Row]) -> Iterator[str]:
    """Yield the table of one scenario: what was played, then the boundaries that were not."""
    yield from HEADER
    known = list(played)
    yield from (row.line() for row in known)
    seen = {row.point for row in known}
    yield from (f"| {point} | {NOT_PLAYED} | |" for point in points if point not in seen)


def _read(line: str) -> Row | None:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    if not line.startswith("|") or len(cells) != COLUMNS or not cells[1].isdecimal():
        return None
    return Row(cells[0], int(cells[1]), frozenset(cells[2].split(", ")))
