"""How far a download by pip is, from what pip prints for programs (``Progress 1048576 of 98123456``) or from what lies on the disk."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RAW_SINCE = (24, 1)
"""The first pip that prints progress for programs; an older one refuses the option."""
LINE_BYTES = 200
"""A line of progress is shorter; of anything longer only the end is kept while it has no end."""

_PROGRESS = re.compile(rb"Progress (\d{1,18}) of (\d{1,18})")


def progress_option(installed: str | None = None) -> str:
    """Return the value of ``--progress-bar`` for the pip that this interpreter has; ``off`` where it can tell nothing."""
    try:
        words = (installed or version("pip")).split(".")
        known = (int(words[0]), int(words[1]))
    except (PackageNotFoundError, ValueError, IndexError):
        return "off"
    return "raw" if known >= RAW_SINCE else "off"


class ProgressReader:
    """Reads pip's output as it comes and tells bytes and total of the file that is being downloaded."""

    def __init__(self, told: Callable[[int, int], None]) -> None:
        self._told = told
        self._open = b""

    def feed(self, chunk: bytes) -> None:
        """Take more output."""
        *whole, rest = (self._open + chunk).split(b"\n")
        self._open = rest[-LINE_BYTES:]
        found = [match for line in whole if (match := _PROGRESS.fullmatch(line.strip()))]
        if found:
            self._told(int(found[-1][1]), int(found[-1][2]))


def bytes_below(directory: Path) -> int:
    """Return how many bytes the files below a directory have: the progress of a pip that tells nothing. What goes away has none."""
    found = 0
    for at, _, names in os.walk(directory):
        for name in names:
            try:
                found += (Path(at) / name).lstat().st_size
            except OSError:
                continue
    return found
