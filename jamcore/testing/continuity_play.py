"""Plays one cell of the continuity matrix with a real daemon, a real sandbox, a real program and a scripted model.

Two turns of each room are captured; what the cell names happens, while the daemon stands still, so that it happens at that boundary and
not near it. Then the rooms are brought back and asked, and the request that the model server receives is the proof (CONT-1).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import anyio
from anyio import to_thread

from jamcore.cli.standing import standing
from jamcore.control.client import JamClient
from jamcore.daemon.crash import STOP, VARIABLE
from jamcore.domain import layout
from jamcore.domain.cells import Placement
from jamcore.domain.continuity import Activation, ObservationOutcome, ResumeSource
from jamcore.domain.errors import JamError
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.engines.supervised.records import running_as
from jamcore.testing.continuity_matrix import Cell, Fate, Loss, Moment
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, gone, kill, parked, place_toolchain, room_event, running_daemon, until, victims
from jamcore.testing.exchanges import Exchange, Place, Question, repeated, said_in
from jamcore.testing.guards import descendants, settle
from jamcore.testing.jam_program import program
from jamcore.testing.leftovers import left_in
from jamcore.testing.rooms import ask, managed, new_id, refused
from jamcore.testing.servers.history import Item
from jamcore.testing.servers.responses import ResponsesServer, Script, held_at

LIMIT_S = 30.0
DECIDED = "SELECT decided_at FROM activations WHERE session_id = ? ORDER BY decided_at"
OBSERVED = "SELECT observed_at FROM observations WHERE session_id = ? ORDER BY observed_at"
STOPS_AT: Mapping[Moment, str] = MappingProxyType(
    {Moment.IN_A_CAPTURE: "publish.begun", Moment.BEFORE_THE_ROW: "publish.completed"}
)
CAPTURES = 3
"""How many generations the first two turns of a room make: the thread's own is the first."""


@dataclass(slots=True)
class Told:
    """One room, what is said in it, and what becomes of its third turn."""

    exchanges: tuple[Exchange, Exchange, Exchange]
    question: Question
    fate: Fate
    source: ResumeSource | None
    view: RoomView = field(init=False)
    identity: str = ""
    third: Turn | None = None
    attempts: int = 0

    @property
    def ref(self) -> str:
        """How clients name the room."""
        return str(self.view.room.id)


