"""A room's feed: numbered without gaps, resumable, never lost; and how a turn's deltas get into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import pytest

from jamcore.domain.events import Message, RoomEvent, RoomPayload, TextDelta, UserSaid
from jamcore.domain.sessions import Agent, Room
from jamcore.runtime.feed import PAGE, RoomFeed
from jamcore.runtime.recorder import BEHIND, JOINED, recording
from jamcore.store import Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files

pytestmark = pytest.mark.unprivileged
WAIT_S = 10.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A real database."""
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=uuid4()) as opened:
        yield opened


@pytest.fixture
async def room(store: Store) -> UUID:
    """A room in it."""
    now = datetime.now(UTC)
    agent = Agent(id=uuid4(), name="a", provider="p", created_at=now)
    made = Room(id=uuid4(), name="r", agent_id=agent.id, created_at=now)
    await store.transact(lambda repos: (repos.agents.insert(agent), repos.rooms.insert(made)))
    return made.id


async def read(feed: RoomFeed, room: UUID, *, after: int = 0) -> list[RoomEvent]:
    """Return what is stored after a number."""
    async with feed.following(room, after=after, follow=False) as events:
        return [event async for event in events]


@pytest.mark.guarantee("CTRL-2")
async def test_a_follower_can_resume_by_number(store: Store, room: UUID) -> None:
    """Whoever read up to N gets N+1 first, over page boundaries too, and no number is missing."""
    feed = RoomFeed(store)
    count = PAGE + 10
    await feed.append(room, None, [UserSaid(text=str(n)) for n in range(count)])
    assert [event.seq for event in await read(feed, room)] == list(range(1, count + 1))
    assert [event.seq for event in await read(feed, room, after=PAGE + 5)] == list(range(PAGE + 6, count + 1))


async def test_a_follower_that_waits_is_woken_and_misses_nothing(store: Store, room: UUID) -> None:
    """Events that are committed while a follower reads or waits all reach it, in order."""
    feed = RoomFeed(store)
    seen: list[int] = []
    count = 40

    async def follow() -> None:
        async with feed.following(room, after=0, follow=True) as events:
            async for event in events:
                seen.append(event.seq)
                if len(seen) == count:
                    return

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            for n in range(count):
                await feed.append(room, None, [UserSaid(text=str(n))])
    assert seen == list(range(1, count + 1))


async def test_two_followers_do_not_disturb_each_other(store: Store, room: UUID) -> None:
    """One that leaves does not stop the other."""
    feed = RoomFeed(store)

    async def until(last: int) -> list[int]:
        found = []
        async with feed.following(room, after=0, follow=True) as events:
            async for event in events:
                found.append(event.seq)
                if event.seq == last:
                    break
        return found

    results: dict[str, list[int]] = {}

    async def run(name: str, last: int) -> None:
        results[name] = await until(last)

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "short", 1)
            tasks.start_soon(run, "long", 3)
            for n in range(3):
                await feed.append(room, None, [UserSaid(text=str(n))])
    assert results == {"short": [1], "long": [1, 2, 3]}


async def test_deltas_are_joined_and_come_before_their_message(store: Store, room: UUID) -> None:
    """However many deltas a model writes, the room stores few events, with every character, before the whole text."""
    feed = RoomFeed(store)
    turn = uuid4()
    async with recording(feed, room=room, turn=turn) as recorder:
        for n in range(100):
            await recorder.record(TextDelta(item="m", text=f"{n} "))
        await recorder.record(Message(item="m", text="whole"))
    events = await read(feed, room)
    assert "".join(e.payload.text for e in events if isinstance(e.payload, TextDelta)) == "".join(f"{n} " for n in range(100))
    assert isinstance(events[-1].payload, Message)
    assert len(events) < 10
    assert {event.turn_id for event in events} == {turn}


@pytest.mark.guarantee("CTRL-2")
async def test_what_waits_for_a_slow_disk_is_bounded(store: Store, room: UUID) -> None:
    """While the disk stands still a model is heard up to a bound, then no more; in the end everything is there, in bounded events."""
    stuck, taken = anyio.Event(), 0

    class Stuck(RoomFeed):
        async def append(self, room: UUID, turn: UUID | None, payloads: Sequence[RoomPayload]) -> None:
            await stuck.wait()
            await super().append(room, turn, payloads)

    piece, count = "x" * (JOINED // 4), 8 * BEHIND
    with anyio.fail_after(WAIT_S):
        async with recording(Stuck(store), room=room, turn=uuid4()) as recorder, anyio.create_task_group() as tasks:

            async def speak() -> None:
                nonlocal taken
                for _ in range(count):
                    await recorder.record(TextDelta(item="m", text=piece))
                    await anyio.lowlevel.checkpoint()
                    taken += 1

            tasks.start_soon(speak)
            await anyio.wait_all_tasks_blocked()
            heard = taken
            stuck.set()
    texts = [e.payload.text for e in await read(RoomFeed(store), room) if isinstance(e.payload, TextDelta)]
    assert heard < count
    assert sum(map(len, texts)) == count * len(piece)
    assert max(map(len, texts)) < 2 * JOINED


async def test_what_was_buffered_is_committed_when_a_turn_ends_in_an_error(store: Store, room: UUID) -> None:
    """A provider that dies in the middle of a text leaves what it had said."""
    feed = RoomFeed(store)

    async def die() -> None:
        async with recording(feed, room=room, turn=uuid4()) as recorder:
            await recorder.record(TextDelta(item="m", text="half"))
            raise RuntimeError("died")

    with pytest.raises(RuntimeError, match="died"):
        await die()
    assert [e.payload.text for e in await read(feed, room) if isinstance(e.payload, TextDelta)] == ["half"]


async def test_what_was_buffered_is_committed_when_a_turn_is_cancelled(store: Store, room: UUID) -> None:
    """A cancelled turn too."""
    feed = RoomFeed(store)
    with anyio.CancelScope() as scope:
        async with recording(feed, room=room, turn=uuid4()) as recorder:
            await recorder.record(TextDelta(item="m", text="half"))
            scope.cancel()
            await anyio.sleep_forever()
    assert len(await read(feed, room)) == 1
