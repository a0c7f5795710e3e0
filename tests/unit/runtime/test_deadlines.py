"""A turn has a bound for silence and one for the whole of it, the same for every provider; a person's time counts for neither."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import anyio
import pytest

from jamcore.continuity.coordinator import HostBusyError, HostCoordinator
from jamcore.domain.approvals import ApprovalAnswer, ApprovalPolicy, ApprovalState, DecisionRequest
from jamcore.domain.errors import CONTEXT_LIMIT, JamError
from jamcore.domain.events import (
    IN_DOUBT,
    ApprovalRequested,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    TurnStateChanged,
    UsageReported,
    Working,
)
from jamcore.domain.ids import ProviderIdentity
from jamcore.domain.limits import PROVIDER_REQUEST_S, Limits
from jamcore.domain.plan import ModelEndpoint
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError, ProviderTimeoutError
from jamcore.domain.sessions import Turn, TurnState
from jamcore.egress.decisions import Refused, RelayDecision
from jamcore.egress.heard import LastAnswer
from jamcore.runtime.approvals import ApprovalDesk
from jamcore.runtime.deadlines import Deadlines, TurnIdleError, TurnStuckError, TurnTooLongError, TurnWatch
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.seat import Seat
from jamcore.runtime.seating import Seating
from jamcore.runtime.turns import TurnRunner
from jamcore.store import Repos, Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.store.records import HandClock, Records

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("START-4", "START-5")]

BOUNDS = Limits(turn_idle_s=600, turn_s=3600)
THREAD = ProviderIdentity("thread-1")
COMMAND = CommandStarted(item="c", command="make", cwd="/w")
COMMAND_ENDED = CommandFinished(item="c", command="make", output="", exit_code=0)
INTERRUPTED = TurnEnded(outcome=TurnOutcome.INTERRUPTED)
QUESTION = ApprovalRequested(item="q", subject="command", detail="make", request="1")
IDS = SystemIds()


# ---------------------------------------------------------------------------------------------------- what counts (no waiting at all)


def left(*happened: tuple[float, ProviderEvent | int], now: float, limits: Limits = BOUNDS) -> float:
    """Return what is left of a turn that began at 0, after events, or numbers of questions that wait, each at its time."""
    watch = TurnWatch(limits, 0.0)
    for at, what in happened:
        if isinstance(what, int):
            watch.waits(what, at)
        else:
            watch.heard(what, at)
    return watch.left(now)


@pytest.mark.parametrize(
    "sign",
    [
        TurnStarted(provider_turn="t"),
        TextDelta(item="m", text="a"),
        Message(item="m", text="a"),
        UsageReported(input_tokens=1, output_tokens=1, total_tokens=2),
        CommandOutput(item="c", text="a"),
        Working(),
    ],
    ids=lambda sign: sign.kind,
)
def test_every_sign_of_life_begins_the_silence_anew(sign: ProviderEvent) -> None:
    """Whether a person reads it or not."""
    assert left((500, sign), now=500) == 600
    assert left((500, sign), now=1100) == 0


def test_a_notice_is_no_sign_of_life() -> None:
    """An agent that tells of each retry retries for ever all the same."""
    assert left((500, Notice(level="warning", text="tries again")), now=500) == 100


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (COMMAND, COMMAND_ENDED),
        (Working(item="c"), ToolCall(item="c", name="search", arguments="")),
        (Working(item="c"), FileChanged(item="c", path="f", change="add", diff="")),
        (Working(item="c"), Working(item="c", over=True)),
    ],
    ids=["command", "tool", "file", "tool without an event"],
)
def test_what_runs_may_be_silent(begins: ProviderEvent, ends: ProviderEvent) -> None:
    """While a command or a tool runs nothing has to be heard; when the last one ended, the silence begins."""
    other = Working(item="other")
    assert left((10, begins), now=3000) == 600, "what is left is the whole turn's"
    assert left((10, begins), (10, other), (900, ends), now=3000) == 600
    assert left((10, begins), (10, other), (900, ends), (2000, Working(item="other", over=True)), now=2000) == 600
    assert left((10, begins), (900, ends), now=1400) == 100


def test_a_person_may_take_as_long_as_they_like() -> None:
    """While a question waits neither bound runs, and afterwards the whole turn has what it had before."""
    assert left((100, QUESTION), (100, 1), now=1e9) == math.inf
    assert left((100, 1), (200, 2), (300, 1), now=1e9) == math.inf
    assert left((100, 1), (90_100, 0), now=90_100) == 600
    assert left((100, 1), (90_100, 0), (90_100, COMMAND), now=90_100) == 3500


@pytest.mark.parametrize(
    ("limits", "after_a_day"),
    [
        (Limits(turn_idle_s=0, turn_s=0), math.inf),
        (Limits(turn_idle_s=0, turn_s=90_000), 3600),
        (Limits(turn_idle_s=90_000, turn_s=0), 3600),
    ],
)
def test_zero_is_no_bound(limits: Limits, after_a_day: float) -> None:
    """Each for itself."""
    assert left(now=86_400, limits=limits) == after_a_day


def test_the_reason_names_the_bound_and_the_endpoint() -> None:
    """What happened, the setting that says so, which model was asked and what it said, and what to do."""
    silent = TurnWatch(BOUNDS, 0.0).find_overdue(600, "The model endpoint is https://m, which answered 429 last")
    assert isinstance(silent, TurnIdleError)
    assert silent.detail == (
        "Nothing was heard of the agent for 600 s (turn_idle_timeout_s), so it was interrupted."
        " The model endpoint is https://m, which answered 429 last. Check the model endpoint and its credential, then say it again."
    )
    busy = TurnWatch(BOUNDS, 0.0)
    busy.heard(COMMAND, 10)
    assert busy.find_overdue(3599, "") is None
    long = busy.find_overdue(3600, "")
    assert isinstance(long, TurnTooLongError)
    assert "3600 s (turn_timeout_s)" in long.detail


def test_what_the_endpoint_did_last_is_told_where_it_was_no_answer() -> None:
    """Its origin is told in any case, and nothing where a host has none."""
    model = LastAnswer(ModelEndpoint(origin="https://m", paths=()))
    assert LastAnswer(None).said() == ""
    assert model.said() == "The model endpoint is https://m, which has answered nothing yet"
    good = RelayDecision("POST", "/v1", 200, 200, None, 1, 1, 1.0)
    for decision, said in (
        (good, "The model endpoint is https://m"),
        (replace(good, status=429, upstream_status=429), "The model endpoint is https://m, which answered 429 last"),
        (replace(good, status=502, upstream_status=None, refused=Refused.UNREACHABLE), "relay_upstream_unreachable"),
    ):
        model.note(decision)
        assert model.said().endswith(said)


# ------------------------------------------------------------------------------------------------------------ turns with a deadline


class Time(SystemClock):
    """Time that passes when the test says so, for whoever asks and whoever sleeps."""

    def __init__(self) -> None:
        self.at = 0.0
        self._passed = anyio.Event()

    def now(self) -> datetime:
        """Return the time of day."""
        return datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        """Return the seconds since the test's beginning."""
        return self.at

    async def sleep(self, seconds: float) -> None:
        """Wait until so much time passed."""
        until = self.at + seconds
        while self.at < until:
            await self._passed.wait()

    async def passes(self, seconds: float) -> None:
        """Let time pass, and everybody do what is due then."""
        self.at += seconds
        self._passed.set()
        self._passed = anyio.Event()
        await anyio.wait_all_tasks_blocked()


