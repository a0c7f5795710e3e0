"""Kills a daemon at every boundary of every journaled kind, and again at every boundary of what its next start does about it (WS-12).

The kinds and their boundaries are what a composed daemon registers, so a new kind without a scenario fails by name
(:mod:`jamcore.testing.matrix.scenarios` says how to write one). For each first death: the daemon starts again once and the boundaries that
its start passes are noted; for each of those it starts in the same state again and is killed there. A further life then has everything as
it must be: the action is done once, nothing temporary is left, what others have is untouched, exports are sound, asking again in the same
words changes no row and no file, and in other words is refused.

Run ``python -m jamcore.testing.crash_matrix [KIND …]`` to see the table.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jamcore.testing.crash import Lives
from jamcore.testing.leftovers import left_in
from jamcore.testing.matrix.effects import between
from jamcore.testing.matrix.lives import OUTCOME, PASSED, REGISTERED, TRACED, ask, finish, make, prepare, start, trace
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.parked_world import SIBLING, World, files_in, replace_tree

Passing = tuple[str, int]
"""A boundary, and which time it is passed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One first death: where, at how many boundaries the start after it was killed too, and what came of the action each time."""

    kind: str
    point: str
    again: int
    outcomes: frozenset[str]

    def line(self) -> str:
        """Return it as a line of a Markdown table."""
        return f"| {self.kind} | {self.point.removeprefix(self.kind + '.')} | {self.again} | {', '.join(sorted(self.outcomes))} |"


HEADER = ("| action | first death at | second deaths in the start after it | what came of it |", "|---|---|---|---|")


class MatrixError(AssertionError):
    """A cell of the matrix is not as it must be."""


@dataclass(slots=True)
class Matrix:
    """The matrix over one world, below a directory of its own.

    Attributes:
        root: The directory.
        lives: Begins processes.
        most_again: At most so many second deaths for each first, drawn so that one kind's come to every boundary; ``None``: all.
        registered: Every kind that a daemon registers, with its boundaries.
    """

    root: Path
    lives: Lives
    most_again: int | None = None
    registered: dict[str, list[str]] = field(init=False)
    _sibling: dict[str, str] = field(init=False)
    _cell: str = "making the world"

    def __post_init__(self) -> None:
        """Make the world."""
        self.world.root.mkdir()
        self._live(0, make, self.world.root)
        self._keep("made")
        self.registered = json.loads((self.root / REGISTERED).read_text())
        self._sibling = self._of_sibling()

    @property
    def world(self) -> World:
        """The world, which is always at the same path."""
        return World(self.root / "world")

    def without_scenario(self) -> list[str]:
        """Return the kinds that nobody has described."""
        return sorted(self.registered.keys() - SCENARIOS.keys())

    def rows(self, kind: str) -> Iterator[Row]:
        """Play a kind, one first death after the other.

        Raises:
            MatrixError: A cell is not as it must be; the message names it and says what its life said.
        """
        self._prepare(kind)
        for number, (point, count) in enumerate(self._passed_by_asking(kind)):
            yield self._first_death(kind, point, count, number)

    def effects(self, kind: str) -> Mapping[str, tuple[str, ...]]:
        """Return the effects of one whole run of a kind, by the boundary that follows them."""
        self._prepare(kind)
        (self.root / TRACED).unlink(missing_ok=True)
        self._live(0, trace, self.world.root, kind)
        return between((self.root / TRACED).read_text().splitlines(), kind)

    def _prepare(self, kind: str) -> None:
        self._cell = f"{kind}, being prepared"
        self._bring_back("made")
        self._live(0, prepare, self.world.root, kind)
        self._keep("prepared")

    def _passed_by_asking(self, kind: str) -> list[Passing]:
        """Return every boundary of one whole run, which nobody kills; what the request does after the action is not its own."""
        self._cell = f"{kind}, without a death"
        self._noting()
        self._live(0, ask, self.world.root, kind, "", 1)
        whole = self._passed()
        first, last = f"{kind}.begun", f"{kind}.ended"
        missing = {*self.registered[kind], *SCENARIOS[kind].inner} - set(whole)
        if missing:
            raise MatrixError(f"{kind}: a run does not pass {sorted(missing)}")
        self._finished(kind)
        return numbered(whole)[whole.index(first) if first in whole else 0 : whole.index(last) + 1]

    def _first_death(self, kind: str, point: str, count: int, turn: int) -> Row:
        self._bring_back("prepared")
        self._cell = f"{kind} killed at {point} ({count})"
        self._live(-signal.SIGKILL, ask, self.world.root, kind, point, count)
        self._holds(kind)
        self._keep("died")
        self._noting()
        self._live(0, start, self.world.root, "", 1)
        again = drawn(numbered(self._passed()), self.most_again, turn)
        outcomes = {self._finished(kind)}
        for second, number in again:
            self._bring_back("died")
            self._cell = f"{kind} killed at {point} ({count}), then at {second} ({number})"
            self._live(-signal.SIGKILL, start, self.world.root, second, number)
            self._holds(kind)
            outcomes.add(self._finished(kind, again=False))
        return Row(kind, point if count == 1 else f"{point} ({count})", len(again), frozenset(outcomes))

    def _finished(self, kind: str, *, again: bool = True) -> str:
        """Live once more and require that all is well, with ``again`` also when it is asked for again; return what came of the action."""
        self._live(0, finish, self.world.root, kind, again)
        self._holds(kind)
        if left := left_in(self.world.app):
            raise MatrixError(f"{self._cell}: left behind: {left}")
        if self._of_sibling() != self._sibling:
            raise MatrixError(f"{self._cell}: the other room was touched")
        return (self.root / OUTCOME).read_text().strip()

    def _holds(self, kind: str) -> None:
        try:
            SCENARIOS[kind].holds(self.world)
        except AssertionError as error:
            raise MatrixError(f"{self._cell}: {error}") from error

    def _of_sibling(self) -> dict[str, str]:
        return self.world.host_digest(SIBLING) | files_in(self.world.work(SIBLING))

    def _live(self, expected: int, main: object, *arguments: object) -> None:
        said = self.root / "said"
        said.unlink(missing_ok=True)
        code = self.lives.run(main, *arguments, said=said)  # type: ignore[arg-type]
        if code != expected:
            raise MatrixError(f"{self._cell}: its life ended with {code}, not {expected}:\n{said.read_text()[-4000:]}")

    def _noting(self) -> None:
        (self.root / PASSED).write_text("")

    def _passed(self) -> list[str]:
        return (self.root / PASSED).read_text().split()

    def _keep(self, name: str) -> None:
        replace_tree(self.world.root, self.root / name)

    def _bring_back(self, name: str) -> None:
        replace_tree(self.root / name, self.world.root)


def drawn(found: list[Passing], most: int | None, turn: int) -> list[Passing]:
    """Return at most ``most`` of a list, evenly spread, others at each turn."""
    if most is None or len(found) <= most:
        return found
    return [found[(turn + number * len(found) // most) % len(found)] for number in range(most)]


def numbered(points: Iterable[str]) -> list[Passing]:
    """Return each boundary with which time it is passed."""
    seen: Counter[str] = Counter()
    found = []
    for point in points:
        seen[point] += 1
        found.append((point, seen[point]))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Play the matrix and print it."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.crash_matrix", description="Kill a daemon everywhere.")
    parser.add_argument("kind", nargs="*", help="which journaled kinds; all by default")
    parser.add_argument("--again", type=int, metavar="N", help="at most N second deaths for each first; all by default")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="jam-") as directory:
        matrix = Matrix(Path(directory), Lives(), chosen.again)
        print(*HEADER, sep="\n", flush=True)
        for kind in chosen.kind or sorted(matrix.registered):
            for row in matrix.rows(kind):
                print(row.line(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
