"""SIGKILL of the provider, of process 1 of its sandbox and of the daemon, at twenty recorded boundaries each, in the real sandbox.

The moments of a run come from a seed that is printed; ``JAM_KILL_SEED`` repeats one. More than half of them lie between the first delta
and the end of the turn. After every kill the room is brought back and asked, and the request that the model then receives is the proof.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.errors import JamError
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import EndpointChoice, RoomRequest, RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.system.ids import SystemIds
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, gone, kill, parked, place_toolchain, room_event, running_daemon, until, victims
from jamcore.testing.exchanges import LOG, Exchange, Place, Question, repeated, said_in
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.leftovers import left_in
from jamcore.testing.servers.history import AssistantText, Item, contains_in_order
from jamcore.testing.servers.responses import ResponsesServer, Script, held_at

ROUNDS = 20
SEED_VARIABLE = "JAM_KILL_SEED"
LIMIT_S = 30.0
SECRET = "sk-test-" + "0" * 32

Victim = Literal["provider", "sandbox", "daemon"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A recorded boundary. ``holds``: where the model stands still; ``inside``: between the first delta and the end of the turn."""

    name: str
    holds: Place = "nowhere"
    inside: bool = False
    fresh: bool = False


PLACES: tuple[Place, ...] = ("delta-1", "delta-2", "tool-call", "request-2", "delta-3", "delta-4", "last-delta", "item-done")
INSIDE = (
    *(Moment(f"held: {place}", place, inside=True) for place in PLACES),
    Moment("event: command.finished", "request-2", inside=True),
    Moment("event: message", "request-2", inside=True),
)
OUTSIDE = (
    Moment("held: request-1", "request-1"),
    Moment("event: turn.started", "request-1"),
    Moment("sent: the whole answer"),
    Moment("event: turn.ended"),
    Moment("state: completed"),
    Moment("state: captured"),
    Moment("idle"),
    Moment("coming up: process 1"),
    Moment("coming up: the program"),
)
FIRST = (
    Moment("accepted", fresh=True),
    Moment("first capture", fresh=True),
    Moment("event: turn.started", "request-1", fresh=True),
)


def draw(random_: random.Random) -> tuple[Moment, ...]:
    """Draw the moments of one victim: each of INSIDE and of FIRST at least once, and of OUTSIDE as many as there is room for."""
    inside = [*INSIDE, random_.choice(INSIDE)]
    outside = random_.sample(OUTSIDE, ROUNDS - len(inside) - len(FIRST))
    moments = [*inside, *outside, *FIRST]
    random_.shuffle(moments)
    return tuple(moments)


@dataclass(frozen=True, slots=True)
class Round:
    """One kill and what is asked after it."""

    number: int
    moment: Moment
    exchange: Exchange
    question: Question


@dataclass(slots=True)
class Told:
    """One room and what the model must still be told in it, in order; grown from the script and the model server's record."""

    view: RoomView
    log: Path
    expected: list[Item] = field(default_factory=list)
    never: list[Item] = field(default_factory=list)
    identity: str | None = None

    @property
    def ref(self) -> str:
        """How clients name the room."""
        return str(self.view.room.id)


