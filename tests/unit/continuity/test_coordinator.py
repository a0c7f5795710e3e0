"""One coordinator per host: turns share it, a checkpoint has it alone, nobody starves (CONT-2)."""

from __future__ import annotations

import random
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


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_mixture_of_work_ever_overlaps_with_a_checkpoint(seed: int) -> None:
    """Whatever is asked, held and cancelled: a checkpoint is alone, and everything that was not cancelled gets its turn."""
    anyio.run(_mixture, random.Random(seed))


async def _mixture(source: random.Random) -> None:
    host, inside, done = HostCoordinator(uuid4()), list[str](), list[int]()

    async def work(number: int, kind: str, pauses: int, give_up: bool) -> None:
        with anyio.CancelScope() as scope:
            permit = host.exclusive("c", 60) if kind == "c" else host.turn_permit(uuid4())
            if give_up:
                scope.deadline = anyio.current_time()
            async with permit:
                inside.append(kind)
                assert kind == "t" or inside == ["c"]
                assert "c" not in inside or len(inside) == 1
                try:
                    for _ in range(pauses):
                        await anyio.lowlevel.checkpoint()
                finally:
                    inside.remove(kind)
            done.append(number)

    async with anyio.create_task_group() as group:
        expected = 0
        for number in range(40):
            give_up = source.random() < 0.2
            expected += not give_up
            group.start_soon(work, number, source.choice("tttc"), source.randrange(4), give_up)
            if source.random() < 0.5:
                await anyio.lowlevel.checkpoint()
    assert len(done) >= expected
    assert (host.holders, host.waiting) == ((), ())


def test_siblings_share_one_coordinator_and_daemons_share_none() -> None:
    """The registry belongs to a daemon and hands out one object per host."""
    host, one, other = uuid4(), Coordinators(), Coordinators()
    assert one.for_host(host) is one.for_host(host)
    assert one.for_host(host) is not one.for_host(uuid4())
    assert one.for_host(host) is not other.for_host(host)
