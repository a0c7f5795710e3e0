"""What is shown while the checks run: which of them has finished, and what came of it. The report itself comes at the end."""

from __future__ import annotations

from typing import TextIO

from jamcore.cli.streams import writing
from jamcore.cli.text import safe_line

CHECK_CHARACTERS = 90
_CLEAR = "\r\x1b[K"


class Progress:
    """Tells of each finished check on standard error: on a terminal in one line that changes, elsewhere in a line each.

    A real program's suite runs for many minutes, and one that says nothing looks as if it hung.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._finished = 0
        self.total = 0
        """How many checks were collected."""

    def finished(self, outcome: str, check: str) -> None:
        """Tell of a check."""
        self._finished += 1
        line = f"[{self._finished}/{self.total}] {outcome:<13} {safe_line(check, CHECK_CHARACTERS)}"
        with writing():
            self._stream.write(f"{_CLEAR}{line}" if self._live else f"{line}\n")
            self._stream.flush()

    def over(self) -> None:
        """Take the line away: the report comes."""
        if self._live and self._finished:
            with writing():
                self._stream.write(_CLEAR)
                self._stream.flush()
