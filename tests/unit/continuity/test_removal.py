"""Removing the payload of checkpoints: what may go, exactly what goes, and what stays whole (WS-9)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.from_thread
import pytest

from jamcore.continuity.generations.blocks import COMPLETE
from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.continuity.retention.deletion import SPARE_BYTES
from jamcore.daemon.removals import kept_in
from jamcore.domain.continuity import ResumeSource
from jamcore.domain.errors import ConflictError, JamError
from jamcore.domain.retention import Blocker, DeletionStage, RemovalRefusedError, RemovalSpaceError
from jamcore.system.files import StorageFullError
from tests.unit.continuity.removing import Removals, bytes_on_disk, names, require_sound, stored_units

if TYPE_CHECKING:
    from jamcore.continuity.retention.deletion import RemovalIntent
    from jamcore.domain.continuity import Checkpoint
    from tests.unit.continuity.conftest import World

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("WS-9")]


async def grown(world: World, count: int) -> list[Checkpoint]:
    """Make generations over a log that grows and a file that is rewritten."""
    made = []
    for number in range(count):
        with world.log().open("ab") as stream:
            stream.write(os.urandom(3000) + b"%d\n" % number)
        world.write("home/config/state", os.urandom(5000))
        made.append(await world.capture())
    return made


@contextmanager
def failing_syncs(world: World) -> Iterator[None]:
    """Let the disk be full."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.files, "sync", full)
        yield


async def test_only_what_nobody_else_needs_goes(world: World) -> None:
    """Exactly the planned bytes leave the disk; every other generation stays whole; the row stays and says what was freed."""
    shared = world.write("home/config/base", os.urandom(100_000))
    made = await grown(world, 4)
    before = bytes_on_disk(world)
    removals = Removals(world)
    plan = await removals.plan(made[0], made[2])
    assert not plan.blocked
    assert plan.bytes_copied > shared.stat().st_size, "the base lies in the first pack, and all need it"
    assert plan.bytes_stay > shared.stat().st_size
    assert plan.bytes_freed == sum(item.bytes_freed for item in plan.items) > 10_000
    done = await removals.run(removals.intent(plan))
    assert done.freed == plan.bytes_freed == before - bytes_on_disk(world)
    require_sound(world, [made[1], made[3]])
    assert set(world.store.checkpoints) == {row.id for row in made}
    rows = removals.rows
    assert {row.stage for row in rows.values()} == {DeletionStage.SUCCEEDED}
    assert {each: row.freed_bytes for each, row in rows.items()} == {item.checkpoint_id: item.bytes_freed for item in plan.items}
    assert all(row.prepared_at <= row.removed_at <= row.ended_at for row in rows.values() if row.removed_at and row.ended_at)
    for gone in (made[0], made[2]):
        assert not world.complete(gone).parent.exists()
    assert names(world.recovery / "removed") == {f"{gone.id}.json" for gone in (made[0], made[2])}


async def test_every_unit_is_stored_once_afterwards(world: World) -> None:
    """What is left is what the survivors need: nothing twice, nothing that only a removed one held."""
    world.write("home/config/base", os.urandom(100_000))
    made = await grown(world, 5)
    removals = Removals(world)
    for gone in made[:4]:
        await removals.remove(gone)
    units = stored_units(world)
    assert len(units) == len(set(units))
    lone = bytes_on_disk(world)
    assert lone < made[4].bytes_total + 2000
    require_sound(world, [made[4]])


async def test_the_conversation_comes_back_and_captures_go_on(world: World) -> None:
    """The same process and a new one restore the newest bit for bit, and what they capture next costs what changed."""
    world.write("home/config/base", os.urandom(200_000))
    made = await grown(world, 3)
    log = world.log().read_bytes()
    await Removals(world).remove(made[0], made[1])
    for _ in range(2):
        world.log().write_bytes(b"lost\n")
        assert (await world.place()).source is ResumeSource.GENERATION
        assert world.log().read_bytes() == log
        with world.log().open("ab") as stream:
            stream.write(b"more\n")
        log += b"more\n"
        assert (await world.capture()).bytes_written < 30_000
        world.restart()
    require_sound(world, [row for row in world.store.checkpoints.values() if row.generation > 2])