@dataclass(slots=True)
class World:
    """Everything of one test."""

    victim: Victim
    daemon: DaemonChild
    client: JamClient
    server: ResponsesServer
    rounds: tuple[Round, ...]
    before: frozenset[Process]
    told: Told | None = None
    all_told: list[Told] = field(default_factory=list)

    @property
    def tokens(self) -> tuple[str, ...]:
        """What the commands of all rounds print."""
        return tuple(r.exchange.token for r in self.rounds)

    async def play(self, round_: Round) -> str:
        """Play one round and return what came of the killed turn."""
        told = await self._room(fresh=round_.moment.fresh)
        turn = await self._until_moment(told, round_)
        await self._kill(told, round_)
        return await self._come_back(told, round_, turn)

    # ------------------------------------------------------------------------------------------------------ to the moment

    async def _room(self, *, fresh: bool) -> Told:
        if self.told is not None and not fresh:
            return self.told
        if self.told is not None:
            await self.client.stop(self.told.ref)
        request = RoomRequest(
            id=SystemIds().uuid(), provider="codex", endpoint=EndpointChoice(origin=self.server.base_url, credential="test")
        )
        view = await self.client.create_room(request)
        log = self.daemon.app / layout.session_workspace(view.host.id, view.session.id) / LOG
        self.told = Told(view, log)
        self.all_told.append(self.told)
        return self.told

    async def _until_moment(self, told: Told, round_: Round) -> Turn | None:
        """Bring the room to the round's moment; returns the turn that runs there, if one does."""
        kind, _, what = round_.moment.name.partition(": ")
        if kind == "coming up":
            await self.client.stop(told.ref)
            return None
        packs = self.daemon.app / layout.packs(told.view.host.id)
        turn = await self.client.say(told.ref, TurnRequest(id=SystemIds().uuid(), text=round_.exchange.said))

        def of_turn(wanted: Callable[[RoomEvent], bool]) -> Callable[[RoomEvent], bool]:
            return lambda event: event.turn_id == turn.id and wanted(event)

        if kind == "first capture":
            await until("a pack", lambda: any(packs.glob("*")))
        elif kind == "held":
            await self.server.wait_for(held_at(round_.exchange.gate), LIMIT_S)
        elif kind == "sent":
            await self.server.wait_for(lambda e: e.kind == "received" and e.index == self._second(round_), LIMIT_S)
            await self.server.wait_for(lambda e: e.kind == "completed" and e.index == self._second(round_), LIMIT_S)
        elif kind == "event":
            await room_event(self.client, told.ref, of_turn(lambda event: event.payload.kind == what))
        elif kind in ("state", "idle"):
            state = what or "captured"
            await room_event(self.client, told.ref, of_turn(lambda e: e.payload.kind == "turn.state" and e.payload.state == state))
            while kind == "idle" and (await self.client.room(told.ref)).busy:  # noqa: ASYNC110 - the daemon's answer
                await anyio.sleep(0.005)
        return turn

    def _second(self, round_: Round) -> int:
        """Return the index of the exchange's second request, 0 while there is none."""
        own = round_.exchange.requests(self.server.model_requests)
        return own[1].index if len(own) > 1 else 0

    # ----------------------------------------------------------------------------------------------------------- the kill

    async def _kill(self, told: Told, round_: Round) -> None:
        """Kill the victim, see that nothing of it is left, and have a daemon that answers again."""
        async with anyio.create_task_group() as tasks:
            if round_.moment.name.startswith("coming up"):
                tasks.start_soon(self._try_resume, told)
            await self._strike(early=round_.moment.name.endswith("process 1") and self.victim != "provider")
            self.server.release(round_.exchange.gate)
        if self.victim == "daemon":
            await self.daemon.up()
        else:
            await parked(self.client, told.ref)
        await self._nothing_left()

    async def _strike(self, *, early: bool) -> None:
        """Wait until the victim is there, which it is but for a room that is coming up, and kill it at once."""
        found: list[Process] = []

        def is_there() -> bool:
            now = victims(self.daemon.pid)
            if now is not None and (early or now.provider is not None):
                target = now.init if self.victim == "sandbox" else now.provider
                found[:] = [target] if target is not None else []
                return self.victim == "daemon" or bool(found)
            return False

        await until("the victim", is_there, limit_s=LIMIT_S)
        family = self.daemon.family()
        if self.victim == "daemon":
            await to_thread.run_sync(self.daemon.kill)
            self.daemon.start()  # at once: the next life may see the last one's sandbox dying
            left = await to_thread.run_sync(gone, family)
            assert not left, f"they outlived the daemon: {left}"
        else:
            await to_thread.run_sync(kill, tuple(found))

    async def _try_resume(self, told: Told) -> None:
        with suppress(JamError):  # its sandbox or its daemon dies under it: a typed error is what is wanted
            await self.client.resume(told.ref)

    async def _nothing_left(self) -> None:
        """No process but the daemon itself, no mount, nothing temporary."""
        own = {self.daemon.pid}
        left = await to_thread.run_sync(settle, frozenset(p for p in descendants() - self.before if p.pid not in own), 5.0)
        assert not left, f"left behind: {left}"
        assert not left_in(self.daemon.app)

    # ------------------------------------------------------------------------------------------------------- the way back

    async def _come_back(self, told: Told, round_: Round, turn: Turn | None) -> str:
        exchange, question = round_.exchange, round_.question
        asked_before = len(exchange.requests(self.server.model_requests))
        view = await self.client.resume(told.ref)
        identity = view.session.provider_identity
        if told.identity is not None:
            assert identity == told.identity
        result = "no turn"
        if turn is not None:
            now = next(t for t in await self.client.turns(told.ref) if t.id == turn.id)
            result = f"{now.state} ({now.detail})"
            await self._judge(told, round_, now, identity)
        if identity is not None:
            await self._require_observation(told, identity)
        said = await self.client.say(told.ref, TurnRequest(id=SystemIds().uuid(), text=question.said))
        await room_event(
            self.client,
            told.ref,
            lambda e: e.turn_id == said.id and e.payload.kind == "turn.state" and e.payload.state in ("captured", "failed", "cut"),
        )
        now = next(t for t in await self.client.turns(told.ref) if t.id == said.id)
        assert now.state is TurnState.CAPTURED, now
        last = self.server.model_requests[-1]
        heard = said_in(last, self.tokens)
        told.expected.append(question.items()[0])
        missing = contains_in_order(told.expected, heard)
        assert missing is None, f"{missing} is not in {heard}"
        assert not repeated(heard)
        assert not set(told.never) & set(heard), "an answer that was never finished"
        told.expected.append(question.items()[1])
        after = await self.client.room(told.ref)
        assert identity in (None, after.session.provider_identity)
        told.identity = after.session.provider_identity
        assert last.header("thread-id") == told.identity
        assert len(exchange.requests(self.server.model_requests)) == asked_before, "a cut turn was sent again"
        assert not self.server.unmatched, self.server.unmatched[0].body
        log = told.log.read_text().split() if told.log.exists() else []
        assert not [line for line in log if log.count(line) > 1], "a command ran twice"
        return result

    async def _judge(self, told: Told, round_: Round, turn: Turn, identity: str | None) -> None:
        """Compare what Jam says of the killed turn with what the model server saw, and note what must not be forgotten."""
        exchange = round_.exchange
        own = exchange.requests(self.server.model_requests)
        finished = any(e.kind == "completed" and len(own) > 1 and e.index == own[1].index for e in self.server.events)
        if round_.moment.name in ("event: turn.ended", "state: completed", "state: captured", "idle"):
            assert turn.state is TurnState.CAPTURED, f"it had ended: {turn}"
        elif turn.state is TurnState.FAILED:
            # Its sandbox died under the first capture, with Jam alive: it was not handed to the provider, and never will be.
            assert turn.provider_turn is None, turn
            assert not own
            return
        elif not finished:
            assert turn.state is TurnState.CUT, f"its answer never ended: {turn}"
        assert turn.state in (TurnState.CAPTURED, TurnState.CUT), turn
        if not finished and round_.moment.holds != "item-done":
            told.never.append(AssistantText("".join(exchange.second)))
        if turn.state is TurnState.CAPTURED:
            told.expected.extend(exchange.items())
        elif identity is not None:
            told.expected.extend(exchange.acknowledged(self.server.model_requests))

    async def older_rooms(self) -> None:
        """The rooms of earlier rounds, parked meanwhile, come back as themselves too."""
        for told in self.all_told[:-1]:
            view = await self.client.resume(told.ref)
            assert view.session.provider_identity == told.identity
            if told.identity is not None:
                await self._require_observation(told, told.identity)

    async def _require_observation(self, told: Told, identity: str) -> None:
        inspection = await self.client.inspect(told.ref)
        latest = max(inspection.observations, key=lambda o: o.observed_at)
        assert latest.outcome is ObservationOutcome.SUCCEEDED, latest
        assert latest.reported_identity == identity