@dataclass
class Agent:
    """A provider's runtime whose turn says what the test says, and ends when it is interrupted, if it ends."""

    ends: TurnEnded | None = INTERRUPTED
    refuses: bool = False
    interrupts: int = 0
    left_early: bool = False
    answers: list[ApprovalAnswer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.says, self._events = anyio.create_memory_object_stream[ProviderEvent](100)

    @asynccontextmanager
    async def turn(self, _identity: str, _text: str) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """See :class:`ProviderRuntime`."""
        try:
            yield self._until_the_end()
        except BaseException:
            self.left_early = True
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Say and hear nothing more."""
        self.says.close()
        self._events.close()

    async def _until_the_end(self) -> AsyncIterator[ProviderEvent]:
        async for event in self._events:
            yield event
            if isinstance(event, TurnEnded):
                return

    async def interrupt(self, _identity: str) -> None:
        """See :class:`ProviderRuntime`."""
        self.interrupts += 1
        if self.refuses:
            raise ProviderTimeoutError(provider="p", request="interrupt", limit_s=1)
        if self.ends is None:
            await anyio.sleep_forever()
        else:
            await self.says.send(self.ends)

    async def answer(self, _identity: str, _request: str, answer: ApprovalAnswer) -> None:
        """See :class:`ProviderRuntime`."""
        self.answers.append(answer)


@dataclass
class World:
    """A stored turn of a session that asks, and what runs it."""

    store: Store
    desk: ApprovalDesk
    time: Time
    turn: Turn
    runner: TurnRunner
    agent: Agent = field(default_factory=Agent)
    outcome: TurnState | JamError | None = None

    async def run(self) -> None:
        """Run the turn and keep how it ended."""
        try:
            self.outcome = await self.runner.run(self.turn, cast("Any", self.agent), THREAD, started=lambda: None)
        except JamError as error:
            self.outcome = error

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the turn beside the block, and end it with it."""
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.run)
                await self.says(TurnStarted(provider_turn="t1"))
                await self.written(TurnStarted)
                yield
                tasks.cancel_scope.cancel()

    async def says(self, event: ProviderEvent) -> None:
        """Let the agent say something, and everybody hear it."""
        await self.agent.says.send(event)
        await self.settles(lambda: not self.agent.says.statistics().current_buffer_used)

    async def settles(self, until: Callable[[], bool]) -> None:
        """Wait until something is so, and all tasks are at rest: the database works in a thread."""
        while not until():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(0.001)
        await anyio.wait_all_tasks_blocked()

    async def written(self, kind: type[Any]) -> None:
        """Wait until the room has an event of a kind."""
        while not await self.told(kind):  # noqa: ASYNC110 - it is written in a thread
            await anyio.sleep(0.001)
        await anyio.wait_all_tasks_blocked()

    async def ended(self) -> TurnState | JamError | None:
        """Wait for the turn's end."""
        await self.settles(lambda: self.outcome is not None)
        return self.outcome

    async def stored(self) -> Turn:
        """Return the turn as it is stored."""
        return await self.store.read(lambda repos: repos.turns.get(self.turn.id))

    async def told(self, kind: type[Any]) -> list[Any]:
        """Return the room's events of a kind."""
        events = await self.store.read(lambda repos: repos.events.after(self.turn.room_id, 0, 100))
        return [event.payload for event in events if isinstance(event.payload, kind)]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A real database, and time in the test's hand."""
    time, records = Time(), Records(HandClock())
    async with open_store(tmp_path / "jam.db", files=Files(), clock=time, daemon_id=uuid4()) as store:

        def seed(repos: Repos) -> Turn:
            agent = repos.agents.insert(records.agent())
            host = repos.hosts.insert(records.host(agent))
            asking = records.session(host).model_copy(update={"approvals": ApprovalPolicy.ASK})
            session = repos.sessions.insert(asking)
            room = repos.rooms.insert(records.room(agent))
            repos.bindings.insert(records.binding(room, session))
            return repos.turns.accept(records.turn(room, session))

        turn = await store.transact(seed)
        feed = RoomFeed(store)
        desk = ApprovalDesk(store=store, feed=feed, clock=time, ids=IDS, deadline_s=7 * 86_400, sleep=time.sleep)
        runner = TurnRunner(
            store=store,
            feed=feed,
            clock=time,
            coordinator=HostCoordinator(turn.session_id),
            desk=desk,
            deadlines=Deadlines(time, BOUNDS, time.sleep, lambda: "The model endpoint is https://m"),
        )
        made = World(store, desk, time, turn, runner)
        yield made
        made.agent.close()


