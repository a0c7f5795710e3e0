"""A removal of payload that is cut anywhere: the next start finishes it, and nothing that is needed was gone for a moment (WS-9, WS-12)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import pytest

from jamcore.continuity.generations.verify import verify
from jamcore.continuity.retention.deletion import KIND, REMOVAL_POINTS
from jamcore.continuity.retention.repack import EXCHANGED, MOVED, RETIRED, UNLINKED
from jamcore.domain.continuity import ResumeSource
from jamcore.domain.retention import DeletionStage
from tests.unit.continuity.removing import Removals, bytes_on_disk, require_sound, stored_units

if TYPE_CHECKING:
    from jamcore.domain.continuity import Checkpoint
    from tests.unit.continuity.conftest import World

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("WS-9", "WS-12")]


class Killed(BaseException):
    """Ends the work at a boundary, as a kill would."""


class KillAt:
    """Raises at the ``count``-th passing of one boundary. ``passed`` has every boundary that was passed."""

    def __init__(self, point: str = "", count: int = 1) -> None:
        self._point = point
        self._left = count
        self.passed: list[str] = []

    def reach(self, point: str) -> None:
        """Raise at the boundary."""
        self.passed.append(point)
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                raise Killed(point)


class Scene:
    """Six generations of which the first went before, so that the removal of the next two gives up a shared pack as well."""

    def __init__(self, world: World, made: list[Checkpoint]) -> None:
        self.world = world
        self.selected = made[1:3]
        self.stay = made[3:]
        self.log = world.log().read_bytes()

    @classmethod
    async def make(cls, world: World) -> Scene:
        """Build it."""
        world.write("home/config/base", os.urandom(60_000))
        passing = world.write("home/config/passing", os.urandom(40_000))
        made = []
        for number in range(6):
            with world.log().open("ab") as stream:
                stream.write(os.urandom(2000) + b"%d\n" % number)
            if number == 3:
                passing.unlink()
            made.append(await world.capture())
        await Removals(world).remove(made[0])
        return cls(world, made)

    async def check(self) -> None:
        """Everything that stays is whole, and the newest comes back bit for bit."""
        require_sound(self.world, self.stay)
        self.world.log().write_bytes(b"lost\n")
        assert (await self.world.place()).source is ResumeSource.GENERATION
        assert self.world.log().read_bytes() == self.log


PASSINGS = [(point, 1) for point in REMOVAL_POINTS] + [(RETIRED, 2), (RETIRED, 3), (UNLINKED, 2), (UNLINKED, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "count"), PASSINGS)
async def test_cut_at_every_boundary_and_again_in_its_replay(world: World, point: str, count: int) -> None:
    """After each cut all that stays is whole at once; the replay frees exactly what was planned; a retry then changes nothing."""
    scene = await Scene.make(world)
    before = bytes_on_disk(world)
    plan = await Removals(world).plan(*scene.selected)
    assert plan.bytes_freed > 40_000
    intent = Removals(world).intent(plan)
    for life in range(2):
        world.restart(KillAt(point, count))
        removals = Removals(world)
        try:
            await (removals.replay() if life else removals.run(intent))
        except Killed:
            require_sound(world, scene.stay)
            world.restart()
            assert await world.broker.repair(world.host.id) == ()
            await scene.check()
    world.restart()
    assert await Removals(world).replay() == ()
    done = await Removals(world).run(intent)
    assert done.freed == plan.bytes_freed == before - bytes_on_disk(world)
    assert {Removals(world).rows[row.id].stage for row in scene.selected} == {DeletionStage.SUCCEEDED}
    units = stored_units(world)
    assert len(units) == len(set(units))
    await scene.check()


async def test_the_boundaries_are_passed_in_their_order(world: World) -> None:
    """The list that the crash matrix is made from is what a removal really passes."""
    scene = await Scene.make(world)
    crash = KillAt()
    world.restart(crash)
    await Removals(world).remove(*scene.selected)
    first = list(dict.fromkeys(point for point in crash.passed if not point.startswith("restore.")))
    inside = {
        f"{KIND}.repack.intended": [MOVED],
        f"{KIND}.retire.intended": [EXCHANGED, RETIRED],
        f"{KIND}.unlink.intended": [UNLINKED],
    }
    steps = [point for point in REMOVAL_POINTS if point.startswith(KIND)]
    assert first == [each for point in steps for each in (point, *inside.get(point, []))]


async def test_a_capture_between_the_lives_changes_what_goes_and_loses_nothing(world: World) -> None:
    """A generation that is made while a removal is cut may need what was to go: then it stays."""
    once = os.urandom(50_000)
    path = world.write("home/config/once", once)
    scene_first = await world.capture()
    path.unlink()
    world.log().write_bytes(b"x\n")
    await world.capture()
    intent = Removals(world).intent(await Removals(world).plan(scene_first))
    world.restart(KillAt(f"{KIND}.repack.recorded"))
    with pytest.raises(Killed):
        await Removals(world).run(intent)
    path.write_bytes(once)
    assert (await world.capture()).bytes_written < 10_000, "the generation is still one, so its blocks are used again"
    world.restart()
    assert await Removals(world).replay() == ()
    assert (await Removals(world).run(intent)).freed is not None
    require_sound(world, [row for row in world.store.checkpoints.values() if row.id != scene_first.id])
    with pytest.raises(AssertionError):
        require_sound(world, [scene_first])


async def test_captures_and_resumes_beside_a_removal(world: World) -> None:
    """At every boundary of a removal a session is inspected, placed and captured; none of it fails, waits for long, or loses anything."""
    scene = await Scene.make(world)

    class Beside:
        seen = 0

        def reach(self, point: str) -> None:
            if point.startswith(("removal.", KIND)) and point not in (EXCHANGED, RETIRED):
                Beside.seen += 1
                require_sound(world, scene.stay)

    world.restart(Beside())
    removals = Removals(world)
    intent = removals.intent(await removals.plan(*scene.selected))

    async def work() -> None:
        for _ in range(6):
            with world.log().open("ab") as stream:
                stream.write(b"more\n")
            await world.capture()
            assert (await world.place()).source is ResumeSource.LIVE

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await removals.run(intent)
    assert Beside.seen > 10
    rows = world.store.checkpoints.values()
    require_sound(world, [row for row in rows if row.generation > 3])


async def test_whoever_has_a_pack_open_goes_on_reading(world: World) -> None:
    """A reader that began before a removal, and one that knows only where units were, both find every unit."""
    scene = await Scene.make(world)
    stale = world.generations.afresh()
    newest = stale.read(world.host.id, scene.stay[-1].id)
    assert newest is not None

    with stale.blocks(world.host.id).reader() as half, stale.blocks(world.host.id).reader() as source:
        verify(half, newest)
        await Removals(world).remove(*scene.selected)
        verify(half, newest)
        verify(source, newest)
    assert not stale.blocks(world.host.id).damaged
