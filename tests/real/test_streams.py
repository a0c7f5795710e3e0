"""Streams of a real daemon while the real program says very much: no gap, nothing twice, and no reader that slows a turn (CTRL-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Literal, Self, cast
from uuid import UUID

import anyio
import pytest
from anyio import to_thread
from anyio.abc import SocketStream

from jamcore.control import wire
from jamcore.control.client import JamClient
from jamcore.control.failures import ConnectionDroppedError, DaemonNotRunningError, DaemonStoppedError, StreamCutError
from jamcore.control.reach import Reach
from jamcore.control.sse import read_events
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.testing.daemon import BACKSTOP_S, DaemonChild, running_daemon
from jamcore.testing.rooms import ENDED, ask, managed, new_id
from jamcore.testing.servers.responses import Hold, Match, ResponsesServer, Rule, Script, Text, say

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap"),
    pytest.mark.guarantee("CTRL-2"),
    pytest.mark.slow,
]

PROVIDER = "codex"
DELTAS = tuple(f"{number:06d} " for number in range(100_000))
"""All different, so that one that is missing, doubled or in a wrong place shows; the whole is shorter than the longest text of an event."""
FLOOD = "say very much"
ITEMS = 1_000
MANY = "say many things"
GATE = "middle"
HALTING = "say half of it"
STARTED = "say a word"
RULES = (
    say(*DELTAS, match=Match(last_user_contains=FLOOD)),
    Rule(match=Match(last_user_contains=MANY), answer=tuple(Text(deltas=(f"{number} ", "said")) for number in range(ITEMS))),
    Rule(
        match=Match(last_user_contains=HALTING),
        answer=(Text(deltas=DELTAS, hold=Hold(gate=GATE, after=len(DELTAS) // 2)),),
    ),
    say("A word."),
)

STOPS_AT = 5 << 10
GROWTH_BYTES = 64 << 20
"""What a turn may add to the daemon's memory at its peak.

Bounded are the events that wait on each side of the recorder (256 each) and one line of the program, one event and one frame for each
reader, each of which holds the whole text (0.7 MB here) once or twice. An object for each delta that nobody has read would be more
than this: each of the 100,000 costs about 1 KiB as an event, and twice that as a line.
"""


@pytest.fixture
async def talker() -> AsyncIterator[ResponsesServer]:
    """A model that says very much."""
    async with ResponsesServer(Script(rules=RULES)) as server:
        yield server


@pytest.fixture
async def room(client: JamClient, talker: ResponsesServer) -> RoomView:
    """A room whose agent has said a word: everything that is loaded once is loaded."""
    made = await client.create_room(managed(PROVIDER, talker.base_url))
    await ask(client, made, STARTED)
    return made


class SlowReader:
    """Takes 1 KiB in a second, after the fifth nothing at all, until it is told to hurry."""

    def __init__(self) -> None:
        self.taken = 0
        self.hurry = anyio.Event()

    async def connect(self, app: Path) -> SocketStream:
        """Return a connection to the daemon that is read so."""
        return cast("SocketStream", _SlowStream(await Reach(app, environ={}).open(), self))

    async def pace(self) -> int:
        """Wait until something may be taken, and return how much."""
        if self.hurry.is_set():
            return 65_536
        with anyio.move_on_after(1.0 if self.taken < STOPS_AT else None):
            await self.hurry.wait()
        return 1_024


class _SlowStream:
    def __init__(self, stream: SocketStream, reader: SlowReader) -> None:
        self._stream = stream
        self._reader = reader
        self.send = stream.send
        self.aclose = stream.aclose

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        data = await self._stream.receive(min(max_bytes, await self._reader.pace()))
        self._reader.taken += len(data)
        return data


def ends(event: RoomEvent, turn: UUID) -> bool:
    """Whether an event is the end of a turn."""
    return event.turn_id == turn and event.payload.kind == "turn.state" and event.payload.state in ENDED


def told(events: list[RoomEvent]) -> str:
    """Return what was told piece by piece."""
    return "".join(event.payload.text for event in events if event.payload.kind == "text.delta")


async def followed(client: JamClient, ref: str, seen: list[RoomEvent], turn: UUID) -> None:
    """Follow as fast as it comes, to the end of a turn."""
    async with aclosing(client.events(ref)) as events:
        async for event in events:
            seen.append(event)
            if ends(event, turn):
                return


async def followed_slowly(app: Path, ref: str, seen: list[RoomEvent], slow: SlowReader, turn: UUID) -> None:
    """Follow through connections of a slow reader; one that the daemon gave up is taken up again after the last event."""
    while not (seen and ends(seen[-1], turn)):
        last = seen[-1].seq if seen else 0
        target = f"/v1/rooms/{ref}/events?after={last}"
        with suppress(ConnectionDroppedError):
            async with (
                wire.exchange(await slow.connect(app), wire.Request("GET", target, {})) as answer,
                aclosing(read_events(answer.chunks())) as frames,
            ):
                async for frame in frames:
                    seen.append(RoomEvent.model_validate_json(frame.data))
                    if ends(seen[-1], turn):
                        return


async def stored(client: JamClient, ref: str) -> list[RoomEvent]:
    """Return the whole room from the store; it has every number once."""
    events = [event async for event in client.events(ref, follow=False)]
    assert [event.seq for event in events] == list(range(1, (await client.room(ref)).last_seq + 1))
    return events


def forget_peak(pid: int) -> int:
    """Begin to measure a process's highest memory anew, and return what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak(pid)


