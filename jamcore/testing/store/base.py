"""What all parts of the store suite share: the database that a subclass names and what it claims, and the daemons' lives on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar
from uuid import UUID

import pytest
from sqlalchemy import Connection, select

from jamcore.store import Repos, Store, open_store
from jamcore.store.tables.schema import METADATA
from jamcore.system.files import Files
from jamcore.testing.proof import NOT_CLAIMED
from jamcore.testing.store.records import HandClock, Records, Seed

DAEMON, OTHER = UUID(int=1), UUID(int=2)
PATIENCE_S = 60.0
"""How long those of a check that write at the same time wait for each other: as long as a busy machine makes them."""
_ATTRIBUTE = "jam_store_features"
_Test = TypeVar("_Test", bound=Callable[..., Any])


class Feature(StrEnum):
    """What a database may be without: Jam's one daemon works on it all the same. The words complete "the database …"."""

    SEVERAL_DAEMONS = "serves several daemons at once"
    SEVERAL_PROCESSES = "is open in several processes at once"


def asked_of(*features: Feature) -> Callable[[_Test], _Test]:
    """Ask a check only of a database that has all of this."""

    def mark(test: _Test) -> _Test:
        setattr(test, _ATTRIBUTE, features)
        return test

    return mark


def features_of(test: Callable[..., Any]) -> tuple[Feature, ...]:
    """Return what a database must have for a check to be asked of it."""
    return tuple(getattr(test, _ATTRIBUTE, ()))


class OpenLife(Protocol):
    """Opens the database as a daemon; the same daemon again is its next life."""

    def __call__(self, *, daemon_id: UUID = DAEMON, busy_timeout_s: float = PATIENCE_S) -> AbstractAsyncContextManager[Store]:
        """Open it."""


class StoreTests:
    """What a subclass says: where databases are, in the fixture ``empty_url``. Everything else follows from it.

    Attributes:
        without: What the database does not have, with the reason. Checks of it are reported as "not claimed"; all others must pass.
        known_failures: Maps a check's name to a reason; it must fail then, or the run does, so that a mended one is noticed.
    """

    without: ClassVar[Mapping[Feature, str]] = MappingProxyType({})
    known_failures: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @pytest.fixture(autouse=True)
    def _only_what_is_claimed(self, request: pytest.FixtureRequest) -> None:
        """Ask a database only what it claims, and say by name what was not asked."""
        if absent := [feature for feature in features_of(request.function) if feature in self.without]:
            pytest.skip(f"{NOT_CLAIMED}it is no database that {absent[0]}: {self.without[absent[0]]}")
        if reason := self.known_failures.get(request.node.originalname):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

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

        def open_it(*, daemon_id: UUID = DAEMON, busy_timeout_s: float = PATIENCE_S) -> AbstractAsyncContextManager[Store]:
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
