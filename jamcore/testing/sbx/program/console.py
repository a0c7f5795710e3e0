"""Output, errors and questions of the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from jamcore.testing.sbx.behaviours import Gates

NO_TERMINAL = "stdin is not a terminal; use --force to skip confirmation"
GAP = "   "


class Failure(Exception):  # noqa: N818 - how the program ends
    """The command failed; what is printed, which command is proposed, and the exit code."""

    def __init__(self, text: str, hint: str = "", code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.hint = hint
        self.code = code


class Console:
    """stdout is kept until the end, so that a fault may spoil it as a whole; a question shows it first."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.kept: list[str] = []

    def print(self, *lines: str) -> None:
        """Print lines on stdout."""
        self.kept += [f"{line}\n" for line in lines]

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Print rows in columns."""
        every = [list(row) for row in rows]
        widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))]
        for row in every:
            self.print(GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        self.say(f"WARN: {text}")

    @staticmethod
    def say(text: str) -> None:
        """Print a line on stderr."""
        with suppress(OSError):
            os.write(2, f"{text}\n".encode())

    def fail(self, failure: Failure) -> int:
        """Print why the command failed, as this version does."""
        lower = self.gates("errors.lower-case")
        self.say(f"{'error' if lower else 'ERROR'}: {failure.text}")
        if failure.hint and lower:
            self.say(f"  try: {failure.hint}")
        elif failure.hint == "sbx login":
            self.say("Sign in with: sbx login")
        return failure.code

    def flush(self, *, half: bool = False) -> None:
        """Write what was kept; half of it for a fault."""
        data = "".join(self.kept).encode()
        self.kept.clear()
        write(1, data[: len(data) // 2] if half else data)

    def ask(self, question: str) -> bool:
        """Ask on the terminal; without one there is an end of the input, which is no.

        The question stands on stdout, and an answer to it is read from stdin, whatever it is.
        """
        self.kept.append(question)
        self.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            self.print("")
        return answer.strip().lower() in ("y", "yes")

    def confirm(self, question: str, *, force: bool) -> None:
        """Ask before something that cannot be undone.

        Raises:
            Failure: There is no terminal, or the answer is no.
        """
        if force:
            return
        if not os.isatty(0):
            raise Failure(NO_TERMINAL)
        if not self.ask(question):
            raise Failure("cancelled")


def write(descriptor: int, data: bytes) -> None:
    """Write everything."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
