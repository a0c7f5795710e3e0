"""Looking at a tree that somebody else can write, by descriptor alone.

Each name is opened below the descriptor of its directory, symbolic links are never followed, and nothing is opened before it was seen to
be what is wanted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

Names = tuple[bytes, ...]
"""A path below a root, as raw names."""

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SwappedError(OSError):
    """A name stopped being what it was between the look and the opening."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A name in an open directory and what it was when looked at."""

    parent: int
    name: bytes
    path: Names
    stat: os.stat_result

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.stat.st_mode)

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.stat.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.stat.st_mode)


@contextmanager
def owned(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_root(path: str | os.PathLike[str]) -> int:
    """Open a root directory that Jam made; its last name may not be a link."""
    return os.open(path, DIRECTORY_FLAGS)


def open_directory(seen: Seen) -> int:
    """Open a directory that was seen.

    Raises:
        OSError: It is a link, something else, or gone.
    """
    return os.open(seen.name, DIRECTORY_FLAGS, dir_fd=seen.parent)


def open_file(seen: Seen) -> int:
    """Open a regular file that was seen.

    Raises:
        SwappedError: Another file has the name now.
        OSError: It is a link, gone or unreadable.
    """
    descriptor = os.open(seen.name, FILE_FLAGS, dir_fd=seen.parent)
    now = os.fstat(descriptor)
    if not stat.S_ISREG(now.st_mode) or (now.st_ino, now.st_dev) != (seen.stat.st_ino, seen.stat.st_dev):
        os.close(descriptor)
        raise SwappedError(f"{seen.name!r} was replaced while it was looked at")
    return descriptor


def reading(descriptor: int) -> Callable[[int, int], bytes]:
    """Return ``read(offset, count)`` of an open file; it gives fewer bytes at the end."""
    return lambda offset, count: os.pread(descriptor, count, offset)


@contextmanager
def opened_path(root: int, path: Names) -> Iterator[tuple[int, int]]:
    """Open a regular file below a root by its whole path and yield its descriptor and size.

    Raises:
        OSError: A directory on the way or the file is a link, something else, or gone.
    """
    with ExitStack() as stack:
        directory = root
        for name in path[:-1]:
            directory = stack.enter_context(owned(os.open(name, DIRECTORY_FLAGS, dir_fd=directory)))
        descriptor = stack.enter_context(owned(os.open(path[-1], FILE_FLAGS, dir_fd=directory)))
        now = os.fstat(descriptor)
        if not stat.S_ISREG(now.st_mode):
            raise SwappedError(f"{path[-1]!r} is no regular file")
        yield descriptor, now.st_size


def names_in(directory: int, at_most: int) -> list[bytes]:
    """Return the names in an open directory in order; one more than ``at_most`` at the most, so that a caller sees the excess."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in islice(entries, at_most + 1)]
    # No name has a slash, so all are encoded in one go: one by one is a tenth of what a checkpoint of thousands of files takes.
    return sorted(os.fsencode("/".join(names)).split(b"/")) if names else []


def status_of(parent: int, name: bytes) -> os.stat_result | None:
    """Look at one name without following it; ``None`` when it is not there."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def look(parent: int, name: bytes, path: Names) -> Seen | None:
    """Return a name in an open directory with what it is; ``None`` when it is not there."""
    status = status_of(parent, name)
    return Seen(parent, name, path, status) if status is not None else None


def shown(path: Names) -> str:
    """Return a path for a person: bytes that are not UTF-8 are escaped."""
    return b"/".join(path).decode("utf-8", "backslashreplace")
