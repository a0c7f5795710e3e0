"""How a patch reads on a terminal: its parts told apart, and what has no text said in words."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import NamedTuple

_MODES = MappingProxyType({"100644": "a file", "100755": "a program", "120000": "a symbolic link", "160000": "a submodule"})
_QUIET = ("index ", "--- ", "+++ ", "similarity ", "old mode ")


class DiffLine(NamedTuple):
    """One line to print and its style."""

    text: str
    style: str = ""


def diff_lines(patch: str) -> Iterator[DiffLine]:
    """Yield a patch's lines for a person.

    A header begins each file; git's own bookkeeping lines are dim; the bytes of a binary file are left out, and said so. A line of a
    hunk is never read as a header, whatever it says: hunks are counted by their own numbers.
    """
    old = new = 0
    binary = False
    for line in patch.splitlines():
        if old > 0 or new > 0:
            yield DiffLine(line, _hunk_style(line))
            kind = line[:1]
            old -= kind in ("", " ", "-")
            new -= kind in ("", " ", "+")
        elif line.startswith("diff --git "):
            binary = False
            yield DiffLine("")
            yield DiffLine(line.removeprefix("diff --git "), "bold")
        elif binary:
            continue
        elif line.startswith("@@ "):
            old, new = _counts(line)
            yield DiffLine(line, "cyan")
        elif line.startswith("GIT binary patch"):
            binary = True
            yield DiffLine("  (binary: not shown)", "yellow")
        elif line.startswith(("new file mode ", "deleted file mode ", "new mode ")):
            words, mode = line.rsplit(" ", 1)
            yield DiffLine(f"  {words}: {_MODES.get(mode, mode)}", "yellow")
        else:
            yield DiffLine(line, "dim" if line.startswith(_QUIET) else "")


def _hunk_style(line: str) -> str:
    return {"+": "green", "-": "red"}.get(line[:1], "")


def _counts(header: str) -> tuple[int, int]:
    """Read how many lines of each side a hunk has; a header of another form has none."""
    try:
        _, old, new, *_ = header.split(" ")
        return _count(old.removeprefix("-")), _count(new.removeprefix("+"))
    except ValueError:
        return 0, 0


def _count(part: str) -> int:
    _, comma, size = part.partition(",")
    return int(size) if comma else 1
