"""Every loss at every moment, each cell a real run: the exact conversation comes back, or it is refused and nothing starts.

What must come of a cell stands in :mod:`jamcore.testing.continuity_matrix`; the page on continuity shows the same table. Two turns are
captured; what the cell names happens, while the daemon stands still, so that it happens at that boundary and not near it. Then the room
is brought back and asked, and the request that the model server receives is the proof.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anyio import to_thread

from jamcore.cli.standing import standing
from jamcore.control.client import JamClient
from jamcore.daemon.crash import STOP, VARIABLE
from jamcore.domain import layout
from jamcore.domain.continuity import Activation, ObservationOutcome, ResumeSource
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.engines.supervised.records import running_as
from jamcore.testing.continuity_matrix import Cell, Fate, Loss, Moment, cells
from jamcore.testing.daemon import DaemonChild, gone, kill, parked, place_toolchain, room_event, running_daemon, until, victims
from jamcore.testing.exchanges import Exchange, Place, Question, repeated, said_in
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.jam_program import program
from jamcore.testing.leftovers import left_in
from jamcore.testing.rooms import ask, managed, new_id, refused
from jamcore.testing.servers.history import Item
from jamcore.testing.servers.responses import ResponsesServer, Script, held_at

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap"),
    pytest.mark.guarantee("CONT-1", "CONT-7", "CONT-9", "CONT-11", "CONT-12"),
    pytest.mark.timeout(120),
]

LIMIT_S = 30.0
PROVIDER = "codex"
PAGE = Path(__file__).parents[2] / "docs" / "continuity.md"
THIRD = 4
"""The passing of a publication that is the third turn's: the thread's own generation is the first."""
STOPS_AT = {Moment.IN_A_CAPTURE: "publish.begun", Moment.BEFORE_THE_ROW: "publish.completed"}


@dataclass(slots=True)
class Play:
    """One cell being played."""

    cell: Cell
    daemon: DaemonChild
    client: JamClient
    server: ResponsesServer
    before: frozenset[Process]
    exchanges: tuple[Exchange, Exchange, Exchange]
    question: Question
    room: RoomView = field(init=False)
    identity: str = field(init=False)
    third: Turn | None = None

    @property
    def ref(self) -> str:
        """How clients name the room."""
        return str(self.room.room.id)

    @property
    def host(self) -> Path:
        """The directory of the room's host."""
        return self.daemon.app / layout.host_root(self.room.host.id)

    # ----------------------------------------------------------------------------------------------------- until it happens

    async def to_the_moment(self) -> None:
        """Have two turns captured and the third where the cell wants it; then the daemon stands still."""
        self.room = await self.client.create_room(managed(PROVIDER, self.server.base_url))
        for exchange in self.exchanges[:2]:
            assert (await ask(self.client, self.room, exchange.said)).state is TurnState.CAPTURED
        identity = (await self.client.room(self.ref)).session.provider_identity
        assert identity
        self.identity = identity
        exchange = self.exchanges[2]
        if self.cell.moment is not Moment.BETWEEN_TURNS:
            self.third = await self.client.say(self.ref, TurnRequest(id=new_id(), text=exchange.said))
        if self.cell.moment is Moment.IN_A_TURN:
            await self.server.wait_for(held_at(exchange.gate), LIMIT_S)
        if self.cell.moment not in STOPS_AT:
            os.kill(self.daemon.pid, signal.SIGSTOP)
        await until("the daemon stands still", lambda: is_stopped(self.daemon.pid), limit_s=LIMIT_S)

    async def it_happens(self) -> None:
        """Do what the cell names, and see that nothing of it is left running."""
        found, family = victims(self.daemon.pid), self.daemon.family()
        assert found is not None
        assert found.provider is not None
        loss = self.cell.loss
        if loss.daemon_survives:
            await to_thread.run_sync(kill, (found.provider if loss is Loss.PROVIDER_KILLED else found.init,))
            if loss is not Loss.PROVIDER_KILLED:
                self._lose("guest-disk")
            if loss is Loss.STATE_LOST:
                self._lose("provider-state")
            os.kill(self.daemon.pid, signal.SIGCONT)
            self.server.release(self.exchanges[2].gate)
            await parked(self.client, self.ref)
            left = await to_thread.run_sync(settle, descendants(self.daemon.pid), 5.0)
            assert not left, f"left behind: {left}"
            return
        if loss in (Loss.REBOOT, Loss.GENERATIONS_LOST):
            await to_thread.run_sync(kill, tuple(family))
        await to_thread.run_sync(self.daemon.kill)
        self.server.release(self.exchanges[2].gate)
        assert not await to_thread.run_sync(gone, family)
        await to_thread.run_sync(self._while_down)

    def _while_down(self) -> None:
        app, private = self.daemon.app, self.daemon.private
        assert private is not None
        if self.cell.loss is Loss.DIRECTORY_MOVED:
            moved = app.parent / "another place" / "jam"
            moved.parent.mkdir()
            app.rename(moved)
            self.daemon.app = moved
        if self.cell.loss in (Loss.REBOOT, Loss.GENERATIONS_LOST):
            for directory in private.iterdir():
                if directory.is_dir():
                    shutil.rmtree(directory)
                    directory.mkdir(mode=0o700)
            of_another_boot(app / layout.engine_root(self.room.host.engine) / f"{self.room.host.sandbox}.json")
        if self.cell.loss is Loss.GENERATIONS_LOST:
            self._lose("provider-state")
            self._lose("recovery")

    def _lose(self, name: str) -> None:
        shutil.rmtree(self.host / name)

    # -------------------------------------------------------------------------------------------------------- the way back

    async def again(self, **more: str) -> None:
        """Have a daemon that answers: the one that saw it, or its next life."""
        if self.daemon.returncode is not None:
            self.daemon.start(**more)
            await self.daemon.up()
        self.client = self.daemon.client()

    async def comes_back_exactly(self) -> None:
        """The same thread, the right bytes, every item of every kept turn once and in order, and a cut turn is said to be cut."""
        view = await self.client.resume(self.ref)
        assert view.session.provider_identity == self.identity
        await self._require_evidence()
        third = await self._third_now()
        if third is not None:
            wanted = {Fate.KEPT: TurnState.CAPTURED, Fate.CUT: TurnState.CUT}[self.cell.fate]
            assert third.state in (wanted, TurnState.COMPLETED if self.cell.fate is Fate.KEPT else wanted), third
            await room_event(self.client, self.ref, lambda e: e.turn_id == third.id and is_state(e, wanted))
            assert third.detail or wanted is TurnState.CAPTURED
        asked = len(self.exchanges[2].requests(self.server.model_requests))
        assert (await ask(self.client, self.room, self.question.said)).state is TurnState.CAPTURED
        heard = said_in(self.server.model_requests[-1], [exchange.token for exchange in self.exchanges])
        assert heard == (*self._remembered(), self.question.items()[0])
        assert self.server.model_requests[-1].header("thread-id") == self.identity
        assert len(self.exchanges[2].requests(self.server.model_requests)) == asked, "a turn was sent again"
        assert not self.server.unmatched, self.server.unmatched[0].body

    def _remembered(self) -> tuple[Item, ...]:
        """Return what the model must have been told, whole and in order, before the question."""
        third = self.exchanges[2]
        items = (*self.exchanges[0].items(), *self.exchanges[1].items())
        if self.cell.fate is Fate.KEPT:
            items += third.items()
        elif self.cell.fate is Fate.CUT and self.cell.loss.keeps_live_state:
            items += third.acknowledged(self.server.model_requests)
        assert not repeated(items)
        return items

    async def is_refused(self) -> None:
        """The kind is right, each time; no provider and no sandbox starts, the model hears nothing, turns stay as they are."""
        record = self.daemon.app / layout.engine_root(self.room.host.engine) / f"{self.room.host.sandbox}.json"
        seen, turns, heard = record.read_bytes(), await self.client.turns(self.ref), len(self.server.requests)
        for attempt in (1, 2):
            with refused("continuity.refused") as caught:
                await self.client.resume(self.ref)
            assert caught.value.context()["failure"] == self.cell.failure
            inspection = await self.client.inspect(self.ref)
            assert inspection.decision is not None
            assert (inspection.decision.outcome, inspection.decision.failure) == (
                Activation.REFUSE_NO_CHECKPOINT,
                self.cell.failure,
            )
            assert inspection.observations == ()
            assert len(self._rows("activations", "decided_at")) == 1 + attempt
        assert record.read_bytes() == seen, "the sandbox was started"
        assert not self.daemon.family()
        assert len(self.server.requests) == heard
        assert await self.client.turns(self.ref) == turns
        assert turns[0].state is turns[1].state is TurnState.CAPTURED
        words, style = standing(await self.client.inspect(self.ref))
        assert (f"cannot be brought back ({self.cell.failure})" in words, style) == (True, "red")
        await self._require_shown(live=False)

    async def _require_evidence(self) -> None:
        """One decision and one observation for this resume, the decision first; what people are told says the same."""
        inspection = await self.client.inspect(self.ref)
        assert inspection.decision is not None
        assert inspection.decision.outcome is Activation.EXACT_RESUME
        (observation,) = inspection.observations
        assert (observation.outcome, observation.source) == (ObservationOutcome.SUCCEEDED, self.cell.source)
        assert observation.expected_identity == observation.reported_identity == self.identity
        decisions, observed = self._rows("activations", "decided_at"), self._rows("observations", "observed_at")
        assert (len(decisions), len(observed)) == (2, 1)  # the first decision is the fresh start
        assert decisions[-1] <= observed[-1]
        words, style = standing(inspection)
        how = "its live state extends it" if self.cell.source is ResumeSource.LIVE else "restored from it"
        assert (how in words, words.startswith("Resumed exactly"), style) == (True, True, "green")
        await self._require_shown(live=True)

    async def _require_shown(self, *, live: bool) -> None:
        """``jam room show``, the program, says the same of conversation and turns."""
        shown = await to_thread.run_sync(lambda: program(self.daemon.app, "room", "show", self.ref, "--json"))
        assert shown.status == 0, shown.err
        assert shown.json["room"]["live"] is live
        assert shown.json["room"]["session"]["provider_identity"] == self.identity
        assert [turn["state"] for turn in shown.json["turns"]][:2] == ["captured", "captured"]

    def _rows(self, of: str, moment: str) -> list[str]:
        with closing(sqlite3.connect(f"file:{self.daemon.app / layout.DATABASE}?mode=ro", uri=True)) as database:
            return [at for (at,) in database.execute(f"SELECT {moment} FROM {of} ORDER BY {moment}")]

    async def _third_now(self) -> Turn | None:
        return next((t for t in await self.client.turns(self.ref) if self.third and t.id == self.third.id), None)


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


