"""Durable, private files: a temporary name, fsync, rename, fsync of the directory.

Every write that must survive a power cut goes through :class:`Files`, so that tests can fail or count each effect.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar

from jamcore.domain.errors import FaultError, JamError, RefusalError
from jamcore.system.removal import remove_tree
from jamcore.system.trees import owned

TEMPORARY = r"\..+\.[0-9a-f]{8}\.tmp"
"""How :meth:`Files.replacing` names what is not yet the file, as a pattern of the whole name."""

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


@dataclass(eq=False)
class StorageFullError(RefusalError):
    """The disk is full: what was being written was not published, and what was there before is as it was."""

    code: ClassVar[str] = "storage.full"
    hint: ClassVar[str] = "Free some space on the disk of the app directory, then repeat the command."

    detail: str


@dataclass(eq=False)
class StorageFailedError(FaultError):
    """The system refused to read or write a file."""

    code: ClassVar[str] = "storage.failed"
    hint: ClassVar[str] = "Look at the named file and its rights, and at the system's log: a disk may be failing."

    detail: str


@dataclass(eq=False)
class MachineStuckError(FaultError):
    """A process did not end, or a connection broke, where the machine itself owed an answer; no file was refused."""

    code: ClassVar[str] = "machine.stuck"
    hint: ClassVar[str] = (
        "Repeat the command; what was begun goes on. If it stays so, look at the system's log for a process that hangs."
    )

    detail: str


def storage_error(error: OSError) -> JamError:
    """Return the typed form of what the system said, for a boundary that a plain ``OSError`` must not cross.

    It is about a file, unless it is the ``OSError`` of a bound that was overstepped or of a connection.
    """
    detail = error.strerror or str(error) or type(error).__name__
    if isinstance(error, TimeoutError | ConnectionError):
        return MachineStuckError(detail=detail)
    if error.filename:
        detail = f"{error.strerror or type(error).__name__}: {error.filename}"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageFullError(detail=detail) if full else StorageFailedError(detail=detail)


@contextmanager
def typed_storage() -> Iterator[None]:
    """Let no plain ``OSError`` out of a block.

    Raises:
        StorageFullError, StorageFailedError, MachineStuckError: The machine failed.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(error) from error


class Files:
    """Writes to the file system. One object per daemon; tests subclass it to inject a full disk or a crash."""

    def write_atomic(self, path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Replace ``path`` by ``data``: readers see the old bytes or the new ones, also after a crash.

        Raises:
            OSError: The old file is untouched and no temporary file is left.
        """
        with self.replacing(path, mode=mode) as stream:
            stream.write(data)

    @contextmanager
    def replacing(self, path: Path, *, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """Yield a stream whose bytes replace ``path`` when the block ends without an error."""
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                self.sync(stream.fileno())
            self.rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def rename(self, old: Path, new: Path) -> None:
        """Rename within a directory tree and make the new name durable."""
        old.replace(new)
        self.sync_directory(new.parent)

    def unlink(self, path: Path) -> None:
        """Remove a file durably; an absent one is fine."""
        path.unlink(missing_ok=True)
        self.sync_directory(path.parent)

    def make_private(self, path: Path) -> Path:
        """Create a 0700 directory with its parents (0700 too where new), tighten an existing one, and return it."""
        missing = [p for p in (path, *path.parents) if not p.exists()]
        for directory in reversed(missing):
            directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
            self.sync_directory(directory.parent)
        if stat.S_IMODE(path.stat().st_mode) != PRIVATE_DIRECTORY:  # a disk that takes nothing can still be read
            path.chmod(PRIVATE_DIRECTORY)
        return path

    def remove_tree(self, path: Path) -> None:
        """Remove a directory tree without following symbolic links, durably, also a read-only one; an absent one is fine."""
        if path.is_symlink():
            raise NotADirectoryError(path)
        if path.exists():
            with owned(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as parent:
                remove_tree(parent, os.fsencode(path.name), sync=self.sync)

    def sweep(self, directory: Path) -> tuple[str, ...]:
        """Remove what a killed writer left in a directory: its temporary files, by the form of their names. Not below it.

        The caller is the only writer of the directory. An absent directory is fine.
        """
        if not directory.is_dir():
            return ()
        left = sorted(path for path in directory.iterdir() if re.fullmatch(TEMPORARY, path.name) and not path.is_dir())
        for path in left:
            path.unlink(missing_ok=True)
        return tuple(path.name for path in left)

    def free_bytes(self, path: Path) -> int:
        """Return how many bytes an ordinary user may still write on the file system of ``path``."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def sync(self, descriptor: int) -> None:
        """Flush a file's bytes to the disk."""
        os.fsync(descriptor)

    def sync_filesystem(self, descriptor: int) -> bool:
        """Flush all that was written to the file system of an open file; ``False`` where the system cannot do that.

        A tree has more files than can be flushed one by one.

        Raises:
            OSError: Something could not be written.
        """
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "syncfs"):
            return False
        if library.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return True

    def sync_directory(self, path: Path) -> None:
        """Flush a directory's names to the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)
