"""PostgreSQL passes the store suite."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import anyio
import pytest

from jamcore.store import open_store
from jamcore.store.tables import METADATA
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.postgres import PostgresServer
from jamcore.testing.store import StoreSuite
from jamcore.testing.store.records import HandClock

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.unprivileged]

EMPTY = f"SET lock_timeout = '5s'; TRUNCATE {', '.join(METADATA.tables)}"
"""A test that leaves a connection behind fails here."""


@pytest.fixture(scope="module")
def made_once(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database with the newest schema."""
    url = postgres.create("made_once")

    async def prepare() -> None:
        async with open_store(url, files=Files(), clock=HandClock(), daemon_id=UUID(int=1)):
            pass

    anyio.run(prepare)
    yield url
    postgres.drop("made_once")


class TestPostgresql(StoreSuite):
    """A database on a private server."""

    @pytest.fixture
    def empty_url(self, postgres: PostgresServer) -> Iterator[str]:
        """One of the test's own."""
        name = SystemIds().uuid().hex
        yield postgres.create(name)
        postgres.drop(name)

    @pytest.fixture
    def database_url(self, postgres: PostgresServer, made_once: str) -> str:
        """One that is emptied for each test, which is quicker than to make it anew."""
        postgres.say(EMPTY, database="made_once")
        return made_once
