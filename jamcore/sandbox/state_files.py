"""Directories and small files inside a tree that a guest can write, made from the host without following anything in it.

A guest may replace any name below its state root by a symbolic link at any moment. So every component is opened by descriptor, relative
to the one above, and a link is refused, whatever it points to.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jamcore.domain.provider_rules import relative_path
from jamcore.sandbox.specification import UnsafePathError
from jamcore.system.files import PRIVATE_DIRECTORY, PRIVATE_FILE, Files

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StateTree:
    """A host directory that is, or will be, mounted writable into a guest. What is made here belongs to the directory's owner."""

    def __init__(self, root: Path, *, files: Files) -> None:
        self._root = root
        self._files = files

    def make_directory(self, relative: str) -> None:
        """Make a private directory with its parents; existing ones stay as they are. Not durable: every preparation makes it again.

        Raises:
            UnsafePathError: A component is a symbolic link or no directory.
        """
        with self._opened(relative):
            return

    def write_file(self, relative: str, data: bytes) -> None:
        """Replace a file atomically and durably; a link of that name is replaced, never followed.

        What a killed preparation left of this very file goes first: it is known by a name that nothing else has, so that no name of a
        guest's has to be guessed at.

        Raises:
            UnsafePathError: A parent is a symbolic link, or a directory has the name, or the one that Jam writes under.
            OSError: The disk failed; the old file is untouched.
        """
        directory, _, name = relative.rpartition("/")
        with self._opened(directory) as parent:
            temporary = temporary_name(relative)
            self._remove_left(parent, temporary)
            if _holds(parent, name, data):
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, PRIVATE_FILE, dir_fd=parent)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    _give_to_owner(stream.fileno(), parent)
                    stream.write(data)
                    stream.flush()
                    self._files.sync(stream.fileno())
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException as error:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                if isinstance(error, IsADirectoryError):
                    raise UnsafePathError(path=f"{self._root}/{relative}", problem="a directory has this name") from error
                raise
            self._files.sync(parent)

    def _remove_left(self, parent: int, temporary: str) -> None:
        try:
            os.unlink(temporary, dir_fd=parent)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError) as error:
            raise UnsafePathError(
                path=f"{self._root}: {temporary}", problem="a directory has the name that Jam writes under"
            ) from error

    @contextmanager
    def _opened(self, relative: str) -> Iterator[int]:
        """Yield a descriptor of a directory below the root, made where it was missing."""
        if relative and not relative_path(relative):
            raise UnsafePathError(path=relative[:200], problem="not a plain relative path")
        current = self._open(str(self._root), None, str(self._root))
        try:
            for name in filter(None, relative.split("/")):
                below = self._enter(current, name, relative)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)

    def _enter(self, parent: int, name: str, relative: str) -> int:
        try:
            os.mkdir(name, PRIVATE_DIRECTORY, dir_fd=parent)
        except FileExistsError:
            return self._open(name, parent, relative)
        descriptor = self._open(name, parent, relative)
        _give_to_owner(descriptor, parent)
        return descriptor

    def _open(self, name: str, parent: int | None, relative: str) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=parent)
        except OSError as error:
            raise UnsafePathError(path=f"{self._root}/{relative}", problem=f"not a plain directory: {error.strerror}") from error


def temporary_name(relative: str) -> str:
    """Return the one name under which a file is written before it has its own: the same each time, so that it is found again."""
    return f".{relative.rpartition('/')[2]}.{hashlib.sha256(os.fsencode(relative)).hexdigest()[:8]}.tmp"


def _holds(parent: int, name: str, data: bytes) -> bool:
    """Whether the name is a plain file with exactly these bytes, so that a preparation that changes nothing writes nothing."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        return stat.S_ISREG(status.st_mode) and status.st_size == len(data) and os.read(descriptor, len(data) + 1) == data
    finally:
        os.close(descriptor)


def _give_to_owner(descriptor: int, parent: int) -> None:
    """When Jam runs as root, its guests do not: what is made for them belongs to whom the directory belongs."""
    owner = os.fstat(parent)
    mine = os.fstat(descriptor)
    if (owner.st_uid, owner.st_gid) != (mine.st_uid, mine.st_gid) and os.geteuid() == 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
