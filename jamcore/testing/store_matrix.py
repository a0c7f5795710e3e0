"""Lets each call of the store that a journaled action makes fail once, and requires that the action comes to its end all the same (WS-12).

Actions and world are those of :mod:`jamcore.testing.crash_matrix`, and so is what must be true in the end. In between, the request is
answered with success or with a typed error, and the daemon lives on; then it is asked again in the same life, or its next life begins.
An action that was given up stays so, and the same can be asked for under another id.

Run ``python -m jamcore.testing.store_matrix [KIND …]`` to see the table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jamcore.testing.crash import Lives
from jamcore.testing.matrix.faulty_lives import ANSWERED, CALLED, count, end, fail
from jamcore.testing.matrix.lives import OUTCOME
from jamcore.testing.matrix.play import Play
from jamcore.testing.matrix.store_faults import ONCE, Call, Fault

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """One call that fails: after which boundary, what it was, what it met, what the request was answered and what came of the action."""

    kind: str
    after: str
    what: str
    fault: Fault
    answer: str
    outcome: str

    def line(self) -> str:
        """Return it as a line of a Markdown table."""
        after = self.after.removeprefix(self.kind + ".")
        return f"| {self.kind} | {after} | {self.what} | {self.fault} | {self.answer} | {self.outcome} |"


HEADER = ("| action | after | call | fault | answer | what came of it |", "|---|---|---|---|---|---|")


class StoreMatrix:
    """The matrix over one world."""

    def __init__(self, play: Play) -> None:
        self.play = play

    def cells(self, kind: str, most: int | None = None) -> Iterator[Cell]:
        """Play a kind, one call after the other; at most ``most`` of them, drawn evenly, and each lost commit of a step's own besides.

        Such a commit is where an action may be given up that has taken effect.

        Raises:
            PlayError: A cell is not as it must be; the message names it and says what its life said.
        """
        self.play.prepare(kind)
        faults = due(self.calls(kind))
        chosen = drawn(faults, most)
        own = [each for each in faults if each[2] is Fault.LOST and each[1].after.endswith(".intended") and each not in chosen]
        for turn, (number, call, fault) in enumerate([*chosen, *own]):
            yield self.cell(kind, number, call, fault, again=turn % 3 > 0)

    def calls(self, kind: str) -> list[Call]:
        """Return every call of one whole run, of which none fails."""
        self.play.cell = f"{kind}, without a fault"
        self.play.live(count, self.play.world.root, kind)
        return [Call(*call) for call in json.loads(self.play.said(CALLED))]

    def cell(self, kind: str, number: int, call: Call, fault: Fault, *, again: bool) -> Cell:
        """Play one call that fails; with ``again`` the request is repeated in the same life, otherwise in the next."""
        play = self.play
        play.bring_back("prepared")
        play.cell = f"{kind}: {fault} at call {number} after {call.after or 'nothing'}: {call.what}"
        play.live(fail, play.world.root, kind, number, fault, again)
        play.require_held(kind)
        play.live(end, play.world.root, kind, fault is Fault.LOST)
        play.require_tidy()
        return Cell(kind, call.after, call.what, fault, play.said(ANSWERED), play.said(OUTCOME))


def drawn(found: Sequence[T], most: int | None) -> Sequence[T]:
    """Return at most ``most`` of a list, evenly spread, and not all of them at the same place of a pattern in it."""
    if most is None or len(found) <= most:
        return found
    return [found[(number * len(found) // most + number) % len(found)] for number in range(most)]


def due(calls: list[Call]) -> list[tuple[int, Call, Fault]]:
    """Return which call fails how: each in one of the ways that any can, and a commit of what was written in the one that only it can."""
    found = []
    for number, call in enumerate(calls, 1):
        found.append((number, call, ONCE[number % len(ONCE)]))
        if call.writes:
            found.append((number, call, Fault.LOST))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Play the matrix and print it."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.store_matrix", description="Let each call of the store fail.")
    parser.add_argument("kind", nargs="*", help="which journaled kinds; all by default")
    parser.add_argument("--most", type=int, metavar="N", help="at most N calls of each; all by default")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="jam-") as directory:
        matrix = StoreMatrix(Play(Path(directory), Lives()))
        print(*HEADER, sep="\n", flush=True)
        for kind in chosen.kind or sorted(matrix.play.registered):
            for cell in matrix.cells(kind, chosen.most):
                print(cell.line(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
