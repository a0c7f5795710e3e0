"""The desk where an agent's questions wait: a rule, a person or the deadline decides, exactly once, and the turn goes on meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from jamcore.domain.approvals import (
    Approval,
    ApprovalAnswer,
    ApprovalDecidedError,
    ApprovalPolicy,
    ApprovalState,
    DecidedBy,
    DecisionRequest,
    RuleScope,
)
from jamcore.domain.cells import Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.errors import ConflictError, InvalidInputError, NotFoundError
from jamcore.domain.events import ApprovalDecided, ApprovalRequested, RoomEvent
from jamcore.domain.ids import ProviderIdentity
from jamcore.domain.providers import ProviderGoneError
from jamcore.domain.sessions import Agent, HostState, Room, RuntimeHost, RuntimeSession, SessionState, Turn, TurnState
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.runtime.approvals import WAITING_AT_ONCE, ApprovalDesk, Counter
from jamcore.runtime.feed import RoomFeed
from jamcore.store import FencedError, Repos, Store, StoreFullError, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds

pytestmark = pytest.mark.unprivileged
WAIT_S = 10.0
AT = datetime(2026, 1, 2, tzinfo=UTC)
IDS = SystemIds()
ALLOW, DENY = ApprovalAnswer.ALLOW, ApprovalAnswer.DENY


class Hand:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._passed = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait until the test lets time pass."""
        self.asked.append(seconds)
        await self._passed.wait()

    def passes(self) -> None:
        """Let it pass."""
        self._passed.set()


@dataclass
class Provider:
    """The end of a provider's runtime that hears answers."""

    heard: list[tuple[str, ApprovalAnswer]] = field(default_factory=list)
    gone: bool = False
    news: anyio.Event = field(default_factory=anyio.Event)

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """Hear an answer."""
        assert identity == "thread"
        if self.gone:
            raise ProviderGoneError(provider="p", detail="dead")
        self.heard.append((request, answer))
        self.news.set()

    async def heard_one(self) -> tuple[str, ApprovalAnswer]:
        """Wait for the next answer."""
        with anyio.fail_after(WAIT_S):
            await self.news.wait()
        self.news = anyio.Event()
        return self.heard[-1]


@dataclass
class World:
    """A store with one agent, a session in each of two rooms, and a desk over it."""

    store: Store
    desk: ApprovalDesk
    hand: Hand
    provider: Provider
    turn: Turn
    other: Turn
    quiet: Turn
    """Of a session that does not ask."""

    @asynccontextmanager
    async def asking(self, turn: Turn | None = None) -> AsyncIterator[Counter]:
        """Open a turn's counter."""
        runtime: ProviderRuntime = self.provider  # type: ignore[assignment]
        async with self.desk.counter(turn or self.turn, runtime, ProviderIdentity("thread")) as counter:
            yield counter

    async def approvals(self) -> tuple[Approval, ...]:
        """Return all, oldest first."""
        return tuple(reversed(await self.store.read(lambda repos: repos.approvals.list())))

    async def only(self) -> Approval:
        """Return the only one."""
        [approval] = await self.approvals()
        return approval

    async def events(self, turn: Turn | None = None) -> list[RoomEvent]:
        """Return a room's events."""
        room = (turn or self.turn).room_id
        return list(await self.store.read(lambda repos: repos.events.after(room, 0, 100)))

    async def decided(self) -> list[tuple[ApprovalState, DecidedBy]]:
        """Return what the room was told of decisions."""
        said = [event.payload for event in await self.events()]
        return [(one.state, one.decided_by) for one in said if isinstance(one, ApprovalDecided)]

    async def decide(self, answer: ApprovalAnswer, **more: object) -> Approval:
        """Answer the newest that waits."""
        pending = [one for one in await self.approvals() if one.state is ApprovalState.PENDING]
        return await self.desk.decide(str(pending[-1].id), decision(answer, **more))


