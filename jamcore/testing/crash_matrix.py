"""Kills a daemon at every boundary of every journaled kind, and again at every boundary of what its next start does about it (WS-12).

The kinds and their boundaries are what a composed daemon registers, so a new kind without a scenario fails by name
(:mod:`jamcore.testing.matrix.scenarios` says how to write one). For each first death: the daemon starts again once and the boundaries that
its start passes are noted; for each of those it starts in the same state again and is killed there. A further life then has everything as
it must be: the action is done once, nothing temporary is left, what others have is untouched, exports are sound, asking again in the same
words changes no row and no file, and in other words is refused.

Some kinds do something else for other rooms than a managed workspace of its own; those are scenarios of their own.

Run ``python -m jamcore.testing.crash_matrix [SCENARIO …]`` to see the table, with ``--write`` to keep it in docs/crash-matrix.md.
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

import anyio

from jamcore.system.files import Files
from jamcore.testing.crash import Lives
from jamcore.testing.crash_page import PAGE, write
from jamcore.testing.leftovers import left_in
from jamcore.testing.matrix.effects import between
from jamcore.testing.matrix.lives import OUTCOME, PASSED, REGISTERED, TRACED, ask, finish, make, prepare, start, trace
from jamcore.testing.matrix.rows import HEADER, Row
from jamcore.testing.matrix.scenario import Scenario
from jamcore.testing.matrix.scenarios import PLAYED, SCENARIOS
from jamcore.testing.operations_page import registered
from jamcore.testing.parked_world import SIBLING, Rooms, World, files_in, replace_tree
from jamcore.testing.sources import workspace_root

ASKED_AGAIN = 3
"""After every first death it is asked for again, and after every third second one, others at each first."""

Passing = tuple[str, int]
"""A boundary, and which time it is passed."""


class MatrixError(AssertionError):
    """A cell of the matrix is not as it must be."""


@dataclass(slots=True)
class Matrix:
    """The matrix over one world of each sort of rooms, below a directory of its own.

    Attributes:
        root: The directory.
        lives: Begins processes.
        registered: Every kind that a daemon registers, with its boundaries.
    """

    root: Path
    lives: Lives
    registered: dict[str, list[str]] = field(init=False)
    _sibling: dict[str, str] = field(init=False)
    _scenario: Scenario = field(init=False)
    _cell: str = ""

    def __post_init__(self) -> None:
        """Make the usual world, to see what a daemon of it registers."""
        self._bring_made(Rooms.MANAGED)
        self.registered = json.loads((self.root / REGISTERED).read_text())

    @property
    def world(self) -> World:
        """The world, which is always at the same path."""
        return World(self.root / "world")

    def without_scenario(self) -> list[str]:
        """Return the kinds that nobody has described."""
        return sorted(self.registered.keys() - SCENARIOS.keys())

    def rows(self, name: str, most_again: int | None = None) -> Iterator[Row]:
        """Play a scenario, one first death after the other.

        Args:
            name: Which.
            most_again: At most so many second deaths for each first, drawn so that one kind's come to every boundary; ``None``: all.

        Raises:
            MatrixError: A cell is not as it must be; the message names it and says what its life said.
        """
        self._prepare(name)
        for number, (point, count) in enumerate(self._passed_by_asking()):
            yield self._first_death(point, count, number, most_again)

    def effects(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Return the effects of one whole run of a scenario, by the boundary that follows them."""
        self._prepare(name)
        (self.root / TRACED).unlink(missing_ok=True)
        self._live(0, trace, self.world.root, name)
        return between((self.root / TRACED).read_text().splitlines(), self._scenario.kind)

    def _prepare(self, name: str) -> None:
        self._scenario = PLAYED[name]
        self._bring_made(self._scenario.rooms)
        self._cell = f"{name}, being prepared"
        self._live(0, prepare, self.world.root, name)
        self._keep("prepared")
        self._sibling = self._of_sibling()

    def _bring_made(self, rooms: Rooms) -> None:
        """Have the world with rooms of a sort, as it was when it was made: when it is asked for first."""
        made = f"made {rooms}"
        self._cell = f"the world of a {rooms}"
        if (self.root / made).exists():
            self._bring_back(made)
        else:
            if self.world.root.exists():
                Files().remove_tree(self.world.root)
            self.world.root.mkdir()
            self._live(0, make, self.world.root, rooms)
            self._keep(made)

    def _passed_by_asking(self) -> list[Passing]:
        """Return every boundary of one whole run, which nobody kills; what the request does after the action is not its own."""
        scenario = self._scenario
        self._cell = f"{scenario.name}, without a death"
        self._noting()
        self._live(0, ask, self.world.root, scenario.name, "", 1)
        whole = self._passed()
        first, last = f"{scenario.kind}.begun", f"{scenario.kind}.ended"
        missing = {*self.registered[scenario.kind], *scenario.inner} - set(whole)
        if missing:
            raise MatrixError(f"{scenario.name}: a run does not pass {sorted(missing)}")
        self._finished()
        return numbered(whole)[whole.index(first) if first in whole else 0 : whole.index(last) + 1]

    def _first_death(self, point: str, count: int, turn: int, most_again: int | None) -> Row:
        name = self._scenario.name
        self._bring_back("prepared")
        self._cell = f"{name} killed at {point} ({count})"
        self._live(-signal.SIGKILL, ask, self.world.root, name, point, count)
        self._holds()
        self._keep("died")
        self._noting()
        self._live(0, start, self.world.root, "", 1)
        again = drawn(numbered(self._passed()), most_again, turn)
        outcomes = {self._finished()}
        for nth, (second, number) in enumerate(again):
            self._bring_back("died")
            self._cell = f"{name} killed at {point} ({count}), then at {second} ({number})"
            self._live(-signal.SIGKILL, start, self.world.root, second, number)
            self._holds()
            outcomes.add(self._finished(again=(turn + nth) % ASKED_AGAIN == 0))
        return Row(point if count == 1 else f"{point} ({count})", len(again), frozenset(outcomes))

    def _finished(self, *, again: bool = True) -> str:
        """Live once more and require that all is well, with ``again`` also when it is asked for again; return what came of the action."""
        self._live(0, finish, self.world.root, self._scenario.name, again)
        self._holds()
        if left := left_in(self.world.app):
            raise MatrixError(f"{self._cell}: left behind: {left}")
        if self._of_sibling() != self._sibling:
            raise MatrixError(f"{self._cell}: the other room was touched")
        return (self.root / OUTCOME).read_text().strip()

    def _holds(self) -> None:
        try:
            self._scenario.holds(self.world)
        except AssertionError as error:
            raise MatrixError(f"{self._cell}: {error}") from error

    def _of_sibling(self) -> dict[str, str]:
        """Return what is the other room's alone: who shares a sandbox has its files alone."""
        host = {} if self._scenario.rooms is Rooms.SHARED else self.world.host_digest(SIBLING)
        return host | files_in(self.world.work(SIBLING))

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
    parser.add_argument("scenario", nargs="*", help="which scenarios, by the names that the page has; all by default")
    parser.add_argument("--again", type=int, metavar="N", help="at most N second deaths for each first; all by default")
    parser.add_argument("--write", action="store_true", help=f"keep what came of each scenario in {PAGE}")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="jam-") as directory:
        matrix = Matrix(Path(directory), Lives())
        for name in chosen.scenario or sorted(PLAYED):
            print(f"\n## {name}\n", *HEADER, sep="\n", flush=True)
            rows = []
            for row in matrix.rows(name, chosen.again):
                print(row.line(), flush=True)
                rows.append(row)
            if chosen.write:
                write(workspace_root(Path.cwd()), anyio.run(registered), {name: rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
