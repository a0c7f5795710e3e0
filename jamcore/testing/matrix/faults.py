"""The file-system calls of a process below a directory: noted in order, or one of them, or all from one on, failed by errno (WS-12).

What the interpreter audits fails by an audit hook, before the call is made. Reads, writes and flushes are not audited, so those of ``os``
are wrapped, and a stream that is to replace a file is met by :class:`FailingFiles`. What other programs do, git above all, and the
database are not seen here.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from jamcore.journal.steps import BEGUN, ENDED
from jamcore.system.files import PRIVATE_FILE, Files
from jamcore.testing.matrix.effects import NO_DIRECTORY, at_of, where

FOUND, READ = "found", "read"
OPENED, MADE, MOVED, REMOVED, CHANGED, WRITTEN = "opened", "made", "moved", "removed", "changed", "written"
"""What calls do, as far as it decides how they can fail. What is found is opened for reading, or listed; what is opened, for writing."""
READING = frozenset({FOUND, READ})

_IO, _RIGHTS, _FULL, _MANY, _READ_ONLY = errno.EIO, errno.EACCES, errno.ENOSPC, errno.EMFILE, errno.EROFS
ERRORS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        FOUND: (_IO, _MANY, _RIGHTS),
        READ: (_IO,),
        OPENED: (_FULL, _IO, _RIGHTS, _MANY, _READ_ONLY),
        MADE: (_FULL, _IO, _RIGHTS, _READ_ONLY),
        MOVED: (_IO, _FULL, _RIGHTS, _READ_ONLY),
        REMOVED: (_IO, _RIGHTS, _READ_ONLY),
        CHANGED: (_IO, _RIGHTS, _READ_ONLY),
        WRITTEN: (_FULL, _IO),
    }
)
"""How a call may fail, by what it does."""
FULL, READ_ONLY = "full", "read-only"
STATES: Mapping[str, tuple[int, frozenset[str]]] = MappingProxyType(
    {
        FULL: (errno.ENOSPC, frozenset({OPENED, MADE, WRITTEN})),
        READ_ONLY: (errno.EROFS, frozenset({OPENED, MADE, MOVED, REMOVED, CHANGED, WRITTEN})),
    }
)
"""What a disk may become, with the error of its calls from then on."""

_AUDITED: Mapping[str, tuple[str, tuple[tuple[int, int], ...]]] = MappingProxyType(
    {
        "os.listdir": (FOUND, ((0, NO_DIRECTORY),)),
        "os.scandir": (FOUND, ((0, NO_DIRECTORY),)),
        "os.mkdir": (MADE, ((0, 2),)),
        "os.link": (MADE, ((1, 3),)),
        "os.symlink": (MADE, ((1, 2),)),
        "os.rename": (MOVED, ((0, 2), (1, 3))),
        "os.remove": (REMOVED, ((0, 1),)),
        "os.rmdir": (REMOVED, ((0, 1),)),
        "os.truncate": (CHANGED, ((0, NO_DIRECTORY),)),
        "os.chmod": (CHANGED, ((0, 2),)),
        "os.chown": (CHANGED, ((0, 3),)),
        "os.utime": (CHANGED, ((0, 3),)),
        "os.setxattr": (CHANGED, ((0, NO_DIRECTORY),)),
    }
)
"""Audited calls besides ``open``: what each does, and which arguments name what and the directory that it is below."""
_WRAPPED: Mapping[str, str] = MappingProxyType(
    {"read": READ, "pread": READ, "preadv": READ, "write": WRITTEN, "pwrite": WRITTEN, "fsync": WRITTEN}
)
"""Calls of ``os`` that are not audited; each takes a descriptor first."""
_MET: ContextVar[bool] = ContextVar("met", default=False)
_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NOT_MET = re.compile(r"notes/|.*(?:jam\.db|\.log$)")
"""What a matrix notes for itself, the database, and logs."""
_CHANCE = re.compile(
    r"""(?x) [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
      | (?<=jam-)[0-9a-f]{16}
      | [0-9a-f]{32,}
      | (?<=\.)[0-9a-f]{8}(?=\.tmp)
      | (?<=index-|moval-)[0-9a-z_]{8}"""
)
"""Parts of names that are others in each run."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an action, told from the others by what it is made on and which time.

    Attributes:
        name: As the interpreter calls it.
        does: What it does.
        path: On what, below the world; chance parts of names are left out.
        count: Which time a run makes it.
    """

    name: str
    does: str
    path: str
    count: int

    def line(self) -> str:
        """Return it as a line."""
        return "\t".join((self.name, self.does, repr(self.path), str(self.count)))

    def words(self) -> str:
        """Return it for a person."""
        return f"{self.name} {self.path} ({self.count})"


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong.

    Attributes:
        call: At which call.
        error: Its error, when it alone fails.
        state: What the disk becomes from that call on, otherwise.
    """

    call: Call
    error: int = 0
    state: str = ""

    def words(self) -> str:
        """Return it for a person."""
        return f"disk {self.state} from" if self.state else errno.errorcode[self.error]


class Faults:
    """Meets the calls of a request on what lies below a directory. Once begun it lasts as long as the process.

    Args:
        root: The directory.
        fault: What goes wrong.
        delay_s: How late each call is.
        kind: An action, if only what lies between its first boundary and its last is met.

    Attributes:
        calls: What was called while it was open, in order.
        met: Whether the fault came to pass.
    """

    def __init__(self, root: Path, fault: Fault | None = None, *, delay_s: float = 0.0, kind: str | None = None) -> None:
        self._below = f"{root}/"
        self._fault = fault
        self._delay_s = delay_s
        self._kind = kind
        self._open = kind is None
        self._lock = threading.Lock()
        self._seen: Counter[tuple[str, str]] = Counter()
        self.calls: list[Call] = []
        self.met = False

    def begin(self) -> None:
        """Listen to every call."""
        sys.addaudithook(self._audited)
        for name, does in _WRAPPED.items():
            setattr(os, name, self._wrapped(getattr(os, name), name, does))

    @contextmanager
    def during(self) -> Iterator[None]:
        """Note, delay and fail what a block calls, in tasks and threads that it begins too. What a disk became it stays afterwards."""
        token = _MET.set(True)
        try:
            yield
        finally:
            _MET.reset(token)
            self._open = False

    def reach(self, point: str) -> None:
        """See :meth:`jamcore.journal.points.CrashPoints.reach`."""
        if point == f"{self._kind}.{BEGUN}":
            self._open = True
        elif point == f"{self._kind}.{ENDED}":
            self._open = False

    def pass_by(self, name: str, does: str, path: str) -> None:
        """Let a call pass, or fail it.

        Raises:
            OSError: It is the one, or the disk is what it became.
        """
        relative = path.removeprefix(self._below)
        if not self._is_below(path) or _NOT_MET.match(relative):
            return
        relative = _CHANCE.sub("*", relative)
        meets = self._meets()
        with self._lock:
            if meets:
                self._seen[name, relative] += 1
                self.calls.append(Call(name, does, relative, self._seen[name, relative]))
            number = self._error(does, meets=meets)
        if meets and self._delay_s:
            time.sleep(self._delay_s)
        if number:
            raise OSError(number, os.strerror(number), path)

    def _meets(self) -> bool:
        return self._open and _MET.get()

    def _error(self, does: str, *, meets: bool) -> int:
        """Return the number of the error that a call has; 0: none."""
        fault = self._fault
        if fault is None:
            return 0
        first = meets and not self.met and self.calls[-1] == fault.call
        self.met |= first
        if not fault.state:
            return fault.error if first else 0
        number, failing = STATES[fault.state]
        return number if self.met and does in failing else 0

    def _audited(self, call: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_watching():
            return
        if call == "open":
            path, _, flags = arguments
            if path is not None and not isinstance(path, int):
                self.pass_by("open", OPENED if flags & _FOR_WRITING else FOUND, self._opened(path))
        elif call in _AUDITED:
            does, named = _AUDITED[call]
            paths = [where(arguments[name], at_of(arguments, directory)) for name, directory in named]
            self.pass_by(call, does, next(filter(self._is_below, paths), ""))

    def _is_below(self, path: str) -> bool:
        return path.startswith(self._below)

    def _is_watching(self) -> bool:
        return self.met or self._meets()

    def _opened(self, path: str | bytes | os.PathLike[str]) -> str:
        """Return the path of what is opened. A relative one is below a directory that is not told, and taken to be in the world."""
        name = os.fsdecode(path)
        return name if name.startswith("/") else f"{self._below}…/{name}"

    def _wrapped(self, real: Callable[..., Any], name: str, does: str) -> Callable[..., Any]:
        @wraps(real)
        def call(descriptor: int, *arguments: object, **named: object) -> object:
            if self._is_watching():
                self.pass_by(name, does, where(descriptor, NO_DIRECTORY))
            return real(descriptor, *arguments, **named)

        return call


class FailingFiles(Files):
    """Lets what is written into a stream, and what is flushed with its whole file system, be failed too."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    @contextmanager
    def replacing(self, path: Path, *, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """See :meth:`Files.replacing`."""
        with super().replacing(path, mode=mode) as stream:
            self._faults.pass_by("stream", WRITTEN, str(path))
            yield stream

    def sync_filesystem(self, descriptor: int) -> bool:
        """See :meth:`Files.sync_filesystem`."""
        self._faults.pass_by("syncfs", WRITTEN, where(descriptor, NO_DIRECTORY))
        return super().sync_filesystem(descriptor)