async def test_what_was_only_in_a_removed_one_is_stored_anew(world: World) -> None:
    """A file that comes back after its only generation went is written again, not taken for stored."""
    once = os.urandom(50_000)
    path = world.write("home/config/once", once)
    first = await world.capture()
    path.unlink()
    await world.capture()
    await Removals(world).remove(first)
    path.write_bytes(once)
    again = await world.capture()
    assert again.bytes_written > 50_000
    require_sound(world, [again])


async def test_the_newest_a_referenced_a_missing_and_a_removed_one_stay(world: World) -> None:
    """Each has its reason, and one of them among many keeps all from going."""
    made = await grown(world, 6)
    removals = Removals(world)
    removals.kept.found[made[1].id] = (Blocker.REFERENCED, "a fresh start is bound to it")
    removals.kept.found[made[2].id] = (Blocker.IN_USE, "a session resumes from it")
    await removals.remove(made[0])
    world.complete(made[3]).unlink()
    before = bytes_on_disk(world)
    expected = {0: Blocker.REMOVED, 1: Blocker.REFERENCED, 2: Blocker.IN_USE, 3: Blocker.MISSING, 5: Blocker.NEWEST}
    for number, blocker in expected.items():
        (item,) = (await removals.plan(made[number])).items
        assert item.blocker is blocker
        assert item.detail
    plan = await removals.plan(made[4], made[5])
    assert [item.blocker for item in plan.items] == [None, Blocker.NEWEST]
    with pytest.raises(RemovalRefusedError, match="newest"):
        await removals.run(removals.intent(plan))
    assert bytes_on_disk(world) == before
    assert world.complete(made[4]).exists()


async def test_what_a_live_session_came_back_from_is_in_use(world: World) -> None:
    """The decision that a session was started on keeps its checkpoint for as long as the host is held; then it may go."""
    made = await grown(world, 1)
    await world.activator.record(world.session, await world.inspect())
    made += await grown(world, 2)
    assert world.store.now(partial(kept_in, world.host.id)) == {}
    world.store.now(lambda repos: repos.leases.acquire(world.host.id, world.session.id))
    kept = world.store.now(partial(kept_in, world.host.id))
    assert {each: blocker for each, (blocker, _) in kept.items()} == {made[0].id: Blocker.IN_USE}


async def test_a_damaged_one_stays_as_evidence(world: World) -> None:
    """A flipped byte anywhere in what it holds is found before anything goes."""
    made = await grown(world, 3)
    pack = world.packs[0]
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    removals = Removals(world)
    (item,) = (await removals.plan(made[0])).items
    assert item.blocker is Blocker.CORRUPT
    assert pack.name in item.detail
    with pytest.raises(RemovalRefusedError):
        await removals.remove(made[0])
    assert pack.read_bytes() == data


async def kept_by_damage(removals: Removals, chosen: Checkpoint) -> str:
    """Require that damage to another one keeps a checkpoint: the plan says so, and the removal is refused with the same words."""
    plan = await removals.plan(chosen)
    (item,) = plan.blocked
    assert (item.checkpoint_id, item.blocker, plan.bytes_freed) == (chosen.id, Blocker.DAMAGE_BESIDE, 0)
    with pytest.raises(RemovalRefusedError) as refused:
        await removals.run(removals.intent(plan))
    assert item.detail in refused.value.problem
    return item.detail


async def test_a_damaged_one_that_stays_keeps_the_others(world: World) -> None:
    """What it needs cannot be told, so nothing may go that it may need."""
    made = await grown(world, 4)
    world.packs[1].unlink()
    removals = Removals(world)
    detail = await kept_by_damage(removals, made[0])
    assert detail.startswith("generation 2 would be left, and is damaged: ")
    assert world.packs[0].exists()


async def test_a_newest_whose_bytes_are_damaged_keeps_the_others(world: World) -> None:
    """What it needs can be told, but what would go may be the last that is sound. A sound newer one lets it go."""
    made = await grown(world, 3)
    pack = world.packs[2]
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    detail = await kept_by_damage(Removals(world), made[0])
    assert detail.startswith("generation 3 would be left, and is damaged: ")
    assert pack.name in detail
    newer = await grown(world, 1)
    await Removals(world).remove(made[0])
    require_sound(world, [made[1], *newer])


