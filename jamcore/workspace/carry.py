"""Copies a tree that an agent could write to a new place, and leaves the old one as it is (CONT-9).

The tree is walked by descriptor and no link is followed. What is neither a file, a directory nor a link stays behind and is counted.
Another file system is not entered. A copy has its name only when it is whole, so doing it again finds it or begins anew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jamcore.system.files import Files

MOST_NAMES = 2_000_000
"""A work tree with the dependencies of several programs has some hundred thousand."""
MOST_BYTES = 200 << 30
DEEPEST = 256
_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_RIGHTS = 0o777


class TreeTooLargeError(Exception):
    """The tree is larger than any that is copied."""


@dataclass(slots=True)
class Carried:
    """What was copied, and how many names were not: sockets, devices, pipes, what may not be read."""

    names: int = 0
    bytes: int = 0
    left: int = 0


def carry(source: Path, target: Path, *, files: Files, alive: Callable[[], None]) -> Carried | None:
    """Copy a file or a tree durably; ``None`` when the source is not there, or the target is there already and holds something.

    Args:
        source: What is copied. Nothing of it is changed.
        target: Where to; its parent exists. An empty directory of this name is replaced.
        files: For what must be durable.
        alive: Called all the time; it may raise.

    Raises:
        TreeTooLargeError: The tree is larger than any that is copied; nothing is left of the attempt.
        OSError: The disk failed. A half copy is removed by the next attempt.
    """
    if not os.path.lexists(source) or _holds_something(target):
        return None
    partial = target.with_name(f".{target.name}.carried")
    _remove(partial, files)
    done = Carried()
    with _opened(source.parent) as old, _opened(partial.parent) as new:
        device = os.stat(source.name, dir_fd=old, follow_symlinks=False).st_dev
        try:
            _Copy(done, alive, device).one(old, os.fsencode(source.name), new, os.fsencode(partial.name), 0)
        except TreeTooLargeError:
            _remove(partial, files)
            raise
    os.sync()  # one for all of them: a work tree has more files than can be synced one by one
    files.rename(partial, target)
    return done


def _remove(partial: Path, files: Files) -> None:
    if partial.is_dir() and not partial.is_symlink():
        files.remove_tree(partial)
    else:
        partial.unlink(missing_ok=True)


def _holds_something(target: Path) -> bool:
    if not os.path.lexists(target):
        return False
    return not target.is_dir() or target.is_symlink() or any(target.iterdir())


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Copy:
    """One copy under way: ``old`` and ``new`` are descriptors of the directories that hold the two names."""

    def __init__(self, done: Carried, alive: Callable[[], None], device: int) -> None:
        self._done = done
        self._alive = alive
        self._device = device

    def one(self, old: int, name: bytes, new: int, called: bytes, depth: int) -> None:
        """Copy one name, whatever it is."""
        self._alive()
        self._done.names += 1
        self._require_room(depth)
        seen = os.stat(name, dir_fd=old, follow_symlinks=False)
        if stat.S_ISDIR(seen.st_mode) and seen.st_dev == self._device:
            self._directory(old, name, new, called, depth)
        elif stat.S_ISLNK(seen.st_mode):
            os.symlink(os.readlink(name, dir_fd=old), called, dir_fd=new)
        elif not stat.S_ISREG(seen.st_mode) or not self._file(old, name, new, called):
            self._leave()
            return
        os.utime(called, ns=(seen.st_atime_ns, seen.st_mtime_ns), dir_fd=new, follow_symlinks=False)

    def _require_room(self, depth: int = 0) -> None:
        if self._done.names > MOST_NAMES or self._done.bytes > MOST_BYTES or depth > DEEPEST:
            raise TreeTooLargeError(f"more than {MOST_NAMES} names, {MOST_BYTES >> 30} GiB or {DEEPEST} levels")

    def _leave(self) -> None:
        self._done.names -= 1
        self._done.left += 1

    def _directory(self, old: int, name: bytes, new: int, called: bytes, depth: int) -> None:
        """Copy a directory. Its owner may always write in the copy: a half one could not be removed otherwise."""
        os.mkdir(called, 0o700, dir_fd=new)
        below_old = below_new = -1
        try:
            below_new = os.open(called, _DIRECTORY, dir_fd=new)
            try:
                below_old = os.open(name, _DIRECTORY, dir_fd=old)
            except PermissionError:
                self._leave()
                return
            for inner in _names(below_old):
                self.one(below_old, inner, below_new, inner, depth + 1)
            os.fchmod(below_new, stat.S_IMODE(os.fstat(below_old).st_mode) & _RIGHTS | 0o700)
        finally:
            for descriptor in (below_old, below_new):
                if descriptor >= 0:
                    os.close(descriptor)

    def _file(self, old: int, name: bytes, new: int, called: bytes) -> bool:
        """Copy a regular file and say whether it could be read."""
        try:
            source = os.open(name, _FILE, dir_fd=old)
        except PermissionError:
            return False
        try:
            found = os.fstat(source)
            target = os.open(called, _NEW, 0o600, dir_fd=new)
            try:
                while chunk := os.read(source, _CHUNK):
                    self._alive()
                    self._done.bytes += len(chunk)
                    self._require_room()  # also within one file: a hole costs its guest nothing
                    _write(target, chunk)
                os.fchmod(target, stat.S_IMODE(found.st_mode) & _RIGHTS)
            finally:
                os.close(target)
        finally:
            os.close(source)
        return True


def _names(directory: int) -> list[bytes]:
    with os.scandir(directory) as entries:
        return sorted(os.fsencode(entry.name) for entry in entries)


def _write(target: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(target, view) :]
