"""Parking (START-5)."""

from __future__ import annotations

import pytest

from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, Presence
from jamcore.sandbox.teardown import park
from jamcore.testing.doubles.world import World

pytestmark = pytest.mark.anyio

UNKNOWN = EngineUnknownError(engine="directory", operation="presence", detail="asleep")
BROKEN = EngineFailedError(engine="directory", operation="remove", detail="busy")


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
