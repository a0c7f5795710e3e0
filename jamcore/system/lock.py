"""The lock that makes one daemon the owner of an app directory (OWN-7)."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from jamcore.domain.errors import RefusalError
from jamcore.system.files import PRIVATE_FILE

_HOLDER_LIMIT = 4096


@dataclass(eq=False)
class AppDirectoryLockedError(RefusalError):
    """Another daemon owns this app directory."""

    code: ClassVar[str] = "daemon.already_running"
    hint: ClassVar[str] = "Use the running daemon (`jam daemon status`), stop it, or choose another app directory with JAM_HOME."

    directory: str
    holder: str


@dataclass(eq=False)
class AppDirectoryUnusableError(RefusalError):
    """The app directory cannot be used: missing rights, not a directory, a full disk."""

    code: ClassVar[str] = "daemon.app_directory"
    hint: ClassVar[str] = "Make it a directory that you own with mode 0700, free some space, or choose another one with JAM_HOME."

    directory: str
    problem: str


@contextmanager
def owning(path: Path, *, pid: int, started_at: datetime) -> Iterator[None]:
    """Hold the lock file of an app directory for the life of the daemon.

    The kernel's lock is the truth; pid and start time are written into the file for the message alone, so a reused pid never keeps
    anybody out. The descriptor is closed on exec: no child ever holds the lock.

    Raises:
        AppDirectoryLockedError: Somebody holds it; the message names the holder.
        AppDirectoryUnusableError: The file cannot be opened or written.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    except OSError as error:
        raise AppDirectoryUnusableError(directory=str(path.parent), problem=error.strerror or str(error)) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AppDirectoryLockedError(directory=str(path.parent), holder=_holder(descriptor)) from error
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": pid, "started_at": started_at.isoformat()}).encode(), 0)
        except OSError as error:
            raise AppDirectoryUnusableError(directory=str(path.parent), problem=error.strerror or str(error)) from error
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        found = json.loads(os.pread(descriptor, _HOLDER_LIMIT, 0))
        return f"process {int(found['pid'])}, started {found['started_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not said who it is yet"