@dataclass(slots=True)
class Play:
    """One cell being played. The rooms share a sandbox where there are several."""

    cell: Cell
    provider: str
    daemon: DaemonChild
    client: JamClient
    server: ResponsesServer
    rooms: tuple[Told, ...]
    lives: Lives
    accepted: bool = False

    @property
    def host(self) -> Path:
        """The directory of the rooms' host."""
        return self.daemon.app / layout.host_root(self.rooms[0].view.host.id)

    @property
    def record(self) -> Path:
        """The engine's record of the sandbox."""
        host = self.rooms[0].view.host
        return self.daemon.app / layout.engine_root(host.engine) / f"{host.sandbox}.json"

    # ----------------------------------------------------------------------------------------------------- until it happens

    async def to_the_moment(self) -> None:
        """Have two turns of each room captured and the third ones where the cell wants them; then the daemon stands still."""
        placement = Placement.SHARED if len(self.rooms) > 1 else Placement.DEDICATED
        for told in self.rooms:
            told.view = await self.client.create_room(managed(self.provider, self.server.base_url, placement=placement))
        assert len({told.view.host.id for told in self.rooms}) == 1
        for told in self.rooms:
            for exchange in told.exchanges[:2]:
                assert (await ask(self.client, told.view, exchange.said)).state is TurnState.CAPTURED
            told.identity = (await self.client.room(told.ref)).session.provider_identity or ""
        assert len({told.identity for told in self.rooms} - {""}) == len(self.rooms)
        for told in self.rooms:
            if told.fate is not Fate.NONE:
                told.third = await self.client.say(told.ref, TurnRequest(id=new_id(), text=told.exchanges[2].said))
            if self.cell.moment is Moment.IN_A_TURN:
                await self.server.wait_for(held_at(told.exchanges[2].gate), LIMIT_S)
        if self.cell.moment not in STOPS_AT:
            os.kill(self.daemon.pid, signal.SIGSTOP)
        await until("the daemon stands still", lambda: is_stopped(self.daemon.pid), limit_s=LIMIT_S)

    async def it_happens(self) -> None:
        """Do what the cell names, and see that nothing of it is left running."""
        found, family, loss = victims(self.daemon.pid), self.daemon.family(), self.cell.loss
        assert found is not None
        assert found.provider is not None
        if loss.daemon_survives:
            await to_thread.run_sync(kill, (found.provider if loss is Loss.PROVIDER_KILLED else found.init,))
            self._lose(*self._lost())
            os.kill(self.daemon.pid, signal.SIGCONT)
            self._release()
            for told in self.rooms:
                with refused("continuity.unsaved") if self.cell.needs_a_word else nullcontext():
                    await parked(self.client, told.ref)
            left = await to_thread.run_sync(settle, descendants(self.daemon.pid), 5.0)
            assert not left, f"left behind: {left}"
            return
        if loss in (Loss.REBOOT, Loss.GENERATIONS_LOST):
            await to_thread.run_sync(kill, tuple(family))
        await to_thread.run_sync(self.daemon.kill)
        self._release()
        assert not await to_thread.run_sync(gone, family)
        await to_thread.run_sync(self._while_down)

    def _release(self) -> None:
        for told in self.rooms:
            self.server.release(told.exchanges[2].gate)

    def _while_down(self) -> None:
        app, private = self.daemon.app, self.daemon.private
        assert private is not None
        if self.cell.loss is Loss.DIRECTORY_MOVED:
            moved = app.parent / "another place" / "jam"
            moved.parent.mkdir()
            app.rename(moved)
            self.daemon.app = moved
        if self.cell.loss in (Loss.REBOOT, Loss.GENERATIONS_LOST):
            for directory in (private / "run", private / "tmp"):
                shutil.rmtree(directory)
                directory.mkdir(mode=0o700)
            of_another_boot(self.record)
        self._lose(*self._lost())

    def _lost(self) -> tuple[str, ...]:
        return {
            Loss.SANDBOX_REMOVED: ("guest-disk",),
            Loss.STATE_LOST: ("guest-disk", "provider-state"),
            Loss.GENERATIONS_LOST: ("provider-state", "recovery"),
        }.get(self.cell.loss, ())

    def _lose(self, *names: str) -> None:
        for name in names:
            shutil.rmtree(self.host / name)

    # -------------------------------------------------------------------------------------------------------- the way back

    async def again(self) -> None:
        """Have a daemon that answers, the one that saw it or its next life, and give a person's word where that is needed."""
        if self.daemon.returncode is not None:
            self.daemon.start()
            await self.daemon.up()
        self.client = self.daemon.client()
        if self.cell.needs_a_word and not self.accepted:
            await self._give_the_word()

    async def killed_on_the_way_back(self, point: str) -> None:
        """Kill the daemon while the first room comes back: at a boundary of its own, or without one when the program runs."""
        await to_thread.run_sync(self.daemon.kill)
        self.daemon.start(**{VARIABLE: point})
        await self.daemon.up()
        self.client = self.daemon.client()
        told = self.rooms[0]
        told.attempts += 1

        async def resume() -> None:
            with suppress(JamError):
                await self.client.resume(told.ref)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            if not point:
                await until("the program", lambda: (now := victims(self.daemon.pid)) is not None and now.provider is not None)
                family = self.daemon.family()
                await to_thread.run_sync(self.daemon.kill)
                assert not await to_thread.run_sync(gone, family)
        assert await to_thread.run_sync(self.daemon.reap) == -signal.SIGKILL, "the boundary was not reached"

    async def come_back_exactly(self) -> None:
        """Each room is its own thread again, with the right bytes; every item of every kept turn is there once, and a cut one is said."""
        for told in self.rooms:
            told.attempts += 1
            view = await self.client.resume(told.ref)
            assert view.session.provider_identity == told.identity
            await self._require_evidence(told)
        for told in self.rooms:
            await self._require_fate(told)
            asked = len(told.exchanges[2].requests(self.server.model_requests))
            assert (await ask(self.client, told.view, told.question.said)).state is TurnState.CAPTURED
            tokens = [exchange.token for other in self.rooms for exchange in other.exchanges]
            heard = said_in(self.server.model_requests[-1], tokens)
            assert heard == (*self._remembered(told), told.question.items()[0])
            assert self.server.model_requests[-1].header("thread-id") == told.identity
            assert len(told.exchanges[2].requests(self.server.model_requests)) == asked, "a turn was sent again"
        assert not self.server.unmatched, self.server.unmatched[0].body

    async def are_refused(self) -> None:
        """The kind is right, each time; no provider and no sandbox starts, the model hears nothing, turns stay as they are."""
        seen, heard = self.record.read_bytes(), len(self.server.requests)
        for told in self.rooms:
            turns = await self.client.turns(told.ref)
            for attempt in (1, 2):
                with refused("continuity.refused") as caught:
                    await self.client.resume(told.ref)
                assert caught.value.context()["failure"] == self.cell.failure
                found = await self.client.inspect(told.ref)
                assert found.decision is not None
                assert (found.decision.outcome, found.decision.failure) == (Activation.REFUSE_NO_CHECKPOINT, self.cell.failure)
                assert found.observations == ()
                assert len(self._times(told, DECIDED)) == 1 + attempt
            assert await self.client.turns(told.ref) == turns
            assert turns[0].state is turns[1].state is TurnState.CAPTURED
            words, style = standing(await self.client.inspect(told.ref))
            assert (f"cannot be brought back ({self.cell.failure})" in words, style) == (True, "red")
            await self._require_shown(told, live=False)
        assert self.record.read_bytes() == seen, "the sandbox was started"
        assert not self.daemon.family()
        assert len(self.server.requests) == heard

    async def _give_the_word(self) -> None:
        """What can be in no checkpoint any more keeps the rooms down until somebody accepts that: nothing starts before (CONT-8)."""
        heard = len(self.server.requests)
        with refused("continuity.unsaved"):
            await self.client.resume(self.rooms[0].ref)
        assert not self.daemon.family()
        assert len(self.server.requests) == heard
        await self.client.stop(self.rooms[0].ref, accept_unsaved=True)
        self.accepted = True

    async def _require_fate(self, told: Told) -> None:
        third = next((turn for turn in await self.client.turns(told.ref) if told.third and turn.id == told.third.id), None)
        if third is None:
            assert told.fate is Fate.NONE
            return
        wanted = {Fate.KEPT: TurnState.CAPTURED, Fate.CUT: TurnState.CUT}[told.fate]
        await room_event(self.client, told.ref, lambda event: event.turn_id == third.id and is_state(event, wanted))
        now = next(turn for turn in await self.client.turns(told.ref) if turn.id == third.id)
        assert now.state is wanted, now
        assert now.detail or wanted is TurnState.CAPTURED

    def _remembered(self, told: Told) -> tuple[Item, ...]:
        """Return what the model must have been told of a room, whole and in order, before the question."""
        third = told.exchanges[2]
        items = (*told.exchanges[0].items(), *told.exchanges[1].items())
        if told.fate is Fate.KEPT:
            items += third.items()
        elif told.fate is Fate.CUT and self.cell.loss.keeps_live_state:
            items += third.acknowledged(self.server.model_requests)
        assert not repeated(items)
        return items

    async def _require_evidence(self, told: Told) -> None:
        """One decision for each attempt, the last one before what was observed of it; what people are told says the same."""
        found = await self.client.inspect(told.ref)
        assert found.decision is not None
        assert found.decision.outcome is Activation.EXACT_RESUME
        last = found.observations[-1]
        assert (last.outcome, last.source) == (ObservationOutcome.SUCCEEDED, told.source)
        assert last.expected_identity == last.reported_identity == told.identity
        decided, observed = self._times(told, DECIDED), self._times(told, OBSERVED)
        assert len(decided) == 1 + told.attempts  # the first is the fresh start
        assert decided[-1] <= observed[-1]
        assert len(observed) == 1 or told.attempts > 1
        words, style = standing(found)
        how = "its live state extends it" if told.source is ResumeSource.LIVE else "restored from it"
        assert (how in words, words.startswith("Resumed exactly"), style) == (True, True, "green"), words
        await self._require_shown(told, live=True)

    async def _require_shown(self, told: Told, *, live: bool) -> None:
        """``jam room show``, the program, says the same of conversation and turns."""
        shown = await to_thread.run_sync(lambda: program(self.daemon.app, "room", "show", told.ref, "--json", lives=self.lives))
        assert shown.status == 0, shown.err
        assert shown.json["room"]["live"] is live
        assert shown.json["room"]["session"]["provider_identity"] == told.identity
        assert [turn["state"] for turn in shown.json["turns"]][:2] == ["captured", "captured"]

    def _times(self, told: Told, query: str) -> list[str]:
        with closing(sqlite3.connect(f"file:{self.daemon.app / layout.DATABASE}?mode=ro", uri=True)) as database:
            return [at for (at,) in database.execute(query, (str(told.view.session.id),))]


