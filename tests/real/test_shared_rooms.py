"""Several rooms of one agent in one sandbox and one program: each has its thread, its directory and its turns, and nothing of another's.

Every recorded request of the model names its thread and holds exactly the items of the room whose thread it is: tokens tell whose each is.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.cells import Placement
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import HostState, SessionState, TurnState
from jamcore.testing.daemon import DaemonChild, gone, kill, parked, room_event, until, victims
from jamcore.testing.exchanges import LOG, Exchange, said_in
from jamcore.testing.rooms import ask, cloned, managed, new_id, refused, said_in_room
from jamcore.testing.servers.history import Item, contains_in_order
from jamcore.testing.servers.responses import ResponsesServer, Script, held_at

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.needs("codex", "bubblewrap")]

PROVIDER = "codex"
TURNS = 6
"""Turns that are scripted for each room."""


@dataclass(slots=True)
class Room:
    """One room, its scripted turns and what its thread must have been told."""

    number: int
    exchanges: list[Exchange]
    view: RoomView | None = None
    expected: list[Item] = field(default_factory=list)
    played: int = 0

    @property
    def known(self) -> RoomView:
        """The room as it was made."""
        assert self.view is not None
        return self.view

    @property
    def ref(self) -> str:
        """How clients name it."""
        return str(self.known.room.id)

    @property
    def marks(self) -> re.Pattern[str]:
        """What everything of this room carries."""
        return re.compile(rf"r{self.number}t\d+x")

    def next(self) -> Exchange:
        """Return the turn that is played next."""
        self.played += 1
        return self.exchanges[self.played - 1]


def rooms(count: int, *, holding: bool = False) -> list[Room]:
    """Return rooms with a script each; ``holding``: the second turn of each stands still at its first delta."""
    made = []
    for number in range(count):
        turns = [
            Exchange.make(f"task {number}.{turn}", f"r{number}t{turn}x", "delta-1" if holding and turn == 1 else "nowhere")
            for turn in range(TURNS)
        ]
        made.append(Room(number, turns))
    return made


def script(made: list[Room]) -> Script:
    """Return the model's side of all of them; a turn that comes later stands earlier."""
    return Script(rules=tuple(rule for room in made for exchange in reversed(room.exchanges) for rule in exchange.rules()))


@dataclass(slots=True)
class World:
    """Everything of one test."""

    daemon: DaemonChild
    client: JamClient
    model: ResponsesServer
    rooms: list[Room]

    async def open(self) -> None:
        """Make all rooms at once."""

        async def make(room: Room) -> None:
            room.view = await self.client.create_room(managed(PROVIDER, self.model.base_url, placement=Placement.SHARED))

        await self.each(make)

    async def each(self, work: Callable[[Room], Coroutine[Any, Any, None]]) -> None:
        """Do something with all rooms at the same time."""
        async with anyio.create_task_group() as tasks:
            for room in self.rooms:
                tasks.start_soon(work, room)

    async def turn(self, room: Room) -> None:
        """Play the room's next turn to its capture."""
        exchange = room.next()
        turn = await ask(self.client, room.known, exchange.said, limit_s=90)
        assert turn.state is TurnState.CAPTURED, turn
        room.expected.extend(exchange.items())

    async def resume(self, room: Room) -> None:
        """Bring the room back: as the same thread, with a record of it."""
        before = (await self.client.room(room.ref)).session.provider_identity
        view = await self.client.resume(room.ref)
        assert view.live
        assert view.session.provider_identity == before
        observations = (await self.client.inspect(room.ref)).observations
        assert observations[-1].outcome is ObservationOutcome.SUCCEEDED
        assert observations[-1].reported_identity == before

    async def judge(self) -> None:
        """Look at every request the model ever had, at every directory and at every room's events."""
        views = {room.number: await self.client.room(room.ref) for room in self.rooms}
        threads = {view.session.provider_identity: number for number, view in views.items()}
        assert len(threads) == len(self.rooms), "two rooms have one thread"
        tokens = tuple(exchange.token for room in self.rooms for exchange in room.exchanges)
        for request in self.model.model_requests:
            number = threads[request.header("thread-id")]
            found = set(re.findall(r"r\d+t\d+x", str(said_in(request, tokens))))
            assert all(self.rooms[number].marks.fullmatch(mark) for mark in found), f"room {number} was told {found}"
        for room in self.rooms:
            own = [r for r in self.model.model_requests if threads[r.header("thread-id")] == room.number]
            missing = contains_in_order(room.expected[:-1], said_in(own[-1], tokens))
            assert missing is None, f"room {room.number} forgot {missing}"
            self._judge_files(room, views[room.number])
            await self._judge_events(room)
        assert not self.model.unmatched

    def _judge_files(self, room: Room, view: RoomView) -> None:
        directory = self.daemon.app / layout.session_workspace(view.host.id, view.session.id)
        assert sorted(path.name for path in directory.iterdir()) == [LOG]
        lines = (directory / LOG).read_text().split()
        assert lines == [e.token for e in room.exchanges[: room.played] if e.token in lines]
        assert len(lines) == len(set(lines)), "a command ran twice"
        elsewhere = [path for path in directory.parent.iterdir() if path.name == LOG]
        assert not elsewhere, "something ran in the directory of all directories"

    async def _judge_events(self, room: Room) -> None:
        said = ""
        last = 0
        async for event in self.client.events(room.ref, after=0, follow=False):
            assert event.seq == last + 1
            last = event.seq
            said += event.payload.model_dump_json()
        foreign = {mark for mark in re.findall(r"r\d+t\d+x", said) if not room.marks.fullmatch(mark)}
        assert not foreign, f"events of room {room.number} hold {foreign}"


