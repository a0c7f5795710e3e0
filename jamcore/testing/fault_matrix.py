"""Fails every file-system call of every journaled kind, one at a time, and what a full or read-only disk fails from one on (WS-12).

Actions and world are those of :mod:`jamcore.testing.crash_matrix`, and so is what must be true in the end. The calls are those of a whole
run. While one of them fails the request is answered with success or a typed error, and others are answered too. Asked for again in the
same words, of the same daemon or of the next, the action comes to its end; where it has ended without success, it is asked for anew.

Run ``python -m jamcore.testing.fault_matrix [KIND …]`` to see the table.
"""

from __future__ import annotations

import argparse
import tempfile
from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jamcore.testing.crash import Lives
from jamcore.testing.matrix.fault_lives import ANSWERED, CALLED, Answers, end, fail, watch
from jamcore.testing.matrix.faults import ERRORS, READING, STATES, Call, Fault
from jamcore.testing.matrix.lives import finish
from jamcore.testing.matrix.play import Play, PlayError
from jamcore.testing.store_matrix import drawn

DELAY_S = 0.01
"""How late each call of a slow disk is."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault, and how whoever asked was answered."""

    kind: str
    fault: Fault
    answers: Answers

    def line(self) -> str:
        """Return it as a line of a Markdown table."""
        answers = self.answers
        cells = (self.kind, self.fault.call.words(), self.fault.words(), answers.first, answers.again, answers.anew)
        return f"| {' | '.join(cells)} |"


HEADER = ("| action | call | fault | answer | asked again | asked anew |", "|---|---|---|---|---|---|")


class FaultMatrix:
    """The matrix over one world."""

    def __init__(self, play: Play) -> None:
        self.play = play

    def cells(self, kind: str, most: int | None = None) -> Iterator[Callable[[], Cell]]:
        """Yield what plays one cell of a kind: of at most ``most`` calls that fail alone and half as many failing disks, drawn evenly.

        Raises:
            PlayError: A cell is not as it must be; the message names it and says what its life said.
        """
        self.play.prepare(kind)
        calls = self.calls(kind)
        for number, call in enumerate(chosen(calls, most)):
            errors = ERRORS[call.does]
            yield partial(self.cell, kind, Fault(call, error=errors[number % len(errors)]))
        changes = [call for call in calls if call.does not in READING]
        for number, call in enumerate(chosen(changes, most and most // 2)):
            yield partial(self.cell, kind, Fault(call, state=list(STATES)[number % len(STATES)]))

    def calls(self, kind: str, delay_s: float = 0.0) -> list[Call]:
        """Return every call of one whole run, of which none fails; each may be late."""
        self.play.cell = f"{kind}, without a fault"
        self.play.live(watch, self.play.world.root, kind, delay_s)
        rows = [line.split("\t") for line in self.play.said(CALLED).splitlines()]
        return [Call(name, does, literal_eval(path), int(count)) for name, does, path, count in rows]

    def cell(self, kind: str, fault: Fault) -> Cell:
        """Play one fault."""
        play = self.play
        play.bring_back("prepared")
        play.cell = f"{kind}: {fault.words()} at {fault.call.words()}"
        play.live(fail, play.world.root, kind, fault)
        answers = self._answers()
        play.cell += f", answered {answers}"
        play.live(end, play.world.root, kind)
        play.require_tidy()
        return Cell(kind, fault, answers)

    def slow(self, kind: str) -> int:
        """Play a kind on a disk whose every call is late, and return how many there were.

        Raises:
            PlayError: Something else came of it than otherwise.
        """
        self.play.prepare(kind)
        calls = self.calls(kind, DELAY_S)
        self.play.require_held(kind)
        self.play.live(finish, self.play.world.root, kind, True)
        self.play.require_tidy()
        return len(calls)

    def _answers(self) -> Answers:
        return Answers.model_validate_json(self.play.said(ANSWERED))


def chosen(calls: list[Call], most: int | None) -> Sequence[Call]:
    """Return at most ``most`` calls, evenly drawn from those that are made on something else than any before; ``None``: all."""
    if most is None:
        return calls
    return drawn([call for call in calls if call.count == 1], most)


def main(arguments: list[str] | None = None) -> int:
    """Play the matrix and print it, also what is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.fault_matrix", description="Fail every file-system call.")
    parser.add_argument("kind", nargs="*", help="which journaled kinds; all by default")
    parser.add_argument("--most", type=int, metavar="N", help="at most N calls of each; all by default")
    wanted = parser.parse_args(arguments)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="jam-") as directory:
        matrix = FaultMatrix(Play(Path(directory), Lives()))
        print(*HEADER, sep="\n", flush=True)
        for kind in wanted.kind or sorted(matrix.play.registered):
            for cell in matrix.cells(kind, wanted.most):
                try:
                    print(cell().line(), flush=True)
                except PlayError as error:
                    failed += 1
                    print(f"\n{error}\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