def is_state(event: RoomEvent, state: TurnState) -> bool:
    """Whether an event says that its turn came to this state."""
    return event.payload.kind == "turn.state" and event.payload.state == state


def is_stopped(pid: int) -> bool:
    """Whether a process stands still."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def of_another_boot(record: Path) -> None:
    """Make an engine's record one of an earlier boot, in which this test's own process number was the sandbox's: it must not be touched."""
    stored = json.loads(record.read_bytes())
    here = running_as(os.getpid())
    assert here is not None
    for name in ("running", "init"):
        stored[name] = here.model_copy(update={"boot": "00000000-0000-4000-8000-000000000000"}).model_dump()
    record.write_text(json.dumps(stored))


def told_of(cell: Cell, number: int) -> Told:
    """Return what is said in one room. Beside a turn that is captured the other rooms are idle; after a restore they join what is live."""
    holds: Place = "request-2" if cell.moment is Moment.IN_A_TURN else "nowhere"
    names = [f"{part} of room {number}" for part in ("the first", "the second", "the third", "the end")]
    tokens = [f"{16 * number + place:010x}" for place in range(1, 5)]
    first, second = (Exchange.make(name, token) for name, token in zip(names[:2], tokens[:2], strict=True))
    idle = number > 0 and cell.moment is not Moment.IN_A_TURN
    source = ResumeSource.LIVE if number > 0 and cell.source else cell.source
    exchanges = (first, second, Exchange.make(names[2], tokens[2], holds))
    return Told(exchanges, Question.make(names[3], tokens[3]), Fate.NONE if idle else cell.fate, source)


@asynccontextmanager
async def playing(cell: Cell, directory: Path, *, provider: str, lives: Lives, rooms: int = 1) -> AsyncIterator[Play]:
    """Start everything for a cell; in the end nothing may be left in or beside the app directory."""
    told = tuple(told_of(cell, number) for number in range(rooms))
    rules = [rule for each in told for exchange in each.exchanges for rule in exchange.rules()]
    rules += [rule for each in told for rule in each.question.rules()]
    before, private = descendants(), directory / "private"
    await place_toolchain(directory / "app", provider)
    daemon = DaemonChild(directory / "app", private=private, lives=lives)
    stop = {VARIABLE: f"{STOP}{STOPS_AT[cell.moment]}#{CAPTURES * rooms + 1}"} if cell.moment in STOPS_AT else {}
    async with ResponsesServer(Script(rules=tuple(rules))) as server, running_daemon(daemon, **stop) as client:
        try:
            yield Play(cell, provider, daemon, client, server, told, lives)
        finally:
            with suppress(ProcessLookupError):
                os.kill(daemon.pid, signal.SIGCONT)
    assert not await to_thread.run_sync(settle, descendants() - before, 5.0)
    assert not left_in(daemon.app, private / "run", private / "tmp")