def decision(answer: ApprovalAnswer, **more: object) -> DecisionRequest:
    return DecisionRequest.model_validate({"id": IDS.uuid(), "decision": answer, **more})


def asks(detail: str = "touch f", *, request: str = "r1", **more: object) -> ApprovalRequested:
    return ApprovalRequested.model_validate({"item": "i", "subject": "command", "detail": detail, "request": request, **more})


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock, hand = SystemClock(), Hand()
    async with open_store(tmp_path / "jam.db", files=Files(), clock=clock, daemon_id=uuid4()) as store:
        agent = Agent(id=uuid4(), name="a", provider="p", created_at=AT)
        turns = [_turn(), _turn(), _turn()]
        for turn, policy in zip(turns, (ApprovalPolicy.ASK, ApprovalPolicy.ASK, ApprovalPolicy.NEVER), strict=True):
            await store.transact(partial(_seed, agent, turn, policy))
        desk = ApprovalDesk(store=store, feed=RoomFeed(store), clock=clock, ids=IDS, deadline_s=30.0, sleep=hand.sleep)
        yield World(store, desk, hand, Provider(), *turns)


def _turn() -> Turn:
    return Turn(
        id=uuid4(),
        room_id=uuid4(),
        session_id=uuid4(),
        text="go",
        state=TurnState.ACCEPTED,
        provider_turn=None,
        detail="",
        checkpoint_id=None,
        workspace_digest=None,
        process_epoch=1,
        accepted_at=AT,
        ended_at=None,
    )


def _seed(agent: Agent, turn: Turn, policy: ApprovalPolicy, repos: Repos) -> None:
    cell = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=Placement.DEDICATED)
    repos.agents.insert(agent)
    repos.rooms.insert(Room(id=turn.room_id, name=str(turn.room_id), agent_id=agent.id, created_at=AT))
    host = RuntimeHost(
        id=turn.session_id,
        agent_id=agent.id,
        provider="p",
        engine="e",
        cell=cell,
        sandbox=f"s-{turn.session_id}",
        plan_json="{}",
        state=HostState.PROVISIONING,
        daemon_id=uuid4(),
        fence_epoch=1,
        created_at=AT,
    )
    repos.hosts.insert(host)
    session = RuntimeSession(
        id=turn.session_id,
        host_id=host.id,
        agent_id=agent.id,
        state=SessionState.DORMANT,
        provider_identity=None,
        model=None,
        approvals=policy,
        created_at=AT,
    )
    repos.sessions.insert(session)
    repos.turns.accept(turn)


@pytest.mark.parametrize(("answer", "state"), [(ALLOW, ApprovalState.ALLOWED), (DENY, ApprovalState.DENIED)])
async def test_a_person_decides(world: World, answer: ApprovalAnswer, state: ApprovalState) -> None:
    """The answer is stored with who gave it, said in the room, and told to the provider by the provider's own id."""
    async with world.asking() as counter:
        await counter.ask(asks())
        decided = await world.decide(answer)
        assert await world.provider.heard_one() == ("r1", answer)
    assert (decided.state, decided.decided_by) == (state, DecidedBy.PERSON)
    assert await world.only() == decided
    assert await world.decided() == [(state, DecidedBy.PERSON)]


@pytest.mark.guarantee("PLUG-3")
async def test_a_room_knows_a_question_by_jams_own_id(world: World) -> None:
    """What the provider calls its question stays between it and Jam; its texts are redacted and bounded before they are stored."""
    secret = "sk-" + "a1" * 20
    async with world.asking() as counter:
        await counter.ask(asks(f"curl -H {secret}", preview="x" * 50_000))
        approval = await world.only()
    [asked] = [event.payload for event in await world.events() if isinstance(event.payload, ApprovalRequested)]
    assert asked.request == str(approval.id)
    assert (approval.request, approval.detail) == ("r1", "curl -H [redacted]")
    assert approval.detail == asked.detail
    assert len(approval.preview) == len(asked.preview) == 16 << 10


