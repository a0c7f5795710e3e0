"""When a generation was last read whole: noted with the decision that reading it led to (CONT-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.domain.continuity import CheckpointReason
from jamcore.domain.sessions import TurnState

if TYPE_CHECKING:
    from jamcore.domain.safekeeping import Verification
    from tests.unit.continuity.conftest import World

pytestmark = pytest.mark.anyio


async def looked_at(world: World) -> Verification | None:
    """Inspect, decide and return what is known of the newest generation then."""
    decision = await world.inspect()
    await world.activator.record(world.session, decision)
    row = world.store.now(lambda repos: repos.checkpoints.latest_of_host(world.host.id))
    assert row is not None
    return world.store.now(lambda repos: repos.verifications.of_checkpoint(row.id))


@pytest.mark.guarantee("CONT-7")
async def test_an_inspection_says_when_the_generation_was_sound(world: World) -> None:
    """A decision that was stored proves that the generation was read; damage is kept beside the last time it was sound."""
    world.log().write_bytes(b"x\n")
    row = await world.capture()
    assert world.store.now(lambda repos: repos.verifications.of_checkpoint(row.id)) is None, "making one reads nothing back"
    sound = await looked_at(world)
    assert sound is not None
    assert sound.sound_at == sound.checked_at
    (pack,) = world.app.rglob("*.pack")
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)
    damaged = await looked_at(world)
    assert damaged is not None
    assert damaged.problem
    assert damaged.sound_at == sound.sound_at


@pytest.mark.guarantee("CONT-8", "CONT-11")
async def test_bytes_that_nobody_compared_make_no_turn_safe(world: World) -> None:
    """A checkpoint at rest keeps the state; the turns it may hold stay completed until the provider's memory was asked."""
    world.log().write_bytes(b"x\n")
    await world.capture()
    turn = world.add_turn(world.session, TurnState.COMPLETED)
    world.log().write_bytes(b"x\ny\n")
    row = await world.capture(reason=CheckpointReason.BEFORE_STOP, confirmed=False)
    assert row.generation == 2
    assert world.store.now(lambda repos: repos.turns.get(turn)).state is TurnState.COMPLETED
    await world.capture()
    assert world.store.now(lambda repos: repos.turns.get(turn)).state is TurnState.CAPTURED
