"""A store that fails at one of its calls: a statement, or the commit of a transaction, as the database's driver would say it.

What counts is what a request does, and everything that it begins: other work of the daemon calls the store too, and is left alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock, local
from types import MappingProxyType
from unittest import mock

from sqlalchemy import Engine, event
from sqlalchemy.engine.default import DefaultDialect

COMMIT, COMMIT_OF_READS = "commit", "commit of reads"
_COUNTED: ContextVar[bool] = ContextVar("counted", default=False)
NEVER = 0
SHOWN = 100
"""Characters of a statement that are kept."""


class Fault(StrEnum):
    """What the database says."""

    FULL = "full"
    FAILING = "failing"
    LOCKED = "locked"
    AWAY = "away"
    """It says so to this call, and to every further one until the request was answered."""
    LOST = "lost"
    """The transaction is committed, and nobody is told."""


ONCE = (Fault.FULL, Fault.FAILING, Fault.LOCKED, Fault.AWAY)
"""What any call can meet; a commit can be lost besides."""
_WORDS: Mapping[Fault, tuple[int, str, str]] = MappingProxyType(
    {
        Fault.FULL: (sqlite3.SQLITE_FULL, "SQLITE_FULL", "database or disk is full"),
        Fault.FAILING: (sqlite3.SQLITE_IOERR, "SQLITE_IOERR", "disk I/O error"),
        Fault.LOCKED: (sqlite3.SQLITE_BUSY, "SQLITE_BUSY", "database is locked"),
        Fault.AWAY: (sqlite3.SQLITE_IOERR, "SQLITE_IOERR_READ", "disk I/O error"),
        Fault.LOST: (sqlite3.SQLITE_IOERR, "SQLITE_IOERR_FSYNC", "disk I/O error"),
    }
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the store.

    Attributes:
        after: The boundary that was passed last.
        what: The statement, or that a transaction is committed.
    """

    after: str
    what: str

    @property
    def writes(self) -> bool:
        """Whether it commits what was written."""
        return self.what == COMMIT


class StoreFaults:
    """Notes the calls that a request makes until its action has ended, and fails one of them. Once begun it lasts as long as the process.

    Args:
        kind: The action.
        number: Which call fails, from 1.
        fault: What it meets.

    Attributes:
        calls: What was called, in order.
        struck: Whether the call that was to fail was made.
    """

    def __init__(self, kind: str, number: int = NEVER, fault: Fault = Fault.FULL) -> None:
        self.calls: list[Call] = []
        self.struck = False
        self._last = f"{kind}.ended"
        self._number = number
        self._fault = fault
        self._after = ""
        self._over = False
        self._lock = Lock()
        self._here = local()

    def begin(self) -> None:
        """Listen to every database of SQLAlchemy's."""
        event.listen(Engine, "do_execute", self._execute)
        event.listen(Engine, "do_executemany", self._execute)
        real: Callable[[DefaultDialect, object], None] = DefaultDialect.do_commit

        def commit(dialect: DefaultDialect, connection: object) -> None:
            fault = self._called(COMMIT if getattr(self._here, "writes", False) else COMMIT_OF_READS)
            if fault is not None and fault is not Fault.LOST:
                raise said(fault)
            real(dialect, connection)
            if fault is not None:
                raise said(fault)

        mock.patch.object(DefaultDialect, "do_commit", commit).start()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is called in here, and what is begun in here calls."""
        token = _COUNTED.set(True)
        try:
            yield
        finally:
            self._over = True
            _COUNTED.reset(token)

    def reach(self, point: str) -> None:
        """See :meth:`jamcore.journal.points.CrashPoints.reach`. What follows an action in its request is not its own."""
        self._after = point
        self._over |= point == self._last

    def _execute(self, _cursor: object, statement: str, _parameters: object, _context: object) -> None:
        if statement.startswith("BEGIN"):
            self._here.writes = statement == "BEGIN IMMEDIATE"
        if (fault := self._called(" ".join(statement.split())[:SHOWN])) is not None:
            raise said(fault)

    def _called(self, what: str) -> Fault | None:
        with self._lock:
            if self._over or not _COUNTED.get():
                return None
            self.calls.append(Call(self._after, what))
            due = len(self.calls) == self._number or (self.struck and self._fault is Fault.AWAY)
            self.struck |= due
            return self._fault if due else None


def said(fault: Fault) -> sqlite3.OperationalError:
    """Return what the driver raises."""
    code, name, words = _WORDS[fault]
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error
