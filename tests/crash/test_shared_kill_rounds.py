"""SIGKILL of the program, of process 1 and of the daemon under three rooms of one shared sandbox, each at a moment of its own.

Places and victims come from a seed that is printed; ``JAM_KILL_SEED`` repeats one. After every kill all rooms are brought back at the same
time and asked, and the requests that the model then receives are the proof: each holds all that its own room was acknowledged, in order,
nothing twice, and nothing of another room.
"""

from __future__ import annotations

import os
import random
import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.cells import Placement
from jamcore.domain.errors import JamError
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, gone, kill, parked, place_toolchain, running_daemon, until, victims
from jamcore.testing.exchanges import LOG, Exchange, Place, Question, repeated, said_in
from jamcore.testing.guards import descendants, settle
from jamcore.testing.leftovers import left_in
from jamcore.testing.rooms import ask, managed, new_id
from jamcore.testing.servers.history import AssistantText, Item, contains_in_order
from jamcore.testing.servers.responses import ResponsesServer, Script, held_at

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.needs("codex", "bubblewrap"), pytest.mark.timeout(600)]

SEED_VARIABLE = "JAM_KILL_SEED"
ROOMS = 3
ROUNDS = 9
LIMIT_S = 60.0
PLACES: tuple[Place, ...] = (
    "request-1",
    "delta-1",
    "delta-2",
    "tool-call",
    "request-2",
    "delta-3",
    "delta-4",
    "last-delta",
    "item-done",
)
Victim = Literal["provider", "sandbox", "daemon"]
VICTIMS: tuple[Victim, ...] = ("provider", "sandbox", "daemon")
MARK = re.compile(r"room(\d+)x[0-9a-f]+")
"""What everything that is said, done or answered in a room carries."""


@dataclass(frozen=True, slots=True)
class Round:
    """One kill. Rooms with an exchange stand still in it then, the others are idle; ``coming_up``: all are being brought back instead."""

    number: int
    victim: Victim
    coming_up: bool
    exchanges: tuple[Exchange | None, ...]
    questions: tuple[Question, ...]


@dataclass(slots=True)
class Told:
    """One room and what its model must be told, in order."""

    number: int
    view: RoomView
    identity: str | None = None
    expected: list[Item] = field(default_factory=list)
    never: list[Item] = field(default_factory=list)

    @property
    def ref(self) -> str:
        """How clients name it."""
        return str(self.view.room.id)