def peak(pid: int) -> int:
    """Return the most memory that a process had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


async def test_a_hundred_thousand_deltas(client: JamClient, daemon: DaemonChild, app: Path, room: RoomView) -> None:
    """A reader that stops reading slows neither the turn nor the two others, and misses nothing.

    The turn is over before that reader has read a tenth; then it catches up. The daemon's memory does not grow with what was said.
    """
    ref = str(room.room.id)
    before = forget_peak(daemon.pid)
    first, second, third = list[RoomEvent](), list[RoomEvent](), list[RoomEvent]()
    slow = SlowReader()
    turn = await client.say(ref, TurnRequest(id=new_id(), text=FLOOD))
    async with anyio.create_task_group() as late:
        late.start_soon(followed_slowly, app, ref, third, slow, turn.id)
        async with anyio.create_task_group() as prompt:
            prompt.start_soon(followed, client, ref, first, turn.id)
            prompt.start_soon(followed, client, ref, second, turn.id)
        taken = slow.taken
        grown = peak(daemon.pid) - before
        slow.hurry.set()
    assert 0 < taken < slow.taken / 10
    assert grown < GROWTH_BYTES
    everything = await stored(client, ref)
    assert everything == first == second == third
    assert told([event for event in everything if event.turn_id == turn.id]) == "".join(DELTAS)
    assert [event.payload.text for event in everything if event.payload.kind == "message"][-1] == "".join(DELTAS)


async def test_a_reader_that_reconnects_at_every_number(client: JamClient, room: RoomView) -> None:
    """It takes one event of each connection, while they come and afterwards, and gets each of some thousand exactly once."""
    ref = str(room.room.id)
    turn = await client.say(ref, TurnRequest(id=new_id(), text=MANY))
    seen: list[RoomEvent] = []
    while not (seen and ends(seen[-1], turn.id)):
        async with aclosing(client.events(ref, after=seen[-1].seq if seen else 0)) as events:
            seen.append(await anext(events))
    everything = await stored(client, ref)
    assert everything == seen
    assert len(everything) > 2 * ITEMS


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_reader_across_a_daemons_end(
    daemon: DaemonChild, talker: ResponsesServer, how: Literal["killed", "stopped"]
) -> None:
    """What it was shown before is in the store afterwards, under the same number; it goes on there, in the next turn too."""
    seen: list[RoomEvent] = []
    half = "".join(DELTAS[: len(DELTAS) // 2])
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed(PROVIDER, talker.base_url))
        ref = str(room.room.id)
        await client.say(ref, TurnRequest(id=new_id(), text=HALTING))

        async def shown() -> None:
            async with aclosing(client.events(ref)) as events:
                async for event in events:
                    seen.append(event)
                    if told(seen) == half:
                        await to_thread.run_sync(daemon.kill if how == "killed" else daemon.terminate)

        with pytest.raises((StreamCutError, DaemonNotRunningError, DaemonStoppedError)):
            await shown()
        await to_thread.run_sync(daemon.reap, BACKSTOP_S)
        talker.release(GATE)
        daemon.start()
        await daemon.up()
        await client.resume(ref)
        turn = await client.say(ref, TurnRequest(id=new_id(), text=STARTED))
        async with aclosing(client.events(ref, after=seen[-1].seq)) as events:
            async for event in events:
                seen.append(event)
                if ends(event, turn.id):
                    break
        assert await stored(client, ref) == seen
    assert told(seen).startswith(half)
