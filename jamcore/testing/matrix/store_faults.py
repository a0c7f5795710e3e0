"""A store that fails at one of its calls: a statement, or the commit of a transaction, as the database's driver would say it.

What counts is what a request does, and everything that it begins: other work of the daemon calls the store too, and is left alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any
from unittest import mock

from sqlalchemy import Engine, event
from sqlalchemy.engine.default import DefaultDialect

STATEMENT, COMMIT = "statement", "commit"
_COUNTED: ContextVar[bool] = ContextVar("counted", default=False)
NEVER = 0


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
_WORDS = {
    Fault.FULL: (sqlite3.SQLITE_FULL, "SQLITE_FULL", "database or disk is full"),
    Fault.FAILING: (sqlite3.SQLITE_IOERR, "SQLITE_IOERR", "disk I/O error"),
    Fault.LOCKED: (sqlite3.SQLITE_BUSY, "SQLITE_BUSY", "database is locked"),
    Fault.AWAY: (sqlite3.SQLITE_IOERR, "SQLITE_IOERR_READ", "disk I/O error"),
    Fault.LOST: (sqlite3.SQLITE_IOERR, "SQLITE_IOERR_FSYNC", "disk I/O error"),
}


class StoreFaults:
    """Notes the calls of a request, and fails one of them. Once begun it lasts as long as the process.

    Attributes:
        calls: What was called, in order.
        struck: Whether the one that was to fail has been called.
    """

    def __init__(self, number: int = NEVER, fault: Fault = Fault.FULL) -> None:
        self.calls: list[str] = []
        self.struck = False
        self._number = number
        self._fault = fault
        self._over = False
        self._lock = Lock()

    def begin(self) -> None:
        """Listen to every database of SQLAlchemy's."""
        event.listen(Engine, "do_execute", self._execute)
        event.listen(Engine, "do_executemany", self._execute)
        real = DefaultDialect.do_commit

        def commit(dialect: DefaultDialect, connection: Any) -> None:
            fault = self._call(COMMIT)
            if fault is not None and fault is not Fault.LOST:
                raise said(fault)
            real(dialect, connection)
            if fault is Fault.LOST:
                raise said(fault)

        mock.patch.object(DefaultDialect, "do_commit", commit).start()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is called in here."""
        token = _COUNTED.set(True)
        try:
            yield
        finally:
            self._over = True
            _COUNTED.reset(token)

    def reach(self, point: str) -> None:
        """See :meth:`jamcore.journal.points.CrashPoints.reach`: what follows an action in its request is not its own."""
        self.calls.append(point)
        if point == self.last:
            self._over = True

    def keep(self, to: Path) -> None:
        """Write down what was called."""
        to.write_text("\n".join(self.calls))

    def _execute(self, _cursor: Any, statement: str, _parameters: Any, _context: Any) -> None:
        if (fault := self._call(f"{STATEMENT} {' '.join(statement.split())[:120]}")) is not None:
            raise said(fault)

    def _call(self, what: str) -> Fault | None:
        with self._lock:
            if not _COUNTED.get() or self._over:
                return None
            self.calls.append(what)
            due = len(self.calls) == self._number or (self.struck and self._fault is Fault.AWAY)
            self.struck |= due
            return self._fault if due else None


def said(fault: Fault) -> sqlite3.OperationalError:
    """Return what the driver raises."""
    code, name, words = _WORDS[fault]
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error
