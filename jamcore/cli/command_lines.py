"""Which lines of a command's output are shown, while it runs and when it has ended. Pure: text in, lines out."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

OUTPUT_LINES = 8
"""Lines of one piece of output that are shown: its end, where the error is. All of it is in the transcript."""
OPEN_CHARACTERS = 4096
"""Of a line that has not ended yet, so much of its end is kept."""


class Lines(NamedTuple):
    """What to show: ``hidden`` lines were left out before ``shown``. ``earlier``: they come from before what was shown last."""

    hidden: int
    shown: tuple[str, ...]
    earlier: bool = False


class CommandLines:
    """The output of the commands of one room, each known by its item."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._taken: dict[str, _Taken] = {}
        self._held: dict[str, str] = {}

    def more(self, item: str, text: str) -> Lines:
        """Take output as it comes and return the lines that have become whole; the rest waits for its end."""
        return _end_of(self._whole_of(item, text))

    def hold(self, item: str, text: str) -> None:
        """Take output that came before anybody looked: if the command has ended since, its end says more."""
        self._held[item] = self._held.get(item, "") + text

    def release(self) -> Lines:
        """Return the end of what is held of the commands that still run; from here on their output is shown as it comes."""
        lines = [line for item, text in self._held.items() for line in self._whole_of(item, text)]
        self._held.clear()
        return _end_of(lines)

    def rest(self, item: str, output: str) -> tuple[Lines, ...]:
        """Return what is left to show of a command that ended with ``output``: all of it, or what did not come before.

        A program may not tell what a command printed in its first moment: that beginning comes last.
        """
        self._held.pop(item, None)
        taken, left = self._taken.pop(item, None), self._open.pop(item, "")
        rest = output if taken is None else left + taken.rest_of(output)
        beginning = "" if taken is None else taken.beginning_of(output)
        found = (_end_of(rest.rstrip().splitlines()), _end_of(beginning.splitlines())._replace(earlier=True))
        return tuple(lines for lines in found if lines.shown)

    def clear(self) -> None:
        """Forget commands that will not end any more."""
        self._open.clear()
        self._taken.clear()
        self._held.clear()

    def _whole_of(self, item: str, text: str) -> list[str]:
        self._taken.setdefault(item, _Taken()).add(text)
        *whole, rest = (self._open.get(item, "") + text).split("\n")
        self._open[item] = rest[-OPEN_CHARACTERS:]
        return whole


class _Taken:
    """What came of one command's output, by length and digest: a provider may tell another text, or a cut one, at the end."""

    def __init__(self) -> None:
        self._length = 0
        self._digest = sha256()

    def add(self, text: str) -> None:
        """Take more."""
        self._length += len(text)
        self._digest.update(text.encode(errors="surrogatepass"))

    def rest_of(self, output: str) -> str:
        """Return what ``output`` has beyond what came; nothing when it is no continuation of that."""
        return output[self._length :] if self._is(output[: self._length]) else ""

    def beginning_of(self, output: str) -> str:
        """Return what ``output`` has before what came, when it ends with that; nothing when that is all of it."""
        place = len(output) - self._length
        return output[:place] if place > 0 and not self._is(output[: self._length]) and self._is(output[place:]) else ""

    def _is(self, text: str) -> bool:
        return sha256(text.encode(errors="surrogatepass")).digest() == self._digest.digest()


def _end_of(lines: list[str]) -> Lines:
    hidden = max(0, len(lines) - OUTPUT_LINES)
    return Lines(hidden, tuple(last_state(line) for line in lines[hidden:]))


def last_state(line: str) -> str:
    """Return what a terminal would show in the end of a line that a program wrote again and again, as progress bars are."""
    return line.rstrip("\r").rpartition("\r")[2]