@pytest.mark.guarantee("CONT-11")
async def test_a_silent_turn_is_interrupted_and_has_failed(world: World) -> None:
    """With a code of Jam's own and what to do, in the room and in the turn; it is not completed, so nothing captures it as that."""
    async with world.running():
        await world.time.passes(599)
        assert (world.outcome, world.agent.interrupts) == (None, 0)
        await world.time.passes(1)
        assert await world.ended() is TurnState.FAILED
    assert world.agent.interrupts == 1
    turn, [end] = await world.stored(), await world.told(TurnEnded)
    assert (end.outcome, end.code) == (TurnOutcome.FAILED, "turn.idle_timeout")
    assert (turn.state, turn.detail) == (TurnState.FAILED, end.detail)
    assert "turn_idle_timeout_s" in end.detail
    assert "https://m" in end.detail


async def test_a_person_is_told_of_silence_once(world: World) -> None:
    """Before the turn is interrupted, with the model that is asked and what will be done; not while something runs."""
    async with world.running():
        await world.says(COMMAND)
        await world.time.passes(200)
        await world.says(COMMAND_ENDED)
        await world.time.passes(119)
        assert await world.told(Notice) == []
        await world.time.passes(1)
        await world.says(TextDelta(item="m", text="a"))
        await world.time.passes(500)
        await world.says(TurnEnded(outcome=TurnOutcome.COMPLETED))
        await world.ended()
    [notice] = await world.told(Notice)
    assert notice.text == (
        "Nothing was heard of the agent for 120 s: it may be asking a model that fails, again and again."
        " The model endpoint is https://m. After 600 s the turn is interrupted (turn_idle_timeout_s)."
    )


