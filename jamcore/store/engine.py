"""The store: one database, one writer at a time, each transaction in a thread and never across an await."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import anyio
from anyio import to_thread
from sqlalchemy import Connection, Engine, String, create_engine, event, func, select, type_coerce
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import QueuePool

from jamcore.store.errors import StoreUnusableError
from jamcore.store.failures import of_file, require_plain_host, typed_failures, usable_address
from jamcore.store.fencing import require_epoch, take_over
from jamcore.store.migrate import upgrade
from jamcore.store.repos import Context, Fence, Repos
from jamcore.store.tables.operations import OPERATIONS
from jamcore.system.clock import Clock
from jamcore.system.files import PRIVATE_FILE, Files

T = TypeVar("T")

BUSY_TIMEOUT_S = 10.0
"""How long a write waits for another process that has the database open, a backup tool for example."""
READERS = 4
"""Reads at once; WAL lets them go on beside the writer."""

AHEAD = timedelta(days=1)
"""How far ahead of the clock what was written before may lie and still be followed; see :meth:`Store.transact`."""

_READ = "jam_read"
"""The execution option of a connection that will not write."""


class Store:
    """Made by :func:`open_store`. Owned by one daemon instance; nothing is shared between two."""

    def __init__(self, engine: Engine, *, clock: Clock, fence: Fence, latest: datetime | None = None) -> None:
        self._engine = engine
        self._file = _database_file(engine)
        self._clock = clock
        self._latest = latest
        self._fence = fence
        self._writer = anyio.CapacityLimiter(1)
        self._readers = anyio.CapacityLimiter(READERS)
        # SQLite's readers keep their view by themselves; others must be asked to.
        view = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._options: dict[bool, dict[str, Any]] = {True: {_READ: False}, False: {_READ: True, **view}}

    @property
    def fence(self) -> Fence:
        """Who this store writes as."""
        return self._fence

    async def transact(self, work: Callable[[Repos], T]) -> T:
        """Run ``work`` in one durable transaction and return what it returns. Once called it is finished, also under cancellation.

        ``work`` runs in a thread, alone among all writers of this store; it must not wait for anything but the database.

        What is written is dated by the clock, and never before what was written last: a clock that is set back by up to :data:`AHEAD` does
        not change the order of what happened. What lies further ahead was written while the clock was far wrong, or is damaged: it
        keeps its date and is not followed, so that it dates nothing else.

        Raises:
            StoreFullError, StoreBusyError, StoreConstraintError, StoreUnusableError: Nothing was written.
            StoreUnreachableError: Nothing was written, unless the connection was lost at the very end: an exact retry finds out.
            FencedError: This daemon's next life has begun; nothing was written.
            JamError: What ``work`` raised; nothing was written.
        """
        with anyio.CancelScope(shield=True):
            result = await to_thread.run_sync(partial(self._run, work, write=True), limiter=self._writer)
        return result  # noqa: RET504 - mypy: a cancel scope may swallow, so the return stands outside it

    async def read(self, work: Callable[[Repos], T]) -> T:
        """Run ``work`` on one consistent view and return what it returns. It must not write.

        Raises:
            StoreBusyError, StoreUnreachableError, StoreUnusableError: It could not be read.
            JamError: What ``work`` raised.
        """
        return await to_thread.run_sync(partial(self._run, work, write=False), limiter=self._readers)

    def _run(self, work: Callable[[Repos], T], *, write: bool) -> T:
        with typed_failures(self._file), self._engine.connect() as connection:
            connection.execution_options(**self._options[write])
            with connection.begin():
                if write:
                    require_epoch(connection, self._fence)
                now = self._moment() if write else self._clock.now()
                return work(Repos(Context(connection=connection, now=now, fence=self._fence)))

    def _moment(self) -> datetime:
        """Return the time of what is written now; see :meth:`transact`."""
        now = self._clock.now()
        if self._latest is not None and now < self._latest <= now + AHEAD:
            now = self._latest + timedelta(microseconds=1)
        self._latest = now  # there is one writer
        return now


@asynccontextmanager
async def open_store(
    where: Path | str, *, files: Files, clock: Clock, daemon_id: UUID, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[Store]:
    """Open the database, bring its schema up to date, and take over what this daemon owned in its last life.

    The caller holds the app directory's lock, so no second daemon migrates a file at the same time; on a server they take turns.

    Args:
        where: A SQLite file in an existing directory (a ``Path``), or any SQLAlchemy URL (text).
        files: Makes the copy before an upgrade.
        clock: The time of every row.
        daemon_id: Who writes.
        busy_timeout_s: How long a write waits for another process.

    Raises:
        StoreNewerError: A newer Jam wrote it.
        StoreUnusableError, StoreUnreachableError, StoreBusyError, StoreFullError: It cannot be opened, and is left as it is.
    """
    with usable_address():
        url = make_url(where) if isinstance(where, str) else URL.create("sqlite", database=str(where))
        require_plain_host(url)
        engine = _engine(url, busy_timeout_s)
    try:
        fence, latest = await to_thread.run_sync(_prepare, engine, files, daemon_id, clock.now())
        yield Store(engine, clock=clock, fence=fence, latest=latest)
    finally:
        with anyio.CancelScope(shield=True):  # closing takes no longer than the write that is going on
            await to_thread.run_sync(engine.dispose)


def _engine(url: URL, busy_timeout_s: float) -> Engine:
    if url.get_backend_name() == "postgresql":
        from jamcore.store import postgresql  # late: its driver is an extra

        return postgresql.make_engine(url, connections=READERS + 1, busy_timeout_s=busy_timeout_s)
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True, hide_parameters=True)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        hide_parameters=True,
        pool_size=READERS + 1,
        max_overflow=0,
        connect_args={"timeout": busy_timeout_s, "check_same_thread": False, "isolation_level": None},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _set_pragmas(connection: sqlite3.Connection, _record: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(_READ) else "BEGIN IMMEDIATE")


def _prepare(engine: Engine, files: Files, daemon_id: UUID, now: datetime) -> tuple[Fence, datetime | None]:
    """Make the database usable and take it over; return as whom, and when this daemon last began something."""
    path = _database_file(engine)
    if path is not None:
        _make_private(path, files)
    with typed_failures(path):
        if path is not None:
            _require_write_ahead_log(engine)
        elif engine.dialect.name == "postgresql":
            _require_unicode(engine)
        upgrade(engine, files)
        with engine.begin() as connection:
            return take_over(connection, daemon_id), _latest_begun(connection, daemon_id, now + AHEAD)


def _latest_begun(connection: Connection, daemon_id: UUID, bound: datetime) -> datetime | None:
    """Return when this daemon last began something up to a moment; ``None``: never.

    The times are read as text, and what is none is passed over: one damaged row must not keep the daemon from its start (START-1).
    """
    at = OPERATIONS.c.started_at
    begun = select(func.max(type_coerce(at, String))).where(OPERATIONS.c.daemon_id == daemon_id)
    text: str | None = connection.execute(begun.where(at <= bound)).scalar_one()
    while text is not None:
        if (latest := _instant(text)) is not None:
            return latest
        text = connection.execute(begun.where(type_coerce(at, String) < text)).scalar_one()
    return None


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _database_file(engine: Engine) -> Path | None:
    on_disk = engine.url.get_backend_name() == "sqlite" and engine.url.database not in (None, "", ":memory:")
    return Path(str(engine.url.database)) if on_disk else None


def _make_private(path: Path, files: Files) -> None:
    """Create the file before SQLite would, with Jam's rights instead of the umask's; its log gets the same rights from it.

    A new name is made durable, since SQLite flushes only the bytes.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE))
        files.sync_directory(path.parent)
    except FileExistsError:
        return
    except OSError as error:
        raise of_file(error, "the database file") from error


def _require_write_ahead_log(engine: Engine) -> None:
    """Refuse a file system that has no shared memory, where SQLite falls back to another mode without a word."""
    with engine.connect() as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
    if mode != "wal":
        raise StoreUnusableError(detail=f"no write-ahead log here: the journal mode is {mode}")


def _require_unicode(engine: Engine) -> None:
    from jamcore.store.postgresql import require_unicode  # late: its driver is an extra

    with engine.connect() as connection:
        require_unicode(connection)