async def test_the_turn_goes_on_while_a_question_waits(world: World) -> None:
    """Asking returns at once, and several questions wait beside each other, each with its own answer."""
    async with world.asking() as counter:
        await counter.ask(asks(request="first"))
        await counter.ask(asks(request="second"))
        first, second = await world.approvals()
        await world.desk.decide(str(second.id), decision(DENY))
        assert await world.provider.heard_one() == ("second", DENY)
        await world.desk.decide(str(first.id), decision(ALLOW))
        assert await world.provider.heard_one() == ("first", ALLOW)


async def test_a_deadline_denies(world: World) -> None:
    """Nobody answered: the provider hears no, and a person who comes later learns why."""
    async with world.asking() as counter:
        await counter.ask(asks())
        assert not world.provider.heard
        world.hand.passes()
        assert await world.provider.heard_one() == ("r1", DENY)
        approval = await world.only()
        assert (approval.state, approval.decided_by) == (ApprovalState.DENIED, DecidedBy.DEADLINE)
        with pytest.raises(ApprovalDecidedError) as late:
            await world.desk.decide(str(approval.id), decision(ALLOW))
    assert (late.value.state, late.value.decided_by) == ("denied", "deadline")
    assert world.hand.asked == [30.0]
    assert (approval.deadline_at - approval.asked_at).total_seconds() == 30.0


async def test_what_waits_when_the_turn_ends_has_expired(world: World) -> None:
    """However the turn ends: the provider hears nothing, and a later answer is refused with how it was decided."""
    with pytest.raises(ProviderGoneError):
        await _die_asking(world)
    approval = await world.only()
    assert (approval.state, approval.decided_by) == (ApprovalState.EXPIRED, DecidedBy.TURN_ENDED)
    assert not world.provider.heard
    with pytest.raises(ApprovalDecidedError) as late:
        await world.desk.decide(str(approval.id), decision(ALLOW))
    assert late.value.decided_by == "turn-ended"
    assert await world.decided() == [(ApprovalState.EXPIRED, DecidedBy.TURN_ENDED)]


async def test_a_worker_that_is_stopped_leaves_nothing_pending(world: World) -> None:
    """A cancellation from above reaches the waiting tasks first; the row has expired all the same."""
    asked = anyio.Event()

    async def turn() -> None:
        async with world.asking() as counter:
            await counter.ask(asks())
            asked.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        await asked.wait()
        tasks.cancel_scope.cancel()
    assert (await world.only()).state is ApprovalState.EXPIRED


async def test_the_end_mark_comes_after_what_expired(world: World) -> None:
    """The turn's own end is said last; expiring twice changes nothing, and the counter can still be left."""
    async with world.asking() as counter:
        await counter.ask(asks())
        await counter.expire()
        assert (await world.only()).state is ApprovalState.EXPIRED
        await anyio.lowlevel.checkpoint()  # the block was not cancelled
    assert await world.decided() == [(ApprovalState.EXPIRED, DecidedBy.TURN_ENDED)]


@pytest.mark.guarantee("CTRL-3")
async def test_of_two_answers_exactly_one_counts(world: World) -> None:
    """Answers that race: one is told to the provider, each other one is a typed conflict that names how it was decided."""
    results: list[ApprovalState | str] = []

    async def answer(approval: Approval, given: ApprovalAnswer) -> None:
        try:
            results.append((await world.desk.decide(str(approval.id), decision(given))).state)
        except ApprovalDecidedError as error:
            results.append(error.code)

    async with world.asking() as counter:
        await counter.ask(asks())
        approval = await world.only()
        async with anyio.create_task_group() as tasks:
            for n in range(8):
                tasks.start_soon(answer, approval, ALLOW if n % 2 else DENY)
        await world.provider.heard_one()
    assert results.count("conflict.approval_decided") == 7
    assert len(world.provider.heard) == 1
    [state] = set(results) - {"conflict.approval_decided"}
    assert state == (await world.only()).state