async def test_a_removal_that_was_not_confirmed_or_changed_is_refused(world: World) -> None:
    """Another digest is refused; an exact retry changes nothing; the same id for something else is refused."""
    made = await grown(world, 4)
    removals = Removals(world)
    plan = await removals.plan(made[0])
    intent = removals.intent(plan)
    with pytest.raises(RemovalRefusedError, match="no longer"):
        await removals.run(intent.model_copy(update={"id": world.ids.uuid(), "confirmed": "0" * 64}))
    done = await removals.run(intent)
    before = names(world.recovery / "packs")
    assert await removals.run(intent) == done
    assert names(world.recovery / "packs") == before
    with pytest.raises(ConflictError):
        await removals.run(intent.model_copy(update={"checkpoints": (made[1].id,)}))
    assert names(world.recovery / "packs") == before


async def test_a_turn_between_plan_and_confirmation_does_not_matter_unless_it_changes_the_bytes(world: World) -> None:
    """The plan is about what goes: a newer generation alone does not spoil it, one that needs the bytes does."""
    once = os.urandom(50_000)
    path = world.write("home/config/once", once)
    made = [await world.capture()]
    path.unlink()
    made += await grown(world, 2)
    removals = Removals(world)
    intent = removals.intent(await removals.plan(made[0]))
    path.write_bytes(once)
    made.append(await world.capture())
    with pytest.raises(RemovalRefusedError, match="no longer"):
        await removals.run(intent)
    intent = removals.intent(await removals.plan(made[0]))
    made += await grown(world, 1)
    await removals.run(intent)
    require_sound(world, made[1:])


async def test_a_removed_one_is_never_made_again(world: World) -> None:
    """Neither by what a start repairs, nor by an exact retry of its capture."""
    made = await grown(world, 3)
    await Removals(world).remove(made[0])
    world.restart()
    assert await world.broker.repair(world.host.id) == ()
    assert len(world.store.checkpoints) == 3
    with pytest.raises(JamError):
        await world.capture(checkpoint_id=made[0].id)
    assert not (world.complete(made[0]).parent / COMPLETE).exists()
    require_sound(world, made[1:])


async def test_without_room_for_the_copy_nothing_begins(world: World) -> None:
    """What others need is written before anything goes, so its bytes must be free."""
    world.write("home/config/base", os.urandom(100_000))
    made = await grown(world, 2)
    removals = Removals(world)
    intent = removals.intent(await removals.plan(made[0]))
    world.files.free_bytes = lambda path: 100_000  # type: ignore[method-assign]
    with pytest.raises(RemovalSpaceError) as refused:
        await removals.run(intent)
    found = refused.value
    assert found.needed > 100_000 + SPARE_BYTES > found.needed - 2000
    assert (found.free, found.missing) == (100_000, found.needed - 100_000)
    assert removals.rows == {}
    require_sound(world, made)


async def test_one_that_was_given_up_can_be_removed_later(world: World) -> None:
    """A removal that failed for good after it was prepared leaves its row to the next one, and can itself not go on."""
    world.write("home/config/base", os.urandom(100_000))
    made = await grown(world, 3)
    removals = Removals(world)
    intent = removals.intent(await removals.plan(made[0]))
    with failing_syncs(world), pytest.raises(StorageFullError):
        await removals.run(intent)
    assert removals.rows[made[0].id].stage is DeletionStage.PREPARED
    require_sound(world, made)
    with pytest.raises(JamError):
        await removals.run(intent)
    done = await removals.remove(made[0])
    assert removals.rows[made[0].id].removal_id == done.id
    assert removals.rows[made[0].id].stage is DeletionStage.SUCCEEDED
    assert not list((world.recovery / "packs").glob(".*"))
    require_sound(world, made[1:])


async def test_a_failure_after_the_point_of_no_return_is_tried_again(world: World) -> None:
    """Once a generation has ended, the removal goes on: the same request finishes it, and frees what was planned."""
    made = await grown(world, 3)
    removals = Removals(world)
    plan = await removals.plan(made[0], made[1])
    intent = removals.intent(plan)
    before = bytes_on_disk(world)
    with failing_syncs(world), pytest.raises(CheckpointFailedError):
        await removals.run(intent)
    assert not world.complete(made[1]).exists(), "it failed after the newer of the two had ended"
    made += await grown(world, 1)
    grew = made[-1].bytes_written
    done = await removals.run(intent)
    assert done.freed == plan.bytes_freed == before + grew - bytes_on_disk(world)
    require_sound(world, made[2:])
    world.restart()
    made += await grown(world, 1)
    require_sound(world, made[2:])