@asynccontextmanager
async def playing(cell: Cell, directory: Path) -> AsyncIterator[Play]:
    """Start everything for a cell; in the end nothing may be left in or beside the app directory."""
    names = ("the first", "the second", "the third")
    holds: Place = "request-2" if cell.moment is Moment.IN_A_TURN else "nowhere"
    first, second = (Exchange.make(name, f"{place:010x}") for place, name in enumerate(names[:2], 1))
    exchanges = (first, second, Exchange.make(names[2], f"{3:010x}", holds))
    question = Question.make("the end", f"{4:010x}")
    rules = [*question.rules(), *(rule for exchange in reversed(exchanges) for rule in exchange.rules())]
    before, private = descendants(), directory / "private"
    await place_toolchain(directory / "app", PROVIDER)
    daemon = DaemonChild(directory / "app", private=private)
    stop = {VARIABLE: f"{STOP}{STOPS_AT[cell.moment]}#{THIRD}"} if cell.moment in STOPS_AT else {}
    async with ResponsesServer(Script(rules=tuple(rules))) as server, running_daemon(daemon, **stop) as client:
        try:
            yield Play(cell, daemon, client, server, before, exchanges, question)
        finally:
            with suppress(ProcessLookupError):
                os.kill(daemon.pid, signal.SIGCONT)
    assert not await to_thread.run_sync(settle, descendants() - before, 5.0)
    assert not left_in(daemon.app, private / "run", private / "tmp")


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell.name)
async def test_a_loss_at_a_moment(cell: Cell, tmp_path: Path) -> None:
    """Whatever is lost and whenever: the exact conversation, with what was cut said to be cut, or a refusal and nothing started."""
    async with playing(cell, tmp_path) as play:
        await play.to_the_moment()
        await play.it_happens()
        await play.again()
        if cell.failure is not None:
            await play.is_refused()
        else:
            await play.comes_back_exactly()