async def test_an_exact_retry_is_the_same_answer(world: World) -> None:
    """By the client's id: the same answer again returns what it did; another answer under it is a conflict."""
    async with world.asking() as counter:
        await counter.ask(asks())
        approval = await world.only()
        request = decision(ALLOW, always=RuleScope.ROOM)
        first = await world.desk.decide(str(approval.id), request)
        assert await world.desk.decide(str(approval.id), request) == first
        with pytest.raises(ConflictError):
            await world.desk.decide(str(approval.id), request.model_copy(update={"decision": DENY}))
        await world.provider.heard_one()
    assert world.provider.heard == [("r1", ALLOW)]
    assert len(await world.store.read(lambda repos: repos.approval_rules.list())) == 1


@pytest.mark.parametrize(("scope", "other_room"), [(RuleScope.ROOM, False), (RuleScope.AGENT, True)])
async def test_always_holds_in_its_scope(world: World, scope: RuleScope, *, other_room: bool) -> None:
    """The next time nobody is asked: in that room, or in every room of the agent. Nothing but "this once" is told to the provider."""
    async with world.asking() as counter:
        await counter.ask(asks())
        await world.decide(ALLOW, always=scope)
        await world.provider.heard_one()
        await counter.ask(asks(request="again"))
        assert await world.provider.heard_one() == ("again", ALLOW)
        await counter.ask(asks("touch g", request="else"))
    first, again, another = await world.approvals()
    [rule] = await world.store.read(lambda repos: repos.approval_rules.list())
    assert (again.decided_by, again.rule_id) == (DecidedBy.RULE, rule.id)
    assert (rule.created_by_approval, rule.scope) == (first.id, scope)
    assert another.decided_by is DecidedBy.TURN_ENDED
    async with world.asking(world.other) as counter:
        await counter.ask(asks(request="other room"))
    elsewhere = (await world.approvals())[-1]
    assert (elsewhere.decided_by is DecidedBy.RULE) == other_room


async def test_a_rule_that_was_removed_allows_nothing_more(world: World) -> None:
    """What it allowed before stays allowed, and names it still."""
    async with world.asking() as counter:
        await counter.ask(asks())
        await world.decide(ALLOW, always=RuleScope.ROOM)
        await world.provider.heard_one()
        await counter.ask(asks(request="again"))
        await world.provider.heard_one()
        [rule] = await world.store.read(lambda repos: repos.approval_rules.list())
        await world.store.transact(lambda repos: repos.approval_rules.remove(rule.id))
        await counter.ask(asks(request="after"))
        assert (await world.approvals())[-1].state is ApprovalState.PENDING
    assert (await world.approvals())[1].rule_id == rule.id


async def test_a_refused_rule_decides_nothing(world: World) -> None:
    """An answer whose rule makes no sense is refused whole: the question waits on."""
    async with world.asking() as counter:
        await counter.ask(asks())
        for request in (
            decision(DENY, always=RuleScope.ROOM),
            decision(ALLOW, prefix="touch"),
            decision(ALLOW, always=RuleScope.ROOM, prefix="rm"),
        ):
            with pytest.raises(InvalidInputError):
                await world.desk.decide(str((await world.only()).id), request)
        with pytest.raises(NotFoundError):
            await world.desk.decide(str(uuid4()), decision(ALLOW))
        assert (await world.only()).state is ApprovalState.PENDING
    assert await world.store.read(lambda repos: repos.approval_rules.list()) == ()


async def test_a_flood_of_questions_is_denied(world: World) -> None:
    """Beyond the bound each is denied at once and the room says so; those that wait are not touched."""
    async with world.asking() as counter:
        for n in range(WAITING_AT_ONCE):
            await counter.ask(asks(request=str(n)))
        await counter.ask(asks(request="too many"))
        assert await world.provider.heard_one() == ("too many", DENY)
        assert len(await world.approvals()) == WAITING_AT_ONCE


