"""How much of the disk a tree takes, without following a link or entering another file system, whatever its depth.

One descriptor is open at a time: the way up is checked against the directory that the way down came from, so that a tree that somebody
else writes can neither lead out of itself nor use up descriptors.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from jamcore.system.trees import DIRECTORY_FLAGS, SwappedError, names_in

BLOCK = 512
"""What the kernel counts allocated room in, whatever the file system's own blocks are."""
MOST_NAMES = 10_000_000
"""Names of one directory; more are refused, not held in memory."""


class OtherFileSystemError(OSError):
    """Another file system is mounted in the tree, so what lies there is not the tree's own."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tree takes.

    Attributes:
        bytes: Allocated on the disk and freed by the tree's removal: a file that has names elsewhere too frees nothing.
        entries: Files, directories and links, itself included.
        state: Digest of every name with its kind, size and time of change, so that two looks at an unchanged tree are equal.
        whole: Everything was counted. Otherwise a bound was reached and there is more.
    """

    bytes: int = 0
    entries: int = 0
    state: str = ""
    whole: bool = True


def usage_of(parent: int, name: bytes, *, at_most: int | None = None, alive: Callable[[], None] = lambda: None) -> Usage | None:
    """Measure one name of an open directory with all below it; ``None`` when it is not there.

    Args:
        parent: The directory.
        name: A name in it; a link is measured itself.
        at_most: Entries that are looked at; the rest is left uncounted.
        alive: Called often; raises when the caller gave up.

    Raises:
        OtherFileSystemError: Something is mounted inside.
        OSError: Something cannot be read, or changed while it was looked at.
    """
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    walk = _Walk(status.st_dev, at_most, alive)
    walk.count(name, status)
    if stat.S_ISDIR(status.st_mode):
        walk.below(os.open(name, DIRECTORY_FLAGS, dir_fd=parent), status)
    return walk.usage()


def mounts_below(path: Path, *, table: Path = Path("/proc/self/mountinfo")) -> tuple[str, ...]:
    """Return what is mounted at or below a directory; a directory that is bound there from the same file system shows here alone."""
    above = os.fsencode(path.resolve())
    points = [_unescaped(line.split(b" ")[4]) for line in table.read_bytes().splitlines()]
    return tuple(os.fsdecode(point) for point in sorted(points) if point == above or point.startswith(above + b"/"))


@dataclass(slots=True)
class _Level:
    identity: tuple[int, int]
    names: list[bytes]


@dataclass(slots=True)
class _Walk:
    device: int
    at_most: int | None
    alive: Callable[[], None]
    allocated: int = 0
    entries: int = 0
    whole: bool = True
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    linked: dict[int, list[int]] = field(default_factory=dict)

    def count(self, name: bytes, status: os.stat_result) -> None:
        if status.st_dev != self.device:
            raise OtherFileSystemError(f"another file system is mounted at {name!r}")
        self.entries += 1
        directory = stat.S_ISDIR(status.st_mode)
        seen = (stat.S_IFMT(status.st_mode),) if directory else (status.st_mode, status.st_size, status.st_mtime_ns)
        self.digest.update(b"%d:%s%r" % (len(name), name, seen))
        if directory or status.st_nlink == 1:
            self.allocated += status.st_blocks * BLOCK
        else:
            self.linked.setdefault(status.st_ino, [0, status.st_nlink, status.st_blocks])[0] += 1

    def below(self, directory: int, status: os.stat_result) -> None:
        levels = [_Level((status.st_dev, status.st_ino), self._names(directory))]
        try:
            while levels:
                self.alive()
                if (child := self._next(directory, levels[-1])) is not None:
                    name, status = child
                    directory = _moved(directory, name, (status.st_dev, status.st_ino))
                    levels.append(_Level((status.st_dev, status.st_ino), self._names(directory)))
                    continue
                self.digest.update(b"/")
                levels.pop()
                if levels:
                    directory = _moved(directory, b"..", levels[-1].identity)
        finally:
            os.close(directory)

    def usage(self) -> Usage:
        inside = sum(blocks * BLOCK for seen, links, blocks in self.linked.values() if seen == links)
        return Usage(self.allocated + inside, self.entries, self.digest.hexdigest(), self.whole)

    def _next(self, directory: int, level: _Level) -> tuple[bytes, os.stat_result] | None:
        """Count names until one is a directory, and return that."""
        while level.names:
            if self.at_most is not None and self.entries >= self.at_most:
                self.whole = False
                level.names.clear()
                return None
            name = level.names.pop()
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            self.count(name, status)
            if stat.S_ISDIR(status.st_mode):
                return name, status
        return None

    def _names(self, directory: int) -> list[bytes]:
        bound = MOST_NAMES if self.at_most is None else max(1, self.at_most - self.entries)
        names = names_in(directory, bound)
        if len(names) > bound:
            if self.at_most is None:
                raise OSError(f"a directory has more than {MOST_NAMES} names")
            self.whole = False
            names = names[:bound]
        return names[::-1]


def _moved(directory: int, name: bytes, expected: tuple[int, int]) -> int:
    """Open a neighbour of an open directory, close that, and require that it is the expected one."""
    other = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
    now = os.fstat(other)
    if (now.st_dev, now.st_ino) != expected:
        os.close(other)
        raise SwappedError(f"{name!r} was replaced while it was looked at")
    os.close(directory)
    return other


def _unescaped(text: bytes) -> bytes:
    """Undo how mountinfo writes a space, a tab, a newline and a backslash."""
    for code, plain in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        text = text.replace(code, plain)
    return text