@asynccontextmanager
async def world(victim: Victim, directory: Path, lives: Lives) -> AsyncIterator[World]:
    """Draw the rounds, start model server and daemon, and stop them."""
    seed = int(os.environ.get(SEED_VARIABLE) or secrets.randbits(32))
    print(f"\n{SEED_VARIABLE}={seed}  victim: {victim}")
    random_ = random.Random(f"{seed} {victim}")

    def token() -> str:
        return f"{random_.getrandbits(40):010x}"

    rounds = tuple(
        Round(n, moment, Exchange.make(f"task {n}", token(), moment.holds), Question.make(f"round {n}", token()))
        for n, moment in enumerate(draw(random_), 1)
    )
    rules = [rule for r in rounds for part in (r.exchange, r.question) for rule in part.rules()]
    before = descendants()
    app = directory / "app"
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, environment={"JAM_CREDENTIAL_TEST": SECRET}, private=directory / "private", lives=lives)
    async with ResponsesServer(Script(rules=tuple(rules))) as server, running_daemon(daemon) as client:
        yield World(victim, daemon, client, server, rounds, before)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.anyio
@pytest.mark.needs("codex", "bubblewrap", "git")
@pytest.mark.guarantee("CONT-1", "CONT-7", "CONT-11", "CONT-12")
@pytest.mark.parametrize("victim", ["provider", "sandbox", "daemon"])
async def test_twenty_kills(victim: Victim, tmp_path: Path, lives: Lives) -> None:
    """Killed at any boundary, the room comes back as the exact thread: all that was acknowledged is told again, nothing twice."""
    async with world(victim, tmp_path, lives) as w:
        for round_ in w.rounds:
            started = anyio.current_time()
            result = await w.play(round_)
            print(f"{round_.number:2} {round_.moment.name:28} {result}  {anyio.current_time() - started:.2f} s")
        await w.older_rooms()
    assert not left_in(tmp_path / "app", tmp_path / "private" / "run", tmp_path / "private" / "tmp")
