"""Collected figures, most of them milliseconds, and the table that sets each figure beside what the same thing costs without Jam."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Laps:
    """One thing, measured again and again: milliseconds, where it was timed."""

    values: list[float] = field(default_factory=list)

    @contextmanager
    def lap(self) -> Iterator[None]:
        """Measure a block."""
        began = time.perf_counter()
        yield
        self.add(began)

    def add(self, began: float, ended: float | None = None) -> None:
        """Take a lap that began at ``began`` and ended at ``ended`` or now, in seconds of the performance counter."""
        self.values.append(((time.perf_counter() if ended is None else ended) - began) * 1000)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def p90(self) -> float:
        """Nine of ten are at most this much."""
        ordered = sorted(self.values)
        return ordered[max(0, -(-len(ordered) * 9 // 10) - 1)]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    ``raw`` is measured in the same run and unit. ``added`` says whether the figure that counts is the difference, not the ratio.
    ``paired`` says that each lap stands beside the one of ``raw`` that was measured with it: then the difference is that of the pairs,
    their median with the quartiles, and the ratio stands beside it.
    """

    name: str
    laps: Sequence[float]
    raw_name: str = ""
    raw: Sequence[float] = ()
    added: bool = False
    paired: bool = False
    aim: str = ""
    unit: str = "ms"

    def cells(self) -> tuple[str, ...]:
        """Return what the table shows of it."""
        mine = Laps(list(self.laps))
        if not self.raw:
            return (self.name, self.unit, *_shown(mine), str(len(self.laps)), self.raw_name, "", "", self._aim())
        raw = Laps(list(self.raw))
        ratio = f"{mine.median / raw.median:.2f} x" if raw.median else ""
        if self.paired:
            low, middle, high = self._differences()
            than = f"{middle:+.1f} {self.unit} ({low:+.1f} to {high:+.1f}), {ratio}"
        else:
            than = f"{mine.median - raw.median:+.1f} {self.unit}" if self.added else ratio
        return (
            self.name,
            self.unit,
            *_shown(mine),
            str(len(self.laps)),
            self.raw_name,
            f"{raw.median:.1f} / {raw.p90:.1f}",
            than,
            self._aim(),
        )

    def as_data(self) -> dict[str, object]:
        """Return it as data."""
        mine = Laps(list(self.laps))
        data: dict[str, object] = {
            "name": self.name,
            "unit": self.unit,
            "median": mine.median,
            "p90": mine.p90,
            "runs": len(self.laps),
            "aim": self.aim,
        }
        if self.raw:
            raw = Laps(list(self.raw))
            beside = {"name": self.raw_name, "median": raw.median, "p90": raw.p90, "runs": len(self.raw)}
            ratio = mine.median / raw.median if raw.median else None
            data |= {"raw": beside, "ratio": ratio, "added": mine.median - raw.median}
            if self.paired:
                low, middle, high = self._differences()
                data["pairs"] = {"median": middle, "quartiles": [low, high]}
        return data

    def _differences(self) -> tuple[float, float, float]:
        """Return the middle one of the differences in each pair, between the quartiles."""
        differences = [mine - raw for mine, raw in zip(self.laps, self.raw, strict=True)]
        if len(differences) == 1:
            return (differences[0],) * 3
        low, middle, high = statistics.quantiles(differences, n=4, method="inclusive")
        return low, middle, high

    def _aim(self) -> str:
        return f"aim {self.aim}" if self.aim else ""


HEADER = ("", "", "median", "p90", "runs", "beside it", "median / p90", "Jam is", "")


def render(rows: Sequence[Row]) -> str:
    """Return the rows as a table for a terminal."""
    lines = [HEADER, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    left = {0, 1, 5, 8}
    shown = (
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in shown)


def _shown(laps: Laps) -> tuple[str, str]:
    return f"{laps.median:.1f}", f"{laps.p90:.1f}"
