"""Several daemons, and several lives of one, at the same time: in processes of their own and over connections of their own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import anyio
import pytest
from anyio import to_thread

from jamcore.domain.cells import Placement
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import RoomEvent, SessionNotice
from jamcore.domain.sessions import RuntimeHost
from jamcore.store import FencedError, Repos, Store, StoreBusyError
from jamcore.testing.store.base import DAEMON, OTHER, Feature, OpenLife, StoreTests, asked_of
from jamcore.testing.store.records import Records, Seed

WAIT_S = 30.0
LET_IT_WAIT_S = 0.2
"""So that the second one most likely waits for the first; when it does not, the test proves less and passes."""
MANY = 25
PAGE = 100_000
WRITER = (sys.executable, "-m", "jamcore.testing.store.writer")
"""The program of the other process."""


class LifeTests(StoreTests):
    """Who writes at the same time."""

    @asked_of(Feature.SEVERAL_PROCESSES)
    async def test_a_former_life_in_another_process_ends_with_the_next_one(
        self, open_life: OpenLife, make: Records, database_url: str
    ) -> None:
        """While one process writes, another begins the daemon's next life: from then on the first writes nothing, and is told so.

        A daemon that hangs and wakes up again is another process, with connections and caches of its own.
        """
        async with open_life() as store:
            seeded = await store.transact(make.seed)
        with _writing(database_url, DAEMON, seeded.room.id) as former:
            assert former.stdout is not None
            said = [await to_thread.run_sync(former.stdout.readline) for _ in range(10)]
            async with open_life() as store:
                at_once = await _events(store, seeded)
                said += await to_thread.run_sync(_rest, former, at_once[-1].seq)
                assert await _events(store, seeded) == at_once
        assert said[-1].strip() == FencedError.code
        assert [int(line) for line in said[:-1]] == [event.seq for event in at_once]

    @pytest.mark.guarantee("CONT-11")
    @asked_of(Feature.SEVERAL_DAEMONS, Feature.SEVERAL_PROCESSES)
    async def test_two_processes_number_a_room_without_gaps(self, open_life: OpenLife, make: Records, database_url: str) -> None:
        """Two daemons that write into one room at the same time, from its first event on, leave numbers without gaps or twins.

        A number that a process keeps in its memory is another process's as well.
        """
        async with open_life() as store:
            seeded = await store.transact(make.seed)
            with _writing(database_url, OTHER, seeded.room.id) as other:
                assert other.stdout is not None
                said = []
                for _ in range(MANY):
                    await store.transact(lambda repos: repos.events.append(seeded.room.id, None, [NOTICE]))
                    said.append(await to_thread.run_sync(other.stdout.readline))
                async with open_life(daemon_id=OTHER) as next_life:
                    said += await to_thread.run_sync(_rest, other, (await _events(next_life, seeded))[-1].seq)
            assert "".join(said).split()[-1] == FencedError.code
            events = await _events(store, seeded)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert len([event for event in events if event.payload == NOTICE]) == MANY

    @pytest.mark.guarantee("CONT-11")
    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_the_first_event_of_a_room_may_be_contended(self, open_life: OpenLife, make: Records) -> None:
        """Two daemons that begin a room's numbers at the same moment both write, one after the other.

        The row that is counted with does not exist yet, so there is nothing to lock: both make it.
        """
        begun, go_on = threading.Event(), threading.Event()

        def first(repos: Repos) -> None:
            repos.events.append(seeded.room.id, None, [NOTICE])
            begun.set()
            assert go_on.wait(WAIT_S)

        async def second() -> None:
            await two.transact(lambda repos: repos.events.append(seeded.room.id, None, [NOTICE, NOTICE]))

        async with open_life() as one, open_life(daemon_id=OTHER) as two:
            seeded = await one.transact(make.seed)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.transact, first)
                await to_thread.run_sync(begun.wait)
                tasks.start_soon(second)
                await anyio.sleep(LET_IT_WAIT_S)
                go_on.set()
            assert [event.seq for event in await _events(one, seeded)] == [1, 2, 3]

    @pytest.mark.guarantee("CONT-11")
    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_daemons_at_once_number_a_room_without_gaps(self, open_life: OpenLife, make: Records) -> None:
        """A store of each of four daemons writes at the same moment; the very first event is contended too.

        A number that two of them take is a lost event, and one that none of them takes is waited for.
        """
        daemons = [UUID(int=number) for number in range(10, 14)]
        async with open_life() as store:
            seeded = await store.transact(make.seed)
            async with anyio.create_task_group() as tasks:
                for daemon in daemons:
                    tasks.start_soon(_write, open_life, daemon, seeded)
            events = await _events(store, seeded)
            assert [event.seq for event in events] == list(range(1, len(daemons) * MANY + 1))

    @pytest.mark.guarantee("SHARE-1")
    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_one_shared_host_wins(self, open_life: OpenLife, make: Records) -> None:
        """Of daemons that make an agent's Shared host at the same moment one does; the others find that one in the same transaction.

        A loser that does not see the winner fails, or makes a second sandbox for the same agent.
        """
        async with open_life() as store:
            seeded = await store.transact(make.seed)
            found: list[UUID] = []

            def make_one(repos: Repos) -> RuntimeHost | None:
                try:
                    return repos.hosts.insert(make.host(seeded.agent, placement=Placement.SHARED))
                except ConflictError:
                    return repos.hosts.live_shared(seeded.agent.id)

            async def race(daemon: UUID) -> None:
                async with open_life(daemon_id=daemon) as racing:
                    winner = await racing.transact(make_one)
                    assert winner is not None
                    found.append(winner.id)

            async with anyio.create_task_group() as tasks:
                for number in range(10, 14):
                    tasks.start_soon(race, UUID(int=number))
            assert len(found) == 4
            assert len(set(found)) == 1

    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_what_another_one_holds_is_busy(self, open_life: OpenLife, make: Records) -> None:
        """A write that waits longer than the bound for somebody else's transaction is refused by type; a read does not wait at all.

        A backup that holds the database would stop the daemon for ever, or be reported as damage.
        """
        begun, go_on = threading.Event(), threading.Event()

        def hold(repos: Repos) -> None:
            repos.agents.insert(make.agent("one name"))
            begun.set()
            assert go_on.wait(WAIT_S)

        async with open_life() as holder, open_life(daemon_id=OTHER, busy_timeout_s=0.05) as impatient:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(holder.transact, hold)
                await to_thread.run_sync(begun.wait)
                with pytest.raises(StoreBusyError):
                    await impatient.transact(lambda repos: repos.agents.insert(make.agent("one name")))
                assert await impatient.read(lambda repos: repos.agents.list()) == ()
                go_on.set()
            assert len(await impatient.read(lambda repos: repos.agents.list())) == 1
            await impatient.transact(lambda repos: repos.agents.insert(make.agent("another name")))

    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_daemons_begin_at_once(self, open_life: OpenLife) -> None:
        """Each has its own first life.

        Two that begin with one epoch are one daemon to every fence.
        """
        epochs: list[int] = []

        async def begin(daemon: UUID) -> None:
            async with open_life(daemon_id=daemon) as store:
                epochs.append(store.fence.epoch)

        async with anyio.create_task_group() as tasks:
            for number in range(10, 13):
                tasks.start_soon(begin, UUID(int=number))
        assert epochs == [1, 1, 1]


NOTICE = SessionNotice(code="n", detail="")


async def _write(open_life: OpenLife, daemon: UUID, seeded: Seed) -> None:
    async with open_life(daemon_id=daemon) as store:
        for _ in range(MANY):
            await store.transact(lambda repos: repos.events.append(seeded.room.id, None, [NOTICE]))


async def _events(store: Store, seeded: Seed) -> tuple[RoomEvent, ...]:
    return await store.read(lambda repos: repos.events.after(seeded.room.id, 0, PAGE))


def _rest(writer: subprocess.Popen[str], last: int) -> list[str]:
    """Return what a writer that may write no more says until it ends, or until it has written after the last event that there was."""
    assert writer.stdout is not None
    said: list[str] = []
    while line := writer.stdout.readline():
        said.append(line)
        if line.strip().isdigit() and int(line) > last:
            break
    return said


@contextmanager
def _writing(url: str, daemon: UUID, room: UUID) -> Iterator[subprocess.Popen[str]]:
    """Run the writer; it has ended when the context does."""
    argv = (*WRITER, url, str(daemon), str(room))
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