async def test_a_question_where_none_was_to_come_is_denied(world: World) -> None:
    """The session says whether it asks, not the plugin: no person is kept waiting by an agent that was not to ask."""
    async with world.asking(world.quiet) as counter:
        await counter.ask(asks())
        assert await world.provider.heard_one() == ("r1", DENY)
    assert await world.approvals() == ()
    assert [event.payload.kind for event in await world.events(world.quiet)] == ["notice"]


@pytest.mark.parametrize("request_id", ["", "x" * 257])
async def test_a_question_without_a_usable_id_is_denied_and_not_kept(world: World, request_id: str) -> None:
    """No person could answer it, so nobody is asked, and the provider does not wait for ever."""
    async with world.asking() as counter:
        await counter.ask(asks(request=request_id))
        assert await world.provider.heard_one() == (request_id, DENY)
    assert await world.approvals() == ()
    assert [event.payload.kind for event in await world.events()] == ["notice"]


async def test_an_answer_that_does_not_reach_the_agent_is_said(world: World) -> None:
    """The decision stands as it was given; the room says that it was not carried out."""
    world.provider.gone = True
    async with world.asking() as counter:
        await counter.ask(asks())
        await world.decide(ALLOW)
        await _until(lambda: _has_notice(world))
    assert (await world.only()).state is ApprovalState.ALLOWED


async def test_a_later_life_answers_nothing_of_an_earlier_one(world: World) -> None:
    """A row that was left pending belongs to no turn of this daemon: an answer lets it expire and is refused."""
    async with world.asking() as counter:
        await counter.ask(asks())
        approval = await world.only()
        later = ApprovalDesk(store=world.store, feed=RoomFeed(world.store), clock=SystemClock(), ids=IDS)
        with pytest.raises(ApprovalDecidedError) as refused:
            await later.decide(str(approval.id), decision(ALLOW))
    assert refused.value.state == "expired"
    assert not world.provider.heard


async def test_a_full_disk_does_not_hide_why_a_turn_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row stays behind as pending; the first answer lets it expire, and is refused."""

    async def full(_work: object) -> None:
        raise StoreFullError(detail="ENOSPC")

    async def die() -> None:
        async with world.asking() as counter:
            await counter.ask(asks())
            monkeypatch.setattr(world.store, "transact", full)
            raise ProviderGoneError(provider="p", detail="dead")

    with pytest.raises(ProviderGoneError):
        await die()
    monkeypatch.undo()
    approval = await world.only()
    assert approval.state is ApprovalState.PENDING
    with pytest.raises(ApprovalDecidedError):
        await world.desk.decide(str(approval.id), decision(ALLOW))
    assert (await world.only()).decided_by is DecidedBy.TURN_ENDED


@pytest.mark.guarantee("SHARE-1")
async def test_another_daemons_question_is_not_touched(world: World, tmp_path: Path) -> None:
    """Two daemons with one database: who does not own the host neither answers its question nor lets it expire."""
    async with world.asking() as counter:
        await counter.ask(asks())
        approval = await world.only()
        other = open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=uuid4())
        async with other as store:
            desk = ApprovalDesk(store=store, feed=RoomFeed(store), clock=SystemClock(), ids=IDS)
            with pytest.raises(FencedError):
                await desk.decide(str(approval.id), decision(ALLOW))
        assert (await world.only()).state is ApprovalState.PENDING


async def _die_asking(world: World) -> None:
    async with world.asking() as counter:
        await counter.ask(asks())
        raise ProviderGoneError(provider="p", detail="dead")


async def _has_notice(world: World) -> bool:
    return any(event.payload.kind == "notice" for event in await world.events())


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(WAIT_S):
        while not await condition():  # noqa: ASYNC110 - a row, which nothing announces to this test
            await anyio.sleep(0.005)