@pytest.fixture
async def world(daemon: DaemonChild, client: JamClient, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A daemon, a model and as many rooms as the test asks for."""
    made = rooms(getattr(request, "param", 2), holding=True)
    async with ResponsesServer(script(made)) as model:
        yield World(daemon, client, model, made)


@pytest.mark.guarantee("SHARE-1", "SHARE-5", "CAP-7")
@pytest.mark.parametrize("world", [2, 8], indirect=True)
async def test_rooms_at_once_share_one_host_and_one_program(world: World) -> None:
    """Made at the same time they converge on one host; their turns run at the same time, each in its own thread and directory."""
    await world.open()
    hosts = {room.known.host.id for room in world.rooms}
    assert len(hosts) == 1
    assert not hosts & {room.known.session.id for room in world.rooms}
    await world.each(world.turn)
    turns = [await world.client.say(room.ref, _message(room.next())) for room in world.rooms]
    for room in world.rooms:  # all stand still in the middle of an answer: at the same time, then
        await world.model.wait_for(held_at(room.exchanges[1].gate), 60)
    for room in world.rooms:
        world.model.release(room.exchanges[1].gate)
        room.expected.extend(room.exchanges[1].items())
    for room, turn in zip(world.rooms, turns, strict=True):
        await until_captured(world.client, room, turn.id)
    await world.judge()


@pytest.mark.guarantee("SHARE-5", "CONT-1", "CONT-11")
@pytest.mark.parametrize("victim", ["provider", "init", "daemon"])
@pytest.mark.parametrize("world", [2, 8], indirect=True)
async def test_kills_in_between(world: World, victim: str) -> None:
    """Killed while all of them are in the middle of an answer: each comes back as exactly its own thread, and goes on."""
    await world.open()
    await world.each(world.turn)
    for room in world.rooms:
        await world.client.say(room.ref, _message(room.next()))
    for room in world.rooms:
        await world.model.wait_for(held_at(room.exchanges[1].gate), 60)
    await strike(world, victim)
    await world.each(world.resume)
    for room in world.rooms:
        room.expected.extend(room.exchanges[1].acknowledged(world.model.model_requests))
        cut = (await world.client.turns(room.ref))[-1]
        assert cut.state is TurnState.CUT, cut
    await world.each(world.turn)
    await world.each(world.turn)
    await world.judge()


async def strike(world: World, victim: str) -> None:
    """Kill, and wait until nothing of it is left and a daemon answers."""
    found = victims(world.daemon.pid)
    assert found is not None
    assert found.provider is not None
    if victim == "daemon":
        family = world.daemon.family()
        await to_thread.run_sync(world.daemon.kill)
        assert not await to_thread.run_sync(gone, family)
        world.daemon.start()
        await world.daemon.up()
    else:
        await to_thread.run_sync(kill, ((found.provider if victim == "provider" else found.init),))
        for room in world.rooms:
            await parked(world.client, room.ref)
    for room in world.rooms:
        world.model.release(room.exchanges[1].gate)


def _message(exchange: Exchange) -> TurnRequest:
    return TurnRequest(id=new_id(), text=exchange.said)


async def until_captured(client: JamClient, room: Room, turn: UUID) -> None:
    """Wait for a turn's capture."""

    def captured(event: RoomEvent) -> bool:
        return event.turn_id == turn and getattr(event.payload, "state", "") == TurnState.CAPTURED

    await room_event(client, room.ref, captured, limit_s=60)


async def ended(client: JamClient, room: Room, turn: UUID) -> None:
    """Wait until the checkpoint after a turn was tried and failed."""

    def failed(event: RoomEvent) -> bool:
        return event.payload.kind == "session.notice" and "the checkpoint after this turn failed" in event.payload.detail

    await room_event(client, room.ref, failed, limit_s=60)
    assert next(t for t in await client.turns(room.ref) if t.id == turn).state is TurnState.COMPLETED


@pytest.mark.guarantee("SHARE-2")
async def test_a_room_leaves_and_comes_back_while_the_other_goes_on(world: World) -> None:
    """The other's turn is in the middle of an answer all the time; the sandbox goes on until the last one leaves, and then is parked."""
    await world.open()
    await world.each(world.turn)
    staying, leaving = world.rooms
    held = await world.client.say(staying.ref, _message(staying.next()))
    await world.model.wait_for(held_at(staying.exchanges[1].gate), 60)
    before = victims(world.daemon.pid)
    result = await world.client.stop(leaving.ref)
    assert result.outcome == "left"
    assert not result.room.live
    assert result.room.session.state is SessionState.DORMANT
    assert result.room.host.state is HostState.ACTIVE
    assert (await world.client.room(staying.ref)).busy
    await world.resume(leaving)
    assert victims(world.daemon.pid) == before, "the program was started again"
    world.model.release(staying.exchanges[1].gate)
    await until_captured(world.client, staying, held.id)
    staying.expected.extend(staying.exchanges[1].items())
    leaving.exchanges.pop(1)
    await world.each(world.turn)
    await world.judge()
    assert (await world.client.stop(leaving.ref)).outcome == "left"
    assert (await world.client.stop(leaving.ref)).outcome == "already-parked"
    assert victims(world.daemon.pid) == before, "a second stop of one room ended the host of the other"
    last = await world.client.stop(staying.ref)
    assert last.outcome == "parked"
    assert last.room.host.state is HostState.PARKED
    await until("nothing runs", lambda: victims(world.daemon.pid) is None)
    assert (await world.client.stop(staying.ref)).outcome == "already-parked"


@pytest.mark.guarantee("CONT-2", "CONT-11")
async def test_a_long_turn_of_one_room_does_not_keep_the_others_next_ones(world: World) -> None:
    """The other's turns run while it goes on and say why they are not captured yet; when it ends, they are, without being asked for."""
    await world.open()
    await world.each(world.turn)
    long, other = world.rooms
    held = await world.client.say(long.ref, _message(long.next()))
    await world.model.wait_for(held_at(long.exchanges[1].gate), 60)
    other.exchanges.pop(1)
    waiting = []
    for _ in range(3):
        exchange = other.next()
        turn = await world.client.say(other.ref, _message(exchange))
        other.expected.extend(exchange.items())
        deferred = await room_event(world.client, other.ref, _deferred_after(turn.id), limit_s=30)
        assert f"the turn of room {long.known.room.name} is running" in getattr(deferred.payload, "detail", "")
        waiting.append(turn.id)
    view = await world.client.room(other.ref)
    assert view.safety.trouble is not None
    assert (view.safety.trouble.deferred, view.safety.turns_outside) == (True, 3)
    assert (await world.client.room(long.ref)).busy
    world.model.release(long.exchanges[1].gate)
    for identifier in waiting:
        await until_captured(world.client, other, identifier)
    await until_captured(world.client, long, held.id)
    long.expected.extend(long.exchanges[1].items())
    view = await world.client.room(other.ref)
    assert (view.safety.trouble, view.safety.turns_outside) == (None, 0)
    await world.judge()


def _deferred_after(turn: UUID) -> Callable[[RoomEvent], bool]:
    """Return a test for the notice that comes after a turn was completed and could not be captured yet."""
    completed = []

    def wanted(event: RoomEvent) -> bool:
        if event.turn_id == turn and getattr(event.payload, "state", "") == TurnState.COMPLETED:
            completed.append(event.seq)
        return bool(completed) and getattr(event.payload, "code", "") == "continuity.host_busy"

    return wanted


@pytest.mark.guarantee("SHARE-3", "CAP-4")
async def test_another_endpoint_is_refused_and_another_agent_is_not(world: World) -> None:
    """The refusal names what differs; an agent of another name has a host of its own, with the other endpoint."""
    await world.open()
    other = world.model.base_url.replace("127.0.0.1", "localhost")
    request = managed(PROVIDER, other, placement=Placement.SHARED)
    with refused("shared_host.incompatible") as caught:
        await world.client.create_room(request)
    assert "endpoint" in caught.value.context()["differs"]
    assert len(await world.client.rooms()) == 2
    mine = await world.client.create_room(request.model_copy(update={"agent": "second", "id": new_id()}))
    assert mine.host.id != world.rooms[0].known.host.id
    with refused("capability.no_such_cell"):
        await world.client.create_room(cloned(PROVIDER, other, "/x", placement=Placement.SHARED))


@pytest.mark.guarantee("PREP-5")
async def test_a_workspace_that_cannot_be_made_is_one_rooms_trouble(world: World) -> None:
    """The room stays as a dormant session that can be tried again; the other room never notices."""
    await world.open()
    staying = world.rooms[0]
    host = staying.known.host.id
    sessions = world.daemon.app / layout.workspace_root(host) / "sessions"
    held = sessions.with_name("held")
    sessions.rename(held)
    sessions.write_text("in the way")
    request = managed(PROVIDER, world.model.base_url, placement=Placement.SHARED)
    with refused("workspace.provision_failed"):
        await world.client.create_room(request)
    sessions.unlink()
    held.rename(sessions)
    failed = await world.client.room(str(request.id))
    assert (failed.live, failed.session.state) == (False, SessionState.DORMANT)
    assert (await world.client.room(staying.ref)).live
    await world.turn(staying)
    view = await world.client.resume(str(request.id))
    assert view.live
    assert view.host.id == host


@pytest.mark.guarantee("CONT-11", "SHARE-2")
async def test_a_state_that_would_have_to_be_restored_is_refused_while_a_sibling_runs(world: World) -> None:
    """Its siblings' program has the state open: refused by type, the siblings go on, and it comes back exactly once they are parked."""
    await world.open()
    await world.each(world.turn)
    staying, leaving = world.rooms
    await world.client.stop(leaving.ref)
    state = world.daemon.app / layout.provider_state(leaving.known.host.id, PROVIDER)
    identity = (await world.client.room(leaving.ref)).session.provider_identity
    (rollout,) = state.rglob(f"rollout-*{identity}.jsonl")
    rollout.write_bytes(rollout.read_bytes()[:-40])
    with refused("continuity.refused") as caught:
        await world.client.resume(leaving.ref)
    assert caught.value.context()["failure"] == "live-state"
    assert not (await world.client.room(leaving.ref)).live
    staying.exchanges.pop(1)
    leaving.exchanges.pop(1)
    unsafe = await world.client.say(staying.ref, _message(staying.next()))
    await ended(world.client, staying, unsafe.id)
    trouble = (await world.client.room(leaving.ref)).safety.trouble
    assert trouble is not None
    assert f"room {leaving.known.room.name}" in trouble.why, "whose log it is"
    assert staying.known.room.name not in trouble.why
    assert (await world.client.stop(staying.ref)).outcome == "parked"
    with refused("continuity.unsaved"):
        await world.client.resume(leaving.ref)
    given_up = (await world.client.stop(leaving.ref, accept_unsaved=True)).settled
    assert given_up is not None
    assert given_up.turns == (unsafe.id,)
    assert "restored" in given_up.detail
    await world.resume(leaving)
    assert "restored from the last checkpoint" in str(await said_in_room(world.client, leaving.known))
    await world.resume(staying)
    turn = next(t for t in await world.client.turns(staying.ref) if t.id == unsafe.id)
    assert turn.state is TurnState.CUT, "no generation could be made with a damaged log in it, and the room is told so"
    await world.each(world.turn)
    await world.judge()
