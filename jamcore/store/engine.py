"""The store: one database, one writer at a time, each transaction in a thread and never across an await."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import anyio
from anyio import to_thread
from sqlalchemy import Connection, Engine, create_engine, event, insert, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DatabaseError, DBAPIError
from sqlalchemy.pool import QueuePool

from jamcore.store.errors import StoreBusyError, StoreFullError, StoreUnusableError
from jamcore.store.migrate import upgrade
from jamcore.store.repos import Context, Fence, Repos
from jamcore.store.tables.hosts import DAEMONS, HOSTS, LEASES
from jamcore.system.clock import Clock
from jamcore.system.files import Files

T = TypeVar("T")

BUSY_TIMEOUT_S = 10
"""How long a write waits for another process that has the database open, a backup tool for example."""
READERS = 4
"""Reads at once; WAL lets them go on beside the writer."""


class Store:
    """Made by :func:`open_store`."""

    def __init__(self, engine: Engine, *, clock: Clock, fence: Fence) -> None:
        self._engine = engine
        self._clock = clock
        self._fence = fence
        self._writer = anyio.CapacityLimiter(1)
        self._readers = anyio.CapacityLimiter(READERS)

    @property
    def fence(self) -> Fence:
        """Who this store writes as."""
        return self._fence

    async def transact(self, work: Callable[[Repos], T]) -> T:
        """Run ``work`` in one durable transaction and return what it returns. Once begun it is finished, also under cancellation.

        Raises:
            StoreFullError, StoreBusyError, StoreUnusableError: Nothing was written.
            JamError: What ``work`` raised; nothing was written.
        """
        with anyio.CancelScope(shield=True):
            result = await to_thread.run_sync(partial(self._run, work, write=True), limiter=self._writer)
        return result  # noqa: RET504 - mypy: a cancel scope may swallow, so the return stands outside it

    async def read(self, work: Callable[[Repos], T]) -> T:
        """Run ``work`` on one consistent view and return what it returns.

        Raises:
            StoreBusyError, StoreUnusableError: It could not be read.
        """
        return await to_thread.run_sync(partial(self._run, work, write=False), limiter=self._readers)

    def _run(self, work: Callable[[Repos], T], *, write: bool) -> T:
        with _typed_failures(), self._engine.connect() as connection:
            connection.info["write"] = write
            with connection.begin():
                return work(Repos(Context(connection=connection, now=self._clock.now(), fence=self._fence)))


@asynccontextmanager
async def open_store(where: Path | str, *, files: Files, clock: Clock, daemon_id: UUID) -> AsyncIterator[Store]:
    """Open the database, bring its schema up to date, and take over what this daemon owned in its last life.

    The caller holds the app directory's lock, so no second daemon migrates at the same time.

    Args:
        where: A SQLite file, or any SQLAlchemy URL.
        files: Makes the copy before an upgrade.
        clock: The time of every row.
        daemon_id: Who writes.

    Raises:
        StoreNewerError, StoreUnusableError, StoreFullError: It cannot be opened.
    """
    url = make_url(where) if isinstance(where, str) else make_url(f"sqlite:///{where}")
    engine = _engine(url)
    try:
        fence = await to_thread.run_sync(_prepare, engine, files, daemon_id)
        yield Store(engine, clock=clock, fence=fence)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(engine.dispose)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=READERS + 1,
        max_overflow=0,
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False, "isolation_level": None},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _set_pragmas(connection: sqlite3.Connection, _record: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("write", True) else "BEGIN")


def _prepare(engine: Engine, files: Files, daemon_id: UUID) -> Fence:
    with _typed_failures():
        upgrade(engine, files)
        with engine.begin() as connection:
            return _take_over(connection, daemon_id)


def _take_over(connection: Connection, daemon_id: UUID) -> Fence:
    """Begin a new epoch of this daemon and adopt its hosts and leases, so that a writer of an older epoch is refused."""
    known = connection.execute(select(DAEMONS.c.fence_epoch).where(DAEMONS.c.id == daemon_id)).scalar_one_or_none()
    epoch = (known or 0) + 1
    if known is None:
        connection.execute(insert(DAEMONS).values(id=daemon_id, fence_epoch=epoch))
    else:
        connection.execute(update(DAEMONS).where(DAEMONS.c.id == daemon_id).values(fence_epoch=epoch))
    for table in (HOSTS, LEASES):
        connection.execute(update(table).where(table.c.daemon_id == daemon_id).values(fence_epoch=epoch))
    return Fence(daemon_id=daemon_id, epoch=epoch)


@contextmanager
def _typed_failures() -> Iterator[None]:
    """Turn what the database says into the store's own errors, by SQLite's result code and never by its words."""
    try:
        yield
    except (DBAPIError, DatabaseError) as error:
        raise _typed(error.orig if error.orig is not None else error) from error
    except sqlite3.DatabaseError as error:
        raise _typed(error) from error


def _typed(cause: BaseException) -> StoreFullError | StoreBusyError | StoreUnusableError:
    code = getattr(cause, "sqlite_errorcode", None)
    name = str(getattr(cause, "sqlite_errorname", type(cause).__name__))
    primary = None if code is None else code & 0xFF
    # A full disk shows as FULL, or as an I/O error of the write, the sync or the shared memory file.
    full_io = name in ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE")
    if primary == sqlite3.SQLITE_FULL or full_io:
        return StoreFullError(detail=name)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusyError(detail=name)
    return StoreUnusableError(detail=f"{name}: {cause}")
