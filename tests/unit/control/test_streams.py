"""Event streams: numbered, resumable, alive, and never slowing the daemon down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest
from aiohttp import web

from jamcore.control import wire
from jamcore.control.client import JamClient
from jamcore.control.failures import ConnectionDroppedError, DaemonStoppedError, RemoteRefusalError
from jamcore.control.reach import Reach
from jamcore.control.sse import read_events
from jamcore.control.streams import STOPPING, RoomStream
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import CommandOutput, RoomEvent
from jamcore.domain.requests import RoomRequest, TurnRequest
from jamcore.testing.fake_daemon.daemon import running

if TYPE_CHECKING:
    from tests.unit.control.conftest import Ask, Served

pytestmark = pytest.mark.anyio

Until = Callable[[Callable[[], bool]], Awaitable[None]]
ROOM = UUID(int=1 << 96)


@pytest.fixture
async def room(served: Served, until: Until) -> str:
    """A room with one finished turn."""
    await served.client.create_room(RoomRequest(id=ROOM, provider="codex", name="r"))
    await served.client.say("r", TurnRequest(id=UUID(int=2), text="hi"))
    await until(lambda: len(served.fake.rooms[ROOM].events) == 12)
    return "r"


async def frames(served: Served, target: str, **headers: str) -> list[tuple[str, int | None]]:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    async with wire.exchange(await wire.connect(served.socket), wire.Request("GET", target, fields)) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [(frame.kind, frame.id) async for frame in read_events(answer.chunks())]


@pytest.mark.guarantee("CTRL-2")
async def test_a_stream_can_be_resumed_by_number(served: Served, room: str) -> None:
    """After any number come exactly the later events; the header of a reconnecting reader wins over its URL."""
    whole = [*(("event", n) for n in range(1, 13)), ("end", None)]
    assert await frames(served, f"/v1/rooms/{room}/events?follow=0") == whole
    assert await frames(served, f"/v1/rooms/{room}/events?follow=0&after=9") == whole[9:]
    assert await frames(served, f"/v1/rooms/{room}/events?follow=0&after=2", Last_Event_ID="11") == whole[11:]
    assert await frames(served, f"/v1/rooms/{room}/events?follow=0&after=12") == [("end", None)]


@pytest.mark.guarantee("CTRL-2")
async def test_a_stream_follows_what_happens(served: Served, room: str) -> None:
    """Deltas arrive as they are made, in order and without a gap."""
    seen: list[RoomEvent] = []
    async with aclosing(served.client.events(room, after=12)) as events:
        await served.client.say(room, TurnRequest(id=UUID(int=3), text="wait"))
        async for event in events:
            seen.append(event)
            if event.payload.kind == "text.delta" and sum(e.payload.kind == "text.delta" for e in seen) == 2:
                await served.client.interrupt(room)
            if event.payload.kind == "turn.state" and event.payload.state == "interrupted":
                break
    assert [event.seq for event in seen] == list(range(13, 13 + len(seen)))


async def test_the_end_of_a_reader_ends_its_subscription(served: Served, room: str, until: Until) -> None:
    """A reader that goes away is forgotten at the next event, and the room goes on."""
    async with aclosing(served.client.events(room)) as events:
        await anext(events)
        assert served.fake.readers == 1
    await served.client.say(room, TurnRequest(id=UUID(int=3), text="hi"))
    await until(lambda: served.fake.readers == 0)


async def test_an_unknown_room_is_an_ordinary_refusal(served: Served, ask: Ask) -> None:
    """The stream of a room that does not exist never begins."""
    said = await ask("GET", "/v1/rooms/nobody/events")
    assert (said.status, said.json["code"]) == (404, "input.not_found")
    with pytest.raises(RemoteRefusalError):
        await anext(served.client.events("nobody"))


@pytest.mark.guarantee("CTRL-4")
async def test_a_stop_ends_streams_by_type(app_directory: Path, until: Until) -> None:
    """A reader learns that the daemon was stopped on purpose, and does not start it again."""
    client = JamClient(Reach(app_directory, environ={}, start=True, command=("/bin/false",)))
    told: list[int] = []
    seen: list[int] = []

    async def read() -> None:
        try:
            async with aclosing(client.events("r")) as events:
                async for each in events:
                    seen.append(each.seq)  # noqa: PERF401 - looked at while it grows
        except DaemonStoppedError as error:
            told.append(error.last_seq)

    async with anyio.create_task_group() as tasks, running(app_directory, app_directory / "run") as _:
        await client.create_room(RoomRequest(id=ROOM, provider="codex", name="r"))
        await client.say("r", TurnRequest(id=UUID(int=2), text="wait"))
        tasks.start_soon(read)
        await until(lambda: seen == [1, 2, 3, 4, 5])
    assert told == [5]


# ------------------------------------------------------------------------------------------- a stream with bounds of its own


class OneRoom:
    """A room service whose events a test writes."""

    def __init__(self, source: Callable[[], AsyncIterator[RoomEvent]]) -> None:
        self.source = source
        self.open = 0

    @asynccontextmanager
    async def events(self, ref: str, *, after: int, follow: bool) -> AsyncIterator[AsyncIterator[RoomEvent]]:
        """See ``RoomService.events``."""
        del ref, after, follow
        self.open += 1
        try:
            yield self.source()
        finally:
            self.open -= 1


@asynccontextmanager
async def serving_one(tmp_path: Path, rooms: OneRoom, stopping: anyio.Event | None = None, **bounds: float) -> AsyncIterator[Path]:
    """Serve one stream with small bounds."""

    async def handle(request: web.Request) -> web.StreamResponse:
        stream = RoomStream(rooms, "r", after=0, follow=True, **bounds)
        return await stream.answer(request)

    app = web.Application()
    app[STOPPING] = stopping or anyio.Event()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(tmp_path / "s")).start()
        yield tmp_path / "s"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[wire.Answer]:
    async with wire.exchange(await wire.connect(path), wire.Request("GET", "/", {})) as answer:
        yield answer


def event(seq: int, text: str) -> RoomEvent:
    return RoomEvent(
        room_id=ROOM, seq=seq, at=datetime(2026, 1, 1, tzinfo=UTC), turn_id=None, payload=CommandOutput(item="i", text=text)
    )


async def test_an_idle_stream_has_a_heartbeat(tmp_path: Path) -> None:
    """A comment is sent while nothing happens; a reader that understands nothing but events never sees it."""

    async def nothing() -> AsyncIterator[RoomEvent]:
        await anyio.sleep_forever()
        yield event(1, "never")

    rooms = OneRoom(nothing)
    async with serving_one(tmp_path, rooms, heartbeat_s=0.01) as path, reading(path) as answer, aclosing(answer.chunks()) as chunks:
        assert await anext(chunks) == b": heartbeat\n\n"


@pytest.mark.guarantee("CTRL-2")
async def test_a_reader_that_does_not_read_is_cut(tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture) -> None:
    """It holds its subscription for a bounded time only, and can resume by number."""

    async def flood() -> AsyncIterator[RoomEvent]:
        for seq in range(1, 1000):
            yield event(seq, "x" * 100_000)

    rooms = OneRoom(flood)
    async with serving_one(tmp_path, rooms, slow_reader_s=0.05) as path:
        stream = await wire.connect(path)
        await stream.send(wire.Request("GET", "/", {}).head())
        await until(lambda: rooms.open == 1)
        await until(lambda: rooms.open == 0)
        await anyio.aclose_forcefully(stream)
    assert "stream cut" in caplog.text


@pytest.mark.guarantee("CTRL-2")
async def test_a_slow_reader_gets_an_event_that_takes_longer_than_the_bound(tmp_path: Path) -> None:
    """What it takes counts, not how long a write lasts: cut by that, it would be cut at the same event for ever."""

    async def long() -> AsyncIterator[RoomEvent]:
        yield event(1, "x" * 1_000_000)
        yield event(2, "y")

    taken = bytearray()
    async with serving_one(tmp_path, OneRoom(long), slow_reader_s=0.4) as path, await wire.connect(path) as stream:
        await stream.send(wire.Request("GET", "/", {"Connection": "close"}).head())
        with suppress(anyio.EndOfStream):
            while True:
                await anyio.sleep(0.02)  # 50 of these in the bound, and as many as needed for the event
                taken += await stream.receive(16 << 10)
    assert b"x" * 30_000 in taken
    assert taken.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.guarantee("START-4")
async def test_a_reader_that_does_not_read_keeps_no_daemon_from_its_end(
    tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that waits for its reader, and would for a long time yet, is given up soon after the stop was asked for."""
    monkeypatch.setattr("jamcore.control.streams.PARTING_S", 0.05)
    sent: list[int] = []

    async def flood() -> AsyncIterator[RoomEvent]:
        for seq in range(1, 1000):
            sent.append(seq)
            yield event(seq, "x" * 100_000)

    rooms, stopping = OneRoom(flood), anyio.Event()
    async with serving_one(tmp_path, rooms, stopping, slow_reader_s=600.0) as path:
        stream = await wire.connect(path)
        await stream.send(wire.Request("GET", "/", {}).head())
        await until(lambda: len(sent) > 0)
        stopping.set()
        await until(lambda: rooms.open == 0)
        assert len(sent) < 999
        await anyio.aclose_forcefully(stream)


@pytest.mark.guarantee("CTRL-3")
async def test_an_error_in_the_middle_arrives_typed(tmp_path: Path) -> None:
    """What the service refuses after the stream has begun is the stream's last event."""

    async def broken() -> AsyncIterator[RoomEvent]:
        yield event(1, "a")
        raise ConflictError(kind="room", ref="r", problem="moved")

    async with serving_one(tmp_path, OneRoom(broken)) as path, reading(path) as answer:
        seen = [frame async for frame in read_events(answer.chunks())]
    assert [frame.kind for frame in seen] == ["event", "refusal"]
    assert "conflict.changed_record" in seen[1].data


async def test_an_unforeseen_error_in_the_middle_cuts_the_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It never looks like an end, and its details stay in the log."""

    async def broken() -> AsyncIterator[RoomEvent]:
        yield event(1, "a")
        raise RuntimeError("hunter2")

    async with serving_one(tmp_path, OneRoom(broken)) as path, reading(path) as answer:
        with pytest.raises(ConnectionDroppedError):
            _ = [frame async for frame in read_events(answer.chunks())]
    assert "hunter2" in caplog.text
