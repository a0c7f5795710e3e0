"""What a server does that a file does not: it goes away, refuses, fills up, and is shared by daemons that begin at once."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest
from anyio import to_thread

from jamcore.domain.errors import JamError
from jamcore.domain.events import SessionNotice
from jamcore.store import (
    Repos,
    Store,
    StoreBusyError,
    StoreConstraintError,
    StoreFullError,
    StoreUnreachableError,
    StoreUnusableError,
    open_store,
)
from jamcore.store.fencing import require_epoch
from jamcore.store.repos import Context
from jamcore.system.files import Files
from jamcore.testing.postgres import PostgresServer, postgres_server
from jamcore.testing.store.base import raw

if TYPE_CHECKING:
    from tests.unit.store.conftest import HandClock, Make

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.unprivileged]

DAEMON = UUID(int=1)
PASSWORD = "hunter2%2Fverysecret"


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop."""
    with postgres_server() as server:
        server.create("jam")
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    yield postgres.create("of_one_test")
    postgres.drop("of_one_test")


def opening(url: str, clock: HandClock, *, daemon: UUID = DAEMON) -> AbstractAsyncContextManager[Store]:
    """Open a store."""
    return open_store(url, files=Files(), clock=clock, daemon_id=daemon)


@asynccontextmanager
async def opened(server: PostgresServer, clock: HandClock) -> AsyncIterator[Store]:
    """Open the server's database."""
    async with opening(server.url("jam"), clock) as store:
        yield store


async def test_a_restart_between_two_transactions_is_not_noticed(own_server: PostgresServer, clock: HandClock, make: Make) -> None:
    """Connections that the restart ended are replaced before they are used, the writer's and the readers'."""
    async with opened(own_server, clock) as store:
        await store.transact(lambda repos: repos.agents.insert(make.agent("before")))
        await store.read(lambda repos: repos.agents.list())
        for kill in (False, True):
            await to_thread.run_sync(partial(own_server.stop, kill=kill))
            await to_thread.run_sync(own_server.start)
            await store.transact(lambda repos, kill=kill: repos.agents.insert(make.agent(f"after {kill}")))  # type: ignore[misc]
            await store.read(lambda repos: repos.agents.list())
        assert len(await store.read(lambda repos: repos.agents.list())) == 3


async def test_a_server_that_is_away_is_said_by_type_and_comes_back(
    own_server: PostgresServer, clock: HandClock, make: Make
) -> None:
    """Every write and read is refused while it is down, in each of several tries, and the same store works when it is up."""
    async with opened(own_server, clock) as store:
        seeded = await store.transact(make.seed)
        await to_thread.run_sync(own_server.stop)
        for _ in range(3):
            with pytest.raises(StoreUnreachableError):
                await store.transact(lambda repos: repos.agents.insert(make.agent("lost")))
            with pytest.raises(StoreUnreachableError):
                await store.read(lambda repos: repos.agents.list())
        with pytest.raises(StoreUnreachableError):
            async with opened(own_server, clock):
                pass
        await to_thread.run_sync(own_server.start)
        events = await store.transact(
            lambda repos: repos.events.append(seeded.room.id, None, [SessionNotice(code="back", detail="")])
        )
        assert [event.seq for event in events] == [1]
        assert [agent.name for agent in await store.read(lambda repos: repos.agents.list())] == [seeded.agent.name]


@pytest.mark.parametrize("kill", [False, True])
async def test_a_server_that_goes_in_the_middle_leaves_nothing(
    own_server: PostgresServer, clock: HandClock, make: Make, kill: bool
) -> None:
    """The transaction that was under way is undone whole; its error is typed, and the exact same work is done afterwards."""
    begun, go_on = threading.Event(), threading.Event()
    one, two = make.agent("one"), make.agent("two")

    def work(repos: Repos) -> None:
        repos.agents.insert(one)
        begun.set()
        assert go_on.wait(30)
        repos.agents.insert(two)

    async with opened(own_server, clock) as store:

        async def cut() -> None:
            with pytest.raises(StoreUnreachableError):
                await store.transact(work)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut)
            await to_thread.run_sync(begun.wait)
            await to_thread.run_sync(partial(own_server.stop, kill=kill))
            go_on.set()
        await to_thread.run_sync(own_server.start)
        assert await store.read(lambda repos: repos.agents.list()) == ()
        await store.transact(work)
        assert len(await store.read(lambda repos: repos.agents.list())) == 2


async def test_a_read_that_the_server_leaves_is_said_by_type(own_server: PostgresServer, clock: HandClock) -> None:
    """Also when it had seen something already."""

    def look(repos: Repos) -> None:
        repos.agents.list()
        own_server.stop()
        repos.agents.list()

    async with opened(own_server, clock) as store:
        with pytest.raises(StoreUnreachableError):
            await store.read(look)
        await to_thread.run_sync(own_server.start)
        assert await store.read(lambda repos: repos.agents.list()) == ()


