"""A sandbox that outlived its daemon is proven and stopped before anything starts in it; what is not proven is left alone (SHARE-4).

The engine of these tests outlives the daemons over it, as engines with a server of their own do: each ``World`` is one daemon's life.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.domain.ownership import GUEST_MARKER, MarkerUnreadableError, OwnershipMismatchError
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, ExecSpec, Presence
from jamcore.sandbox.fence import Fenced, fence
from jamcore.testing.doubles.proofs import forge
from jamcore.testing.doubles.world import World
from jamcore.testing.guards import descendants

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

UNKNOWN = EngineUnknownError(engine="directory", operation="presence", detail="asleep")
BROKEN = EngineFailedError(engine="directory", operation="stop", detail="busy")


def alive(pid: int) -> bool:
    """Whether a process that this test's engine started still runs."""
    return pid in {process.pid for process in descendants()}


async def orphan(world: World, plan: Plan) -> int:
    """Let a provider of a daemon that is dead by now run in the sandbox, and return its process."""
    await world.ensure(plan)
    process = await world.engine.exec(plan.name, ExecSpec(argv=("/bin/sh", "-c", "echo $$; exec sleep 600"), cwd="/home/agent"))
    pid = int(await process.stdout.receive())
    world.engine.calls.clear()
    return pid


def next_life(world: World) -> World:
    """Return the daemon that comes after this one, over the same app directory and the same engine."""
    return World.over(world.app, world.engine)


@pytest.mark.guarantee("SHARE-4")
async def test_an_orphan_is_proven_and_then_stopped(world: World, plan: Plan) -> None:
    """The proof is read before the stop; when the fence returns, the old provider is gone, and nothing new was started."""
    pid = await orphan(world, plan)
    daemon = next_life(world)
    assert await fence(daemon.ownership, plan) is Fenced.STOPPED
    assert not alive(pid)
    assert await world.engine.presence(plan.name) is Presence.STOPPED
    assert "start" not in world.engine.calls
    assert world.engine.calls.index("presence") < world.engine.calls.index("stop")
    assert await fence(daemon.ownership, plan) is Fenced.NOTHING_RAN
    assert world.engine.calls.count("stop") == 1


@pytest.mark.guarantee("SHARE-4")
async def test_nothing_that_ran_is_nothing_to_stop(world: World, plan: Plan) -> None:
    """An absent sandbox and a parked one are as they should be."""
    assert await fence(world.ownership, plan) is Fenced.NOTHING_RAN
    await world.ensure(plan)
    await world.engine.stop(plan.name)
    world.engine.calls.clear()
    assert await fence(next_life(world).ownership, plan) is Fenced.NOTHING_RAN
    assert world.engine.calls == ["presence"]


@pytest.mark.guarantee("SHARE-4", "OWN-3")
async def test_a_foreign_sandbox_is_left_alone(world: World, plan: Plan) -> None:
    """Somebody made a sandbox of this name: Jam has no marker for it, refuses, and does not touch it."""
    pid = await orphan(world, plan)
    world.marker(plan.name).unlink()
    with pytest.raises(OwnershipMismatchError):
        await fence(next_life(world).ownership, plan)
    assert "stop" not in world.engine.calls
    assert alive(pid)


@pytest.mark.guarantee("SHARE-4", "OWN-3")
@pytest.mark.parametrize("how", ["gone", "other"])
async def test_an_unproven_sandbox_is_left_alone(world: World, plan: Plan, how: str) -> None:
    """The marker is Jam's, the guest's proof is not: likewise."""
    pid = await orphan(world, plan)
    forge(world.engine.host_path(plan.name, GUEST_MARKER), how)
    with pytest.raises(OwnershipMismatchError):
        await fence(next_life(world).ownership, plan)
    assert "stop" not in world.engine.calls
    assert alive(pid)


@pytest.mark.guarantee("SHARE-4")
async def test_another_plan_is_left_alone(world: World, plan: Plan) -> None:
    """The marker names another creation intent than the host's stored plan."""
    pid = await orphan(world, plan)
    with pytest.raises(OwnershipMismatchError):
        await fence(next_life(world).ownership, plan.model_copy(update={"agent_image": "another"}))
    assert alive(pid)


async def test_a_damaged_marker_is_no_proof(world: World, plan: Plan) -> None:
    """It is kept, and the sandbox is left alone."""
    pid = await orphan(world, plan)
    Path(world.marker(plan.name)).write_bytes(b"{")
    with pytest.raises(MarkerUnreadableError):
        await fence(next_life(world).ownership, plan)
    assert alive(pid)


@pytest.mark.guarantee("SHARE-4")
async def test_unknown_is_not_absent(world: World, plan: Plan) -> None:
    """An engine that does not know whether it runs: the host does not come up."""
    pid = await orphan(world, plan)
    world.engine.fail("presence", UNKNOWN)
    with pytest.raises(EngineUnknownError):
        await fence(next_life(world).ownership, plan)
    assert alive(pid)


@pytest.mark.guarantee("SHARE-4")
async def test_a_stop_that_fails_is_no_fence(world: World, plan: Plan) -> None:
    """Whether it said so or not."""
    pid = await orphan(world, plan)
    world.engine.fail("stop", BROKEN)
    with pytest.raises(EngineFailedError):
        await fence(next_life(world).ownership, plan)
    world.engine.deaf = True
    with pytest.raises(EngineUnknownError):
        await fence(next_life(world).ownership, plan)
    assert alive(pid)
    world.engine.deaf = False
    assert await fence(next_life(world).ownership, plan) is Fenced.STOPPED
    assert world.guest(plan.name).exists()