def draw(random_: random.Random) -> tuple[Round, ...]:
    """Draw the rounds: every victim as often as the others, every third time while the rooms are coming up."""
    rounds = []
    for number in range(ROUNDS):

        def token(room: int) -> str:
            return f"room{room}x{random_.getrandbits(40):010x}"

        coming_up = number % 3 == 2
        busy = set(random_.sample(range(ROOMS), random_.randint(1, ROOMS)))
        exchanges = tuple(
            Exchange.make(f"task {number}", token(room), random_.choice(PLACES)) if room in busy and not coming_up else None
            for room in range(ROOMS)
        )
        questions = tuple(Question.make(f"round {number}", token(room)) for room in range(ROOMS))
        rounds.append(Round(number, VICTIMS[(number // 3 + number) % 3], coming_up, exchanges, questions))
    return tuple(rounds)


@dataclass(slots=True)
class World:
    """Everything of one run."""

    daemon: DaemonChild
    client: JamClient
    model: ResponsesServer
    rounds: tuple[Round, ...]
    openings: tuple[Question, ...]
    told: list[Told] = field(default_factory=list)

    @property
    def tokens(self) -> tuple[str, ...]:
        """What the commands print."""
        return tuple(e.token for r in self.rounds for e in r.exchanges if e is not None)

    async def each(self, work: Callable[[Told], Coroutine[Any, Any, None]]) -> None:
        """Do something with all rooms at the same time."""
        async with anyio.create_task_group() as tasks:
            for told in self.told:
                tasks.start_soon(work, told)

    async def open(self) -> None:
        """Make the rooms and say something in each, so that each has a thread."""
        for number in range(ROOMS):
            view = await self.client.create_room(managed("codex", self.model.base_url, placement=Placement.SHARED))
            self.told.append(Told(number, view))
        assert len({told.view.host.id for told in self.told}) == 1
        await self.each(lambda told: self._ask(told, self.openings[told.number]))

    async def play(self, round_: Round) -> None:
        """Play one round."""
        turns = await self._to_the_moment(round_)
        await (self._strike_coming_up(round_.victim) if round_.coming_up else self._strike_live(round_.victim))
        for held in filter(None, round_.exchanges):
            self.model.release(held.gate)
        await self.each(self._come_back)
        for told, exchange in zip(self.told, round_.exchanges, strict=True):
            if exchange is not None:
                await self._judge(told, exchange, turns[told.number])
        await self.each(lambda told: self._ask(told, round_.questions[told.number]))

    async def _to_the_moment(self, round_: Round) -> dict[int, Turn]:
        """Let every busy room stand still at its place, and return the turns that run then."""
        turns: dict[int, Turn] = {}
        for told, exchange in zip(self.told, round_.exchanges, strict=True):
            if exchange is not None:
                turns[told.number] = await self.client.say(told.ref, TurnRequest(id=new_id(), text=exchange.said))
        for held in filter(None, round_.exchanges):
            await self.model.wait_for(held_at(held.gate), LIMIT_S)
        return turns

    async def _strike_coming_up(self, victim: Victim) -> None:
        """Kill while all rooms are being brought back. Whoever had not begun yet brings the host up anew."""
        for told in self.told:
            await self.client.stop(told.ref)
        async with anyio.create_task_group() as tasks:
            for told in self.told:
                tasks.start_soon(self._try_resume, told)
            await self._strike(victim)

    async def _strike_live(self, victim: Victim) -> None:
        """Kill while all rooms are live, and wait until they are not."""
        await self._strike(victim)
        for told in self.told:
            await parked(self.client, told.ref)

    async def _strike(self, victim: Victim) -> None:
        await until(
            "the program", lambda: (now := victims(self.daemon.pid)) is not None and now.provider is not None, limit_s=LIMIT_S
        )
        found = victims(self.daemon.pid)
        assert found is not None
        family = self.daemon.family()
        if victim == "daemon":
            await to_thread.run_sync(self.daemon.kill)
            self.daemon.start()
            assert not await to_thread.run_sync(gone, family)
            await self.daemon.up()
            return
        target = found.init if victim == "sandbox" else found.provider
        assert target is not None
        await to_thread.run_sync(kill, (target,))

    async def _try_resume(self, told: Told) -> None:
        with suppress(JamError):  # it dies under it: a typed error is what is wanted
            await self.client.resume(told.ref)

    async def _come_back(self, told: Told) -> None:
        view = await self.client.resume(told.ref)
        assert view.session.provider_identity == told.identity
        latest = (await self.client.inspect(told.ref)).observations[-1]
        assert (latest.outcome, latest.reported_identity) == ("succeeded", told.identity)

    async def _judge(self, told: Told, exchange: Exchange, turn: Turn) -> None:
        now = next(each for each in await self.client.turns(told.ref) if each.id == turn.id)
        assert now.state is TurnState.CUT, f"its answer never ended: {now}"
        told.expected.extend(exchange.acknowledged(self.model.model_requests))
        if exchange.holds != "item-done":
            told.never.append(AssistantText("".join(exchange.second)))

    async def _ask(self, told: Told, question: Question) -> None:
        turn = await ask(self.client, told.view, question.said, limit_s=LIMIT_S)
        assert turn.state is TurnState.CAPTURED, turn
        (request,) = [r for r in self.model.model_requests if said_in(r, self.tokens)[-1] == question.items()[0]]
        heard = said_in(request, self.tokens)
        told.expected.append(question.items()[0])
        missing = contains_in_order(told.expected, heard)
        assert missing is None, f"room {told.number}: {missing} is not in {heard}"
        assert not repeated(heard)
        assert not set(told.never) & set(heard), "an answer that was never finished"
        assert {int(number) for number in MARK.findall(str(heard))} == {told.number}, "something of another room"
        told.expected.append(question.items()[1])
        after = await self.client.room(told.ref)
        assert told.identity in (None, after.session.provider_identity)
        told.identity = after.session.provider_identity
        assert request.header("thread-id") == told.identity

    async def end(self) -> None:
        """Look at everything once more: threads, files, events."""
        assert len({told.identity for told in self.told}) == ROOMS
        for told in self.told:
            directory = self.daemon.app / layout.session_workspace(told.view.host.id, told.view.session.id)
            log = (directory / LOG).read_text().split() if (directory / LOG).exists() else []
            assert {int(number) for number in MARK.findall(" ".join(log))} <= {told.number}, "written into another's directory"
            assert len(log) == len(set(log)), "a command ran twice"
            events = [event.payload.model_dump_json() async for event in self.client.events(told.ref, after=0, follow=False)]
            assert {int(number) for number in MARK.findall("".join(events))} == {told.number}, "another room's event"
            assert not (directory.parent / LOG).exists()
        assert not self.model.unmatched


@asynccontextmanager
async def world(directory: Path, lives: Lives) -> AsyncIterator[World]:
    """Draw the rounds, start model server and daemon, and stop them."""
    seed = int(os.environ.get(SEED_VARIABLE) or secrets.randbits(32))
    print(f"\n{SEED_VARIABLE}={seed}")
    rounds = draw(random.Random(seed))
    openings = tuple(Question.make("the opening", f"room{number}x0") for number in range(ROOMS))
    exchanges = [exchange for r in rounds for exchange in r.exchanges if exchange is not None]
    questions = [*openings, *(question for r in rounds for question in r.questions)]
    rules = (*(rule for q in questions for rule in q.rules()), *(rule for e in exchanges for rule in e.rules()))
    app = directory / "app"
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, private=directory / "private", lives=lives)
    async with ResponsesServer(Script(rules=rules)) as model, running_daemon(daemon) as client:
        yield World(daemon, client, model, rounds, openings)


@pytest.mark.guarantee("SHARE-5", "CONT-1", "CONT-11", "SHARE-2")
async def test_nine_kills_under_three_rooms(tmp_path: Path, lives: Lives) -> None:
    """Whatever dies and wherever each of them stands: each comes back as its own thread, and nothing crosses."""
    before = descendants()
    async with world(tmp_path, lives) as w:
        await w.open()
        for round_ in w.rounds:
            started = anyio.current_time()
            await w.play(round_)
            places = " ".join(e.holds if e else "idle" for e in round_.exchanges)
            moment = "coming up" if round_.coming_up else places
            print(f"{round_.number:2} {round_.victim:9} {moment:40} {anyio.current_time() - started:.2f} s")
        await w.end()
    assert not await to_thread.run_sync(settle, descendants() - before, 5.0)
    assert not left_in(tmp_path / "app", tmp_path / "private" / "run", tmp_path / "private" / "tmp")