async def test_a_turn_that_never_began_is_ended_too(world: World) -> None:
    """Some agents say nothing at all before their model answered."""
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.run)
            await anyio.wait_all_tasks_blocked()
            await world.time.passes(600)
            assert await world.ended() is TurnState.FAILED
    assert (await world.stored()).provider_turn is None


async def test_what_is_heard_keeps_it_alive_and_what_is_for_nobody_is_not_kept(world: World) -> None:
    """Signs of life are no events of the room."""
    async with world.running():
        for _ in range(5):
            await world.time.passes(400)
            await world.says(Working())
        await world.says(TextDelta(item="m", text="a"))
        await world.time.passes(599)
        assert world.agent.interrupts == 0
        await world.says(TurnEnded(outcome=TurnOutcome.COMPLETED))
        assert await world.ended() is TurnState.COMPLETED
    assert await world.told(Working) == []


async def test_retries_that_are_told_do_not_keep_it_alive(world: World) -> None:
    """They are notices."""
    async with world.running():
        for _ in range(6):
            await world.says(Notice(level="warning", text="tries again"))
            await world.time.passes(100)
        assert await world.ended() is TurnState.FAILED


async def test_a_command_may_be_silent_up_to_the_bound_of_the_turn(world: World) -> None:
    """Then the turn fails by the other code."""
    async with world.running():
        await world.says(COMMAND)
        await world.time.passes(3599)
        assert world.agent.interrupts == 0
        await world.time.passes(1)
        assert await world.ended() is TurnState.FAILED
    assert [end.code for end in await world.told(TurnEnded)] == ["turn.timeout"]


async def test_silence_begins_when_the_command_ended(world: World) -> None:
    """Also where nobody was due to look at that moment."""
    async with world.running():
        await world.says(COMMAND)
        await world.time.passes(700)
        await world.says(COMMAND_ENDED)
        await world.time.passes(599)
        assert world.agent.interrupts == 0
        await world.time.passes(1)
        assert await world.ended() is TurnState.FAILED
    assert [end.code for end in await world.told(TurnEnded)] == ["turn.idle_timeout"]


async def test_a_turn_that_waits_for_a_person_never_runs_out(world: World) -> None:
    """Not in days; once it is answered the agent has its time again."""
    async with world.running():
        await world.says(QUESTION)
        await world.written(ApprovalRequested)
        await world.time.passes(5 * 86_400)
        assert (world.outcome, world.agent.interrupts) == (None, 0)
        [asked] = await world.store.read(lambda repos: repos.approvals.list())
        assert asked.state is ApprovalState.PENDING
        await world.desk.decide(str(asked.id), DecisionRequest(id=IDS.uuid(), decision=ApprovalAnswer.ALLOW))
        await world.settles(lambda: world.agent.answers == [ApprovalAnswer.ALLOW])
        await world.time.passes(599)
        assert (world.outcome, world.agent.interrupts) == (None, 0)
        await world.time.passes(1)
        assert await world.ended() is TurnState.FAILED


@pytest.mark.guarantee("CONT-11")
async def test_a_turn_that_was_done_already_is_completed(world: World) -> None:
    """The provider's own end mark counts, also where it and the interrupt crossed."""
    world.agent.ends = TurnEnded(outcome=TurnOutcome.COMPLETED)
    async with world.running():
        await world.time.passes(600)
        assert await world.ended() is TurnState.COMPLETED
    assert (await world.stored()).detail == ""


