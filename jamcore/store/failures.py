"""Turns what the database says into the store's own errors: by result code, never by words."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, InterfaceError, OperationalError

from jamcore.store.errors import (
    StoreBusyError,
    StoreConstraintError,
    StoreFullError,
    StoreUnreachableError,
    StoreUnusableError,
)
from jamcore.system.files import PRIVATE_FILE

_FULL_IO = frozenset({"SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE"})
"""A full disk shows as FULL, or as a failure of the write, of the sync, or of growing the shared memory file."""
_DUPLICATE = frozenset({"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"})
_DUPLICATE_SQLSTATE = "23505"
"""PostgreSQL's unique_violation."""

StoreError = StoreFullError | StoreBusyError | StoreConstraintError | StoreUnreachableError | StoreUnusableError

_BY_SQLSTATE: Mapping[str, type[StoreError]] = MappingProxyType(
    {
        "08": StoreUnreachableError,  # connection exceptions
        "22": StoreConstraintError,  # a value that its column cannot hold
        "23": StoreConstraintError,
        "40": StoreBusyError,  # a deadlock, or a view that others' writes have overtaken
        "53100": StoreFullError,
        "53": StoreBusyError,  # too many connections, no memory
        "55P03": StoreBusyError,  # lock_timeout
        "57014": StoreBusyError,  # statement_timeout, or an administrator
        "57P": StoreUnreachableError,  # the server goes down, went down, or is coming up
    }
)
"""PostgreSQL's codes, by their longest beginning that is here."""


@contextmanager
def typed_failures(file: Path | None = None) -> Iterator[None]:
    """Let no error of SQLAlchemy or of the database's driver out of the store; ``file`` is the database's own, where it has one."""
    try:
        yield
    except IntegrityError as error:
        raise StoreConstraintError(detail=_words(error.orig or error)) from error
    except DBAPIError as error:
        raise _typed(error.orig or error, file, away=isinstance(error, OperationalError | InterfaceError)) from error
    except sqlite3.DatabaseError as error:
        raise _typed(error, file) from error


@contextmanager
def usable_address() -> Iterator[None]:
    """Refuse by type a URL that is none, and one whose driver is not installed; it may hold a password and is not repeated."""
    try:
        yield
    except ImportError as error:
        raise StoreUnusableError(detail=f"the setting database_url needs a driver that is not installed: {error.name}") from None
    except (ArgumentError, ValueError) as error:
        raise StoreUnusableError(detail=f"the setting database_url cannot be used: {type(error).__name__}") from None


def require_plain_host(url: URL) -> None:
    """Refuse a URL whose host is the rest of a password: its driver would repeat it.

    Raises:
        StoreUnusableError: An ``@`` of the password is not written as ``%40``.
    """
    if "@" in (url.host or ""):
        raise StoreUnusableError(detail="the setting database_url has an @ in its password; write it as %40") from None


def of_file(error: OSError, what: str) -> StoreFullError | StoreUnusableError:
    """Return the store's own error for what the file system refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFullError(detail=errno.errorcode[error.errno])
    return StoreUnusableError(detail=f"{what}: {error}")


def is_duplicate(error: IntegrityError) -> bool:
    """Whether a unique index refused the row; false for any other constraint."""
    name = getattr(error.orig, "sqlite_errorname", None)
    return name in _DUPLICATE if name is not None else getattr(error.orig, "sqlstate", None) == _DUPLICATE_SQLSTATE


def _typed(cause: BaseException, file: Path | None = None, *, away: bool = False) -> StoreError:
    """Return the store's own error; ``away``: one without any code is the server's absence."""
    if hasattr(cause, "sqlite_errorcode") or not hasattr(cause, "sqlstate"):
        return _of_sqlite(cause, file)
    state = cause.sqlstate or ""
    known = max((start for start in _BY_SQLSTATE if state.startswith(start)), key=len, default="")
    kind = _BY_SQLSTATE.get(known, StoreUnreachableError if away and not state else StoreUnusableError)
    return kind(detail=f"{state or type(cause).__name__}: {_words(cause)}")


def _words(cause: BaseException) -> str:
    """Return what the database says in its first line; its further ones hold values of rows."""
    said = getattr(getattr(cause, "diag", None), "message_primary", None) or str(cause)
    return said.strip().partition("\n")[0]


def _of_sqlite(cause: BaseException, file: Path | None) -> StoreError:
    code = getattr(cause, "sqlite_errorcode", None)
    name = str(getattr(cause, "sqlite_errorname", type(cause).__name__))
    primary = None if code is None else code & 0xFF
    if name in _FULL_IO and _is_read_only(file):
        return StoreUnusableError(detail=f"{name}: its file system is read-only")
    if primary == sqlite3.SQLITE_FULL or name in _FULL_IO:
        return StoreFullError(detail=name)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusyError(detail=name)
    return StoreUnusableError(detail=f"{name}: {cause}")


def _is_read_only(file: Path | None) -> bool:
    """Say whether nobody can write where a database lies: SQLite says the same of that as of a full disk.

    A file system that the kernel has made so after an error does not say it of itself, so a file without a name is tried.
    """
    if file is None:
        return False
    try:
        os.close(os.open(file.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE))
    except OSError as error:
        return error.errno == errno.EROFS
    return False
