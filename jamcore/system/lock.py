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


class Holding:
    """The lock while it is held. What its holder does is written beside who it is, for people who wait for it."""

    def __init__(self, descriptor: int, pid: int, started_at: datetime) -> None:
        self._descriptor = descriptor
        self._who = {"pid": pid, "started_at": started_at.isoformat()}

    def say(self, doing: str = "") -> None:
        """Say what is being done that keeps the daemon from listening; empty: nothing any more.

        Raises:
            OSError: It could not be written.
        """
        told = json.dumps(self._who | ({"doing": doing} if doing else {})).encode()[:_HOLDER_LIMIT]
        os.pwrite(self._descriptor, told, 0)
        os.ftruncate(self._descriptor, len(told))


@contextmanager
def owning(path: Path, *, pid: int, started_at: datetime) -> Iterator[Holding]:
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
        holding = Holding(descriptor, pid, started_at)
        try:
            holding.say()
        except OSError as error:
            raise AppDirectoryUnusableError(directory=str(path.parent), problem=error.strerror or str(error)) from error
        yield holding
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        found = json.loads(os.pread(descriptor, _HOLDER_LIMIT, 0))
        return f"process {int(found['pid'])}, started {found['started_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not said who it is yet"


def doing_of(path: Path) -> str:
    """Return what the holder of a lock file says that it does before it listens; empty when it says nothing, or lives no more.

    For a message, and for how long to wait: whether somebody holds the lock is not found out here, since asking would take it.
    """
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(_HOLDER_LIMIT))
        doing = found.get("doing")
        os.kill(int(found["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    return doing if isinstance(doing, str) else ""
