"""One coordinator per host: turns share it, a checkpoint has it alone, nobody starves (CONT-2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskStatus
from hypothesis import given, settings
from hypothesis import strategies as st

from jamcore.continuity.coordinator import Coordinators, HostBusyError, HostCoordinator

pytestmark = pytest.mark.anyio


async def hold_turn(host: HostCoordinator, session: UUID, release: anyio.Event, *, task_status: TaskStatus[None]) -> None:
    async with host.turn_permit(session):
        task_status.started()
        await release.wait()


async def settled() -> None:
    """Let every task run until all of them wait."""
    await anyio.wait_all_tasks_blocked()


@pytest.mark.guarantee("CONT-2")
async def test_turns_share_the_host_and_a_checkpoint_has_it_alone() -> None:
    """Two turns run together; a checkpoint begins when both have ended."""
    host, release, order = HostCoordinator(uuid4()), anyio.Event(), list[str]()

    async def checkpoint() -> None:
        async with host.exclusive("checkpoint", 60):
            order.append(f"alone with {host.holders}")

    async with anyio.create_task_group() as group:
        await group.start(hold_turn, host, uuid4(), release)
        await group.start(hold_turn, host, uuid4(), release)
        assert len(host.holders) == 2
        group.start_soon(checkpoint)
        await settled()
        assert order == []
        release.set()
    assert order == ["alone with ('checkpoint',)"]
    assert host.holders == ()


@pytest.mark.guarantee("CONT-2")
async def test_a_queued_checkpoint_is_not_starved_and_neither_are_turns() -> None:
    """A turn that comes after a waiting checkpoint waits behind it, and runs before the next checkpoint."""
    host, release, order = HostCoordinator(uuid4()), anyio.Event(), list[str]()

    async def turn(name: str) -> None:
        async with host.turn_permit(uuid4()):
            order.append(name)

    async def checkpoint(name: str) -> None:
        async with host.exclusive(name, 60):
            order.append(name)

    async with anyio.create_task_group() as group:
        await group.start(hold_turn, host, uuid4(), release)
        for work, name in ((checkpoint, "c1"), (turn, "t1"), (turn, "t2"), (checkpoint, "c2"), (turn, "t3")):
            group.start_soon(work, name)
            await settled()
        assert order == []
        release.set()
    assert order[0] == "c1"
    assert set(order[1:3]) == {"t1", "t2"}
    assert order[3:] == ["c2", "t3"]


@pytest.mark.guarantee("CONT-2")
async def test_a_refusal_is_in_words_that_a_person_knows() -> None:
    """It names the sandbox and the rooms, never an id alone."""
    host = Coordinators().for_host(uuid4(), "jam-codex-1")
    async with (
        host.turn_permit(uuid4(), said_as="the turn of room red"),
        host.turn_permit(uuid4(), said_as="the turn of room blue"),
    ):
        with pytest.raises(HostBusyError) as refused:
            async with host.exclusive("a checkpoint", 0):
                pytest.fail("it was held")
    assert refused.value.host == "jam-codex-1"
    assert refused.value.why == "the turn of room red and the turn of room blue are running"


@pytest.mark.guarantee("CONT-2")
async def test_a_bound_that_passes_names_the_holder_and_leaves_nothing_behind() -> None:
    """The refusal says which session holds the host, and whoever waited behind the refused one goes on."""
    host, release, session = HostCoordinator(uuid4()), anyio.Event(), uuid4()
    async with anyio.create_task_group() as group:
        await group.start(hold_turn, host, session, release)
        with pytest.raises(HostBusyError) as refused:
            async with host.exclusive("checkpoint", 0.01):
                pytest.fail("it was held")
        assert refused.value.holders == (f"session {session}",)
        assert host.waiting == ()
        async with host.turn_permit(uuid4(), bound_s=0):
            assert len(host.holders) == 2
        release.set()


async def test_a_turn_is_refused_by_its_own_bound_while_a_checkpoint_runs() -> None:
    """Turns have bounds too."""
    host = HostCoordinator(uuid4())
    async with host.exclusive("checkpoint", 1) as permit:
        assert host.is_held_by(permit)
        with pytest.raises(HostBusyError) as refused:
            async with host.turn_permit(uuid4(), bound_s=0.01):
                pytest.fail("it was held")
        assert refused.value.holders == ("checkpoint",)
    assert not host.is_held_by(permit)


async def test_cancelling_a_waiter_lets_those_behind_it_go() -> None:
    """A checkpoint that is given up while it waits does not block the turns behind it."""
    host, release, ran = HostCoordinator(uuid4()), anyio.Event(), anyio.Event()
    scope = anyio.CancelScope()

    async def waits() -> None:
        with scope:
            async with host.exclusive("checkpoint", 60):
                pytest.fail("it was held")

    async def behind() -> None:
        async with host.turn_permit(uuid4()):
            ran.set()

    async with anyio.create_task_group() as group:
        await group.start(hold_turn, host, uuid4(), release)
        group.start_soon(waits)
        await settled()
        group.start_soon(behind)
        await settled()
        assert not ran.is_set()
        scope.cancel()
        await ran.wait()
        release.set()
    assert (host.holders, host.waiting) == ((), ())


async def test_a_grant_that_meets_a_cancellation_is_given_back() -> None:
    """Cancelled in the same moment in which it was granted, a waiter does not keep the host."""
    host, scope = HostCoordinator(uuid4()), anyio.CancelScope()

    async def waits() -> None:
        with scope:
            async with host.exclusive("checkpoint", 60):
                pass

    async with anyio.create_task_group() as group, host.turn_permit(uuid4()):
        group.start_soon(waits)
        await settled()
        scope.cancel()
        # Leaving granted the permit before the cancelled task could run.
    assert (host.holders, host.waiting) == ((), ())


@dataclass(frozen=True)
class Visit:
    """One who asks for the host: after how many steps, how, for how long, and whether the asker gives up or has a bound that passes."""

    after: int
    alone: bool
    stays: int
    gives_up_after: int | None
    bound_s: float


VISITS = st.lists(
    st.builds(
        Visit,
        after=st.integers(0, 6),
        alone=st.booleans(),
        stays=st.integers(0, 6),
        gives_up_after=st.none() | st.integers(0, 8),
        bound_s=st.sampled_from([0.0, 60.0, 60.0]),
    ),
    max_size=14,
)


@pytest.mark.guarantee("CONT-2")
@settings(max_examples=150, deadline=None)
@given(visits=VISITS)
def test_whatever_is_asked_cancelled_and_timed_out_nobody_overlaps_and_nobody_is_forgotten(visits: list[Visit]) -> None:
    """A checkpoint is alone; grants come in the order of asking; whoever neither gives up nor has a bound that passes gets the host."""
    anyio.run(_visited, visits)


@dataclass
class _Book:
    """What was seen: who is inside, in which order they asked and were granted, and who was refused or gave up."""

    inside: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    granted: list[int] = field(default_factory=list)
    went_away: set[int] = field(default_factory=set)


async def _visited(visits: list[Visit]) -> None:
    host, book = HostCoordinator(uuid4()), _Book()

    async def steps(count: int) -> None:
        for _ in range(count):
            await anyio.lowlevel.checkpoint()

    async def visit(number: int, one: Visit, scope: anyio.CancelScope) -> None:
        with scope:
            await steps(one.after)
            book.asked.append(number)
            permit = host.exclusive("c", one.bound_s) if one.alone else host.turn_permit(uuid4(), one.bound_s)
            try:
                async with permit:
                    book.granted.append(number)
                    assert not one.alone or not book.inside
                    assert not any(visits[other].alone for other in book.inside)
                    book.inside.append(number)
                    try:
                        await steps(one.stays)
                    finally:
                        book.inside.remove(number)
            except HostBusyError:
                assert one.bound_s == 0
                book.went_away.add(number)
        if scope.cancelled_caught:
            book.went_away.add(number)

    async def gives_up(one: Visit, scope: anyio.CancelScope) -> None:
        if one.gives_up_after is not None:
            await steps(one.gives_up_after)
            scope.cancel()

    with anyio.fail_after(2):  # nobody waits for ever; all of it takes a millisecond
        async with anyio.create_task_group() as group:
            for number, one in enumerate(visits):
                scope = anyio.CancelScope()
                group.start_soon(visit, number, one, scope)
                group.start_soon(gives_up, one, scope)
    places = [book.asked.index(number) for number in book.granted]
    assert _in_order(places, [visits[number].alone for number in book.granted])
    assert set(book.granted) | book.went_away == set(range(len(visits)))
    assert (host.holders, host.waiting, book.inside) == ((), (), [])


def _in_order(places: list[int], alone: list[bool]) -> bool:
    """Say whether nobody overtook a checkpoint, nor a checkpoint anybody; turns that are granted at one moment may run in any order."""
    for here, place in enumerate(places):
        for there in range(here + 1, len(places)):
            if places[there] < place and (alone[here] or alone[there]):
                return False
    return True


def test_siblings_share_one_coordinator_and_daemons_share_none() -> None:
    """The registry belongs to a daemon and hands out one object per host."""
    host, one, other = uuid4(), Coordinators(), Coordinators()
    assert one.for_host(host) is one.for_host(host)
    assert one.for_host(host) is not one.for_host(uuid4())
    assert one.for_host(host) is not other.for_host(host)
