"""Removes what an interrupted write left under a temporary name, at start-up: the daemon's lock says that nobody else is writing.

Only Jam's own directories are looked at, never a tree that a guest can write, and only names that Jam itself makes there. A pack without
a generation is the broker's to remove, an unfinished installation the next installation's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar

from jamcore.continuity.resuming.restore import STAGING
from jamcore.domain import layout
from jamcore.domain.errors import FaultError, JamError
from jamcore.system.files import TEMPORARY, Files

WRITING = TEMPORARY
"""A file on its way to its name (:meth:`jamcore.system.files.Files.replacing`)."""
PACKAGE = r"\.[0-9a-f-]{36}\.partial"
"""A change request or an export that was not published; making it again makes it anew."""
SNAPSHOT = r"index-.+"
"""The index of one snapshot of a work tree, or of one change on its way to a branch."""
LOOK = r"removal-.+"
"""What git needs to look into somebody's repository before its tree is removed."""
GIT_LOCK = r".+\.lock"
"""Git's lock of a reference: one that was left would refuse every later change of it."""
GIT_OBJECT = r"tmp_(?:obj|pack|idx)_.+"
"""An object that git did not finish."""

STAGED = STAGING
"""Files of a restore that was cut. They are never taken up again: a restore writes its own, also the one that repeats a half done one."""

_REVIEW = f"{layout.HOSTS}/*/recovery/review/*.git"
RULES: tuple[tuple[str, str], ...] = (
    ("", WRITING),
    ("cfg", WRITING),
    (layout.OWNERS, WRITING),
    (layout.PENDING_CLEANUPS, WRITING),
    (layout.CREDENTIALS, WRITING),
    (f"{layout.ENGINES}/*", WRITING),
    (layout.CHANGES, f"{PACKAGE}|{SNAPSHOT}|{LOOK}"),
    (layout.EXPORTS, PACKAGE),
    (f"{layout.HOSTS}/*", WRITING),
    (f"{layout.HOSTS}/*/recovery", f"{WRITING}|{STAGED}"),
    (f"{layout.HOSTS}/*/recovery/checkpoints/*", WRITING),
    (_REVIEW, f"{SNAPSHOT}|{GIT_LOCK}"),
    (f"{_REVIEW}/info", WRITING),
    (f"{_REVIEW}/refs/jam", GIT_LOCK),
    (f"{_REVIEW}/objects", GIT_OBJECT),
    (f"{_REVIEW}/objects/??", GIT_OBJECT),
    (f"{_REVIEW}/objects/pack", GIT_OBJECT),
)
"""Where, as a pattern of directories, and which names there."""


@dataclass(eq=False)
class SweepFailedError(FaultError):
    """A temporary file of an interrupted write could not be removed; it harms nothing but takes room."""

    code: ClassVar[str] = "startup.sweep_failed"
    hint: ClassVar[str] = "Look at the named file and remove it by hand if you wish."

    path: str
    problem: str


def sweep(app: Path, files: Files) -> tuple[tuple[object, JamError], ...]:
    """Remove every leftover and return those that could not be removed, with why. Blocking: call it in a thread."""
    failed: list[tuple[object, JamError]] = []
    for path in tuple(_leftovers(app)):
        try:
            if path.is_dir() and not path.is_symlink():
                files.remove_tree(path)
            else:
                files.unlink(path)
        except OSError as error:
            where = str(path.relative_to(app))
            failed.append((where, SweepFailedError(path=where, problem=error.strerror or str(error))))
    return tuple(failed)


@dataclass
class _Place:
    """A directory that rules speak of: the names that are left over there, and the places below it by a name or a pattern."""

    names: re.Pattern[str] | None = None
    below: dict[str, _Place] = field(default_factory=dict)


def _places() -> _Place:
    """Return the rules as one tree, so that each directory is read once: there may be ten thousand hosts."""
    top = _Place()
    for where, names in RULES:
        place = top
        for part in where.split("/") if where else ():
            place = place.below.setdefault(part, _Place())
        place.names = re.compile(names)
    return top


def _leftovers(app: Path) -> Iterator[Path]:
    yield from (Path(found) for found in _found(str(app), _places()))


def _found(directory: str, place: _Place) -> Iterator[str]:
    """Yield what is left over in a directory and below; one that is not there, or is none, has nothing."""
    patterns = {part: below for part, below in place.below.items() if set(part) & set("*?")}
    try:
        entries = list(os.scandir(directory)) if place.names or patterns else []
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if place.names and place.names.fullmatch(entry.name):
            yield entry.path
        for pattern, below in patterns.items():
            if fnmatchcase(entry.name, pattern) and entry.is_dir(follow_symlinks=False):
                yield from _found(entry.path, below)
    for part, below in place.below.items():
        if part not in patterns:
            yield from _found(f"{directory}/{part}", below)
