"""Transactions: whole or not at all, one writer, never torn by cancellation."""

from __future__ import annotations

import threading
import time

import anyio
import pytest
from anyio import to_thread

from jamcore.domain.errors import NotFoundError
from jamcore.domain.events import Message, RoomPayload, SessionNotice
from jamcore.store import Repos, Store, StoreConstraintError
from jamcore.testing.store.base import StoreTests
from jamcore.testing.store.records import Records, Seed


class TransactionTests(StoreTests):
    """Whole or not at all."""

    async def test_an_error_undoes_everything_before_it(self, store: Store, make: Records) -> None:
        """What a transaction wrote before it failed is not there, and the error arrives as it was raised.

        What is left of half a request is in the way of its retry.
        """
        agent = make.agent()

        def work(repos: Repos) -> None:
            repos.agents.insert(agent)
            repos.rooms.find("nobody")

        with pytest.raises(NotFoundError):
            await store.transact(work)
        assert await store.read(lambda repos: repos.agents.list()) == ()

    async def test_a_row_that_refers_to_nothing_is_a_fault_of_ours(self, store: Store, make: Records) -> None:
        """A broken reference is not written, and is told from a damaged database.

        A person who is told to look at the disk, or at what was typed, looks for a fault that is not there.
        """
        with pytest.raises(StoreConstraintError):
            await store.transact(lambda repos: repos.rooms.insert(make.room(make.agent())))
        assert await store.read(lambda repos: repos.rooms.list()) == ()

    @pytest.mark.guarantee("CONT-11")
    async def test_a_hundred_writers_leave_numbers_without_gaps(self, store: Store, seeded: Seed) -> None:
        """Every event of a hundred concurrent transactions has its own number, each pair next to each other, none is missing.

        Clients read on from the last number that they saw: a gap is waited for, and a twin is not seen.
        """
        seen: list[tuple[int, int]] = []

        async def write(number: int) -> None:
            pair: list[RoomPayload] = [SessionNotice(code="n", detail=str(number)), Message(item="i", text=str(number))]
            first, second = await store.transact(lambda repos: repos.events.append(seeded.room.id, None, pair))
            seen.append((first.seq, second.seq))

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(write, number)
        assert sorted(number for pair in seen for number in pair) == list(range(1, 201))
        assert all(second == first + 1 for first, second in seen)
        stored = await store.read(lambda repos: repos.events.after(seeded.room.id, 0, 1000))
        assert [event.seq for event in stored] == list(range(1, 201))

    async def test_writers_never_overlap(self, store: Store) -> None:
        """Two transactions of one store run one after the other, however many are asked for.

        What a transaction reads would change before it writes.
        """
        inside, most = 0, 0
        gate = threading.Lock()

        def work(_repos: Repos) -> None:
            nonlocal inside, most
            with gate:
                inside += 1
                most = max(most, inside)
            time.sleep(0.002)
            with gate:
                inside -= 1

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(store.transact, work)
        assert most == 1

    async def test_a_read_goes_on_beside_a_write_and_sees_one_moment(self, store: Store, make: Records) -> None:
        """A reader sees the state before a transaction that is still open, also when it looks twice.

        A list would stand still while a room is made, or show one that never came to be.
        """
        begun, go_on = threading.Event(), threading.Event()
        agent = make.agent()

        def write(repos: Repos) -> None:
            repos.agents.insert(agent)
            begun.set()
            assert go_on.wait(10)

        def look(repos: Repos) -> tuple[int, int]:
            before = len(repos.agents.list())
            go_on.set()
            return before, len(repos.agents.list())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.transact, write)
            await to_thread.run_sync(begun.wait)
            assert await store.read(look) == (0, 0)
        assert await store.read(lambda repos: len(repos.agents.list())) == 1

    async def test_a_read_keeps_its_view_while_others_commit(self, store: Store, make: Records) -> None:
        """A commit in the middle of a read does not show in it.

        A room and its session that are read at two moments do not belong together.
        """
        begun, go_on = threading.Event(), threading.Event()
        seen: list[tuple[int, int]] = []

        def look(repos: Repos) -> tuple[int, int]:
            before = len(repos.agents.list())
            begun.set()
            assert go_on.wait(10)
            return before, len(repos.agents.list())

        async def reader() -> None:
            seen.append(await store.read(look))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await to_thread.run_sync(begun.wait)
            await store.transact(lambda repos: repos.agents.insert(make.agent()))
            go_on.set()
        assert seen == [(0, 0)]

    async def test_cancellation_never_tears_a_transaction(self, store: Store, make: Records) -> None:
        """A transaction whose task is cancelled while it runs is committed whole; both of its rows are there.

        A client that hangs up must leave neither half a room nor one that appears only later.
        """
        begun = threading.Event()
        one, two = make.agent("one"), make.agent("two")

        def work(repos: Repos) -> None:
            repos.agents.insert(one)
            begun.set()
            time.sleep(0.02)
            repos.agents.insert(two)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.transact, work)
            await to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
        assert await store.read(lambda repos: [agent.name for agent in repos.agents.list()]) == ["one", "two"]

    async def test_a_finaliser_can_still_write(self, store: Store, make: Records) -> None:
        """In a scope that is cancelled already, a transaction is carried out and its answer returned.

        What is noted while a task is being ended, such as a turn that was cut, is what the next life relies on.
        """
        agent = make.agent()
        with anyio.CancelScope() as scope:
            scope.cancel()
            assert await store.transact(lambda repos: repos.agents.insert(agent)) == agent
        assert await store.read(lambda repos: repos.agents.get(agent.id)) == agent

    async def test_cancelled_transactions_are_whole_or_absent(self, store: Store, make: Records) -> None:
        """Of fifty writers that are cancelled at different moments, each left both rows or none.

        A daemon that goes down cancels many at once, also those that wait their turn.
        """
        agents = [(make.agent(f"{number}a"), make.agent(f"{number}b")) for number in range(50)]

        async def write(number: int) -> None:
            await anyio.sleep(number * 0.0005)
            await store.transact(lambda repos: [repos.agents.insert(agent) for agent in agents[number]])

        with anyio.move_on_after(0.012):
            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(write, number)
        names = [agent.name[:-1] for agent in await store.read(lambda repos: repos.agents.list())]
        assert all(names.count(name) == 2 for name in names)
