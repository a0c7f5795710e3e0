"""What all parts of the store suite share: the database that a subclass names, and the daemons' lives on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from uuid import UUID

import pytest
from sqlalchemy import Connection, select

from jamcore.store import Repos, Store, open_store
from jamcore.store.tables.schema import METADATA
from jamcore.system.files import Files
from jamcore.testing.store.records import HandClock, Records, Seed

DAEMON, OTHER = UUID(int=1), UUID(int=2)


class OpenLife(Protocol):
    """Opens the database as a daemon; the same daemon again is its next life."""

    def __call__(self, *, daemon_id: UUID = DAEMON, busy_timeout_s: float = 5) -> AbstractAsyncContextManager[Store]:
        """Open it."""


class StoreTests:
    """What a subclass says: where databases are. Everything else follows from it."""

    @pytest.fixture
    def empty_url(self) -> str:
        """The SQLAlchemy URL of a database without tables, for this test alone. A subclass must say it."""
        raise NotImplementedError(f"{type(self).__name__} names no database")

    @pytest.fixture
    def database_url(self, empty_url: str) -> str:
        """The URL of a database for this test alone, without tables or with Jam's newest: a subclass may have a quick way to the latter."""
        return empty_url

    @pytest.fixture
    def clock(self) -> HandClock:
        """A clock that the test sets."""
        return HandClock()

    @pytest.fixture
    def make(self, clock: HandClock) -> Records:
        """Records."""
        return Records(clock)

    @pytest.fixture
    def open_life(self, database_url: str, clock: HandClock) -> OpenLife:
        """Open the test's database, as often as the test likes."""

        def open_it(*, daemon_id: UUID = DAEMON, busy_timeout_s: float = 5) -> AbstractAsyncContextManager[Store]:
            return open_store(database_url, files=Files(), clock=clock, daemon_id=daemon_id, busy_timeout_s=busy_timeout_s)

        return open_it

    @pytest.fixture
    async def store(self, open_life: OpenLife) -> AsyncIterator[Store]:
        """A store."""
        async with open_life() as opened:
            yield opened

    @pytest.fixture
    async def seeded(self, store: Store, make: Records) -> Seed:
        """What the store holds already."""
        return await store.transact(make.seed)


def raw(repos: Repos) -> Connection:
    """Return the connection below the repositories: what Jam itself never uses outside its store."""
    return repos.agents._connection  # noqa: SLF001


def everything(repos: Repos) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, in the order of its key."""
    return {
        table.name: [tuple(row) for row in raw(repos).execute(select(table).order_by(*table.primary_key.columns))]
        for table in METADATA.sorted_tables
    }