async def test_what_the_agent_says_of_its_end_is_told_too(world: World) -> None:
    """An agent that fails because it was interrupted, or at that moment, has words of its own."""
    world.agent.ends = TurnEnded(outcome=TurnOutcome.FAILED, code="rate_limit", detail="429 too many requests")
    async with world.running():
        await world.time.passes(600)
        assert await world.ended() is TurnState.FAILED
    [end] = await world.told(TurnEnded)
    assert (end.code, end.detail.endswith("The agent said: 429 too many requests")) == ("turn.idle_timeout", True)


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize("refuses", [False, True], ids=["hangs", "gives up"])
async def test_an_agent_that_cannot_be_interrupted_is_left(world: World, refuses: bool) -> None:
    """Within a bound, which leaves the runtime's turn; the turn is in doubt then, for only the provider's state can tell what it holds."""
    world.agent.ends, world.agent.refuses = None, refuses
    async with world.running():
        await world.time.passes(600)
        await world.time.passes(PROVIDER_REQUEST_S - 1)
        assert world.outcome is None
        await world.time.passes(1)
        stuck = await world.ended()
    assert isinstance(stuck, TurnStuckError)
    assert stuck.detail.startswith("turn.idle_timeout: Nothing was heard")
    assert world.agent.left_early
    assert (await world.stored()).state is TurnState.RUNNING


@pytest.mark.guarantee("CONT-11")
async def test_the_program_of_an_agent_that_cannot_be_interrupted_is_stopped(world: World) -> None:
    """As of one that is gone: the room says that the turn is in doubt and why, and the seat's provider is lost."""
    stuck, lost = TurnStuckError(detail="turn.idle_timeout: it did not end"), []

    async def run(*_arguments: object, **_named: object) -> None:
        raise stuck

    runner = SimpleNamespace(run=run, doubt=world.runner.doubt)
    seating = Seating(*cast("Any", (None, runner, None, BOUNDS, lambda seat, why: lost.append((seat, why)))))
    seat = Seat(session=cast("Any", None), workspace=cast("Any", None), room_id=world.turn.room_id, identity=THREAD)
    seat.runtime = cast("Any", world.agent)
    assert not await seating._turn(seat, world.turn)
    assert lost == [(seat, str(stuck))]
    [said] = await world.told(TurnStateChanged)
    assert (said.state, said.detail) == (IN_DOUBT, str(stuck))
    assert "turn.idle_timeout: it did not end" in said.detail


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ProviderGoneError(provider="p", detail="exit status 9"), "exit status 9"),
        (ProviderProtocolError(provider="p", problem="a line of 10 MB"), "a line of 10 MB"),
        (ProviderTimeoutError(provider="p", request="turn/start", limit_s=30.0), "request=turn/start, limit_s=30.0"),
        (ProviderProtocolError(provider="p", problem="no JSON: " + "x" * 10_000), "no JSON"),
    ],
    ids=["gone", "nonsense", "no answer", "long"],
)
async def test_a_turn_in_doubt_says_why(world: World, error: JamError, reason: str) -> None:
    """Whatever the error calls its reason; in bounded words."""
    await world.runner.doubt(world.turn, error)
    [said] = await world.told(TurnStateChanged)
    assert said.detail.startswith(f"{error.code}: ")
    assert reason in said.detail
    assert len(said.detail) < 2 * CONTEXT_LIMIT


async def test_an_end_that_comes_late_counts(world: World) -> None:
    """The agent may take up to the bound of an interrupt."""
    world.agent.ends = None
    async with world.running():
        await world.time.passes(600)
        await world.time.passes(PROVIDER_REQUEST_S - 1)
        await world.says(TurnEnded(outcome=TurnOutcome.INTERRUPTED))
        assert await world.ended() is TurnState.FAILED


@pytest.mark.guarantee("CONT-11")
async def test_a_daemon_that_ends_meanwhile_decides_nothing(world: World) -> None:
    """The turn stays running, so that the next start takes it for in doubt; it did not run out of time then."""
    async with world.running():
        await world.time.passes(300)
    assert (world.outcome, world.agent.interrupts) == (None, 0)
    assert (await world.stored()).state is TurnState.RUNNING
    assert await world.told(TurnEnded) == []


@pytest.mark.guarantee("CONT-2", "CONT-7")
async def test_a_resume_holds_the_host_as_a_turn_does(world: World) -> None:
    """Beside others, and never beside a checkpoint."""
    coordinator = world.runner._coordinator
    async with world.runner.resuming(world.turn.session_id, said_as="the resume of room red"):
        async with coordinator.turn_permit(world.turn.session_id, 0, said_as="the turn of room blue"):
            assert coordinator.holders == ("the resume of room red", "the turn of room blue")
        with pytest.raises(HostBusyError):
            async with coordinator.exclusive("checkpoint", 0):
                raise AssertionError
    assert not coordinator.holders
