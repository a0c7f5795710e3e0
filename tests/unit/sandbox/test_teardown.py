"""Parking, and removal without the guest's proof (OWN-8, START-5)."""

from __future__ import annotations

import pytest

from jamcore.domain.ownership import (
    GUEST_MARKER,
    OwnershipMismatchError,
)
from jamcore.domain.plan import Plan, RuntimeHostOwner
from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, Presence
from jamcore.sandbox.teardown import OverrideRefusedError, Removal, inspect_override, park, remove_overridden
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.world import World

pytestmark = pytest.mark.anyio

UNKNOWN = EngineUnknownError(engine="directory", operation="presence", detail="asleep")
BROKEN = EngineFailedError(engine="directory", operation="remove", detail="busy")


@pytest.mark.guarantee("OWN-8")
async def test_a_guest_that_destroyed_its_proof_can_be_removed_by_confirmed_evidence(world: World, plan: Plan) -> None:
    """The operator confirms what was shown; anything else, or a change since, is refused."""
    await world.ensure(plan)
    evidence = await inspect_override(world.ownership, plan.name, plan.owner)
    with pytest.raises(OverrideRefusedError, match="proof holds"):
        await remove_overridden(world.ownership, plan.name, plan.owner, confirmed=evidence.content_digest())
    world.engine.host_path(plan.name, GUEST_MARKER).unlink()
    with pytest.raises(OverrideRefusedError, match="no longer"):
        await remove_overridden(world.ownership, plan.name, plan.owner, confirmed=evidence.content_digest())
    evidence = await inspect_override(world.ownership, plan.name, plan.owner)
    assert (evidence.nonce, evidence.presence) == ("missing", "running")
    await world.engine.stop(plan.name)
    with pytest.raises(OverrideRefusedError, match="no longer"):
        await remove_overridden(world.ownership, plan.name, plan.owner, confirmed=evidence.content_digest())
    other = RuntimeHostOwner(agent_id=plans.SESSION, host_id=plans.HOST)
    with pytest.raises(OwnershipMismatchError):
        await inspect_override(world.ownership, plan.name, other)
    evidence = await inspect_override(world.ownership, plan.name, plan.owner)
    done = await remove_overridden(world.ownership, plan.name, plan.owner, confirmed=evidence.content_digest())
    assert done is Removal.REMOVED
    assert world.engine.sandboxes == {}
    assert not world.marker(plan.name).exists()


@pytest.mark.guarantee("START-5")
async def test_a_park_is_tried_again_each_second_until_it_is_done(world: World, plan: Plan) -> None:
    """Three failures, four attempts, three pauses of one second."""
    await world.ensure(plan)
    world.engine.fail("stop", BROKEN, UNKNOWN, TimeoutError())
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    assert await park(world.engine, plan.name, sleep=sleep) == 4
    assert pauses == [1.0, 1.0, 1.0]
    assert await world.engine.presence(plan.name) is Presence.STOPPED