async def test_a_first_look_at_the_host_takes_nothing_from_a_removal_that_writes(world: World) -> None:
    """What a killed writer left is swept once in a daemon's life: before the removal writes, never while it does."""
    world.write("home/config/base", os.urandom(100_000))
    made = await grown(world, 3)
    world.restart()
    rename, host = world.files.rename, world.host.id

    def beside(old: Path, new: Path) -> None:
        anyio.from_thread.run(world.broker.repair, host)
        rename(old, new)

    world.files.rename = beside  # type: ignore[method-assign]
    await Removals(world).remove(made[0])
    require_sound(world, made[1:])


async def test_one_that_stays_and_lacks_its_root_keeps_the_others(world: World) -> None:
    """What it needs cannot be told, so nothing may go that it may need: its row could bring it back."""
    world.write("home/config/base", os.urandom(100_000))
    made = await grown(world, 3)
    complete = world.complete(made[2])
    told = complete.read_bytes()
    complete.unlink()
    for _ in range(2):
        detail = await kept_by_damage(Removals(world), made[0])
        assert detail.startswith("generation 3 would be left, and is damaged: its complete.json is gone")
        world.restart()
    complete.write_bytes(told)
    await Removals(world).remove(made[0])
    require_sound(world, made[1:])


async def half_removed(world: World) -> tuple[list[Checkpoint], RemovalIntent]:
    """Make four generations and remove the first two, but for the first: the disk fails there, and the daemon ends."""
    made = await grown(world, 4)
    removals = Removals(world)
    intent = removals.intent(await removals.plan(made[0], made[1]))
    rename = world.files.rename

    def failing(old: Path, new: Path) -> None:
        if old == world.complete(made[0]):
            raise OSError(errno.EIO, "Input/output error")
        rename(old, new)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.files, "rename", failing)
        with pytest.raises(CheckpointFailedError):
            await removals.run(intent)
    assert [world.complete(one).exists() for one in made[:2]] == [True, False]
    world.restart()
    return made, intent


async def test_what_was_begun_to_be_removed_goes_with_nothing_else(world: World) -> None:
    """Once a generation of a removal has ended, no other removal takes over the rest: the first could not be finished then."""
    made, intent = await half_removed(world)
    removals = Removals(world)
    for one in made[:2]:
        (item,) = (await removals.plan(one)).items
        assert (item.blocker, "next start" in item.detail) == (Blocker.REMOVED, True)
    await removals.run(intent)
    assert {row.stage for row in removals.rows.values()} == {DeletionStage.SUCCEEDED}
    assert {path.name for path in world.packs}.isdisjoint(f"{one.id}.pack" for one in made[:2])
    require_sound(world, made[2:])


async def test_damage_that_comes_in_the_middle_puts_the_rest_off(world: World) -> None:
    """Each start names what is damaged and tries again; nothing more goes until what stays can be told."""
    made, _ = await half_removed(world)
    complete = world.complete(made[2])
    told = complete.read_bytes()
    complete.unlink()
    for _ in range(2):
        ((_, problem),) = await Removals(world).replay()
        assert isinstance(problem, CheckpointFailedError)
        assert str(made[2].id) in problem.problem
        assert world.complete(made[0]).exists()
        world.restart()
    complete.write_bytes(told)
    assert await Removals(world).replay() == ()
    assert {row.stage for row in Removals(world).rows.values()} == {DeletionStage.SUCCEEDED}
    require_sound(world, made[2:])


async def test_what_a_generation_was_is_kept_durably(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that it leaves takes its place by the same durable rename as all that must survive a loss of power."""
    made = await grown(world, 3)
    removals = Removals(world)
    renamed: list[str] = []

    def rename(old: Path, new: Path) -> None:
        renamed.append(new.name)
        type(world.files).rename(world.files, old, new)

    monkeypatch.setattr(world.files, "rename", rename)
    await removals.run(removals.intent(await removals.plan(made[0])))
    assert f"{made[0].id}.json" in renamed
    assert (world.recovery / "removed" / f"{made[0].id}.json").is_file()