@pytest.mark.guarantee("WS-12")
async def test_a_transaction_that_was_lost_is_waited_for(postgres_url: str, clock: HandClock, make: Make) -> None:
    """Its connection broke and it may be committing still: nothing is decided beside it, and what comes after it sees what it wrote."""
    agent = make.agent("lost")
    async with open_store(postgres_url, files=Files(), clock=clock, daemon_id=DAEMON, busy_timeout_s=0.1) as store:
        with store._engine.begin() as lost:
            require_epoch(lost, store.fence)
            Repos(Context(connection=lost, now=clock.now(), fence=store.fence)).agents.insert(agent)
            with pytest.raises(StoreBusyError):
                await store.transact(lambda repos: repos.agents.list())
        assert [each.name for each in await store.transact(lambda repos: repos.agents.list())] == [agent.name]


async def test_a_read_cannot_write(postgres_url: str, clock: HandClock, make: Make) -> None:
    """The database itself refuses it."""
    async with opening(postgres_url, clock) as store:
        with pytest.raises(StoreUnusableError):
            await store.read(lambda repos: repos.agents.insert(make.agent()))
        assert await store.read(lambda repos: repos.agents.list()) == ()


async def test_daemons_that_begin_on_a_new_database_take_turns(postgres_url: str, clock: HandClock) -> None:
    """One makes the schema, the others wait for it and find it; each has a first life of its own."""
    epochs: list[int] = []

    async def begin(daemon: UUID) -> None:
        async with opening(postgres_url, clock, daemon=daemon) as store:
            epochs.append(store.fence.epoch)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(begin, UUID(int=number + 1))
    assert epochs == [1, 1, 1, 1]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer, clock: HandClock, encoding: str) -> None:
    """Before anything is written to it."""
    name = f"of_{encoding.lower()}"
    postgres.say(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C' LOCALE_PROVIDER libc")
    try:
        with pytest.raises(StoreUnusableError, match=encoding):
            async with opening(postgres.url(name), clock):
                pass
    finally:
        postgres.drop(name)


async def test_a_number_that_its_column_cannot_hold_is_a_fault_of_ours(postgres_url: str, clock: HandClock, make: Make) -> None:
    """It is not taken for a damaged database, and nothing is written."""
    async with opening(postgres_url, clock) as store:
        seeded = await store.transact(make.seed)
        turn = make.turn(seeded.room, seeded.session).model_copy(update={"process_epoch": 2**40})
        with pytest.raises(StoreConstraintError):
            await store.transact(lambda repos: repos.turns.accept(turn))
        assert await store.read(lambda repos: repos.turns.find_id(turn.id)) is None


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://jam:{PASSWORD}@127.0.0.1:1/jam",
        f"postgresql+psycopg://jam:{PASSWORD}@/jam?host=%2Fnowhere",
        f"postgresql://jam@/jam?host=%2Fnowhere&password={PASSWORD}",
        f"postgresql://jam:{PASSWORD}@no.such.host.invalid/jam",
        f"postgresql://jam:{PASSWORD}@127.0.0.1/jam?sslmode=nonsense",
        f"postgresql://jam:{PASSWORD}@127.0.0.1/jam?no_such_option=1",
        f"postgresql://jam:at@{PASSWORD}@127.0.0.1/jam",
    ],
)
async def test_no_password_is_repeated(clock: HandClock, url: str) -> None:
    """Neither the error nor anything that it is chained to holds the password, as it is written or as it is meant."""
    with pytest.raises((StoreUnreachableError, StoreUnusableError)) as refused:
        async with opening(url, clock):
            pass
    error: BaseException | None = refused.value
    while error is not None:
        assert "hunter2" not in str(error) + repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


CODES: Mapping[str, type[JamError]] = MappingProxyType(
    {
        "53100": StoreFullError,
        "53300": StoreBusyError,
        "40001": StoreBusyError,
        "40P01": StoreBusyError,
        "55P03": StoreBusyError,
        "57014": StoreBusyError,
        "57P03": StoreUnreachableError,
        "08006": StoreUnreachableError,
        "22003": StoreConstraintError,
        "23514": StoreConstraintError,
        "42501": StoreUnusableError,
        "58030": StoreUnusableError,
        "XX001": StoreUnusableError,
    }
)
"""disk full, too many connections, serialisation, deadlock, lock, cancelled, starting up, connection, range, check, rights, io, damage"""


@pytest.mark.parametrize("code", CODES)
async def test_what_the_server_says_has_a_type(postgres_url: str, clock: HandClock, make: Make, code: str) -> None:
    """By its code alone: a write that fails at its third row leaves none, the error does not repeat a row, and the next one works."""
    async with opening(postgres_url, clock) as store:
        seeded = await store.transact(make.seed)
        await store.transact(lambda repos: raw(repos).exec_driver_sql(TRIGGER.replace("00000", code)))
        with pytest.raises(CODES[code], match="as told") as refused:
            await store.transact(lambda repos: repos.events.append(seeded.room.id, None, [NOTICE] * 3))
        assert type(refused.value) is CODES[code]
        assert NOTICE.detail not in str(refused.value.context())
        assert await store.read(lambda repos: repos.events.last_seq(seeded.room.id)) == 0
        await store.transact(lambda repos: raw(repos).exec_driver_sql("DROP TRIGGER sick ON events"))
        assert len(await store.transact(lambda repos: repos.events.append(seeded.room.id, None, [NOTICE] * 3))) == 3


NOTICE = SessionNotice(code="n", detail="what somebody said")
TRIGGER = """
CREATE FUNCTION sick() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.seq = 3 THEN RAISE EXCEPTION 'as told' USING ERRCODE = '00000', DETAIL = NEW.payload; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER sick BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION sick();
"""
