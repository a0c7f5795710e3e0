"""Publication: complete.json, then the row with the turns it makes safe; every crash between is repaired (CONT-3, CONT-4, CONT-11)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import anyio
import pytest

from jamcore.continuity.coordinator import HostBusyError
from jamcore.continuity.generations.publish import POINTS, CheckpointFailedError
from jamcore.domain.continuity import CheckpointCorruptError, CheckpointReason
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import TurnStateChanged
from jamcore.domain.sessions import TurnState

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import World

pytestmark = pytest.mark.anyio


class KilledError(Exception):
    """Ends a publication at a boundary, as a crash would."""


class KillAt:
    """Raises at one boundary, once."""

    def __init__(self, point: str) -> None:
        self._point: str | None = point

    def reach(self, point: str) -> None:
        """Raise at the boundary."""
        if point == self._point:
            self._point = None
            raise KilledError(point)


@pytest.mark.guarantee("CONT-3", "CONT-11")
async def test_a_generation_holds_every_session_and_makes_its_turns_safe(world: World) -> None:
    """The session list is computed from the store; completed turns become captured, with the checkpoint's id, and no others do."""
    world.log().write_bytes(b"x\n")
    sibling, fresh = world.add_session("thread-2"), world.add_session(None)
    earlier = world.add_turn(world.session, TurnState.COMPLETED)
    first = await world.capture()
    done = [world.add_turn(world.session, TurnState.COMPLETED), world.add_turn(sibling, TurnState.COMPLETED)]
    cut, failed = world.add_turn(world.session, TurnState.CUT), world.add_turn(sibling, TurnState.FAILED)
    accepted = world.add_turn(fresh, TurnState.ACCEPTED)
    row = await world.capture()
    assert [(held.session_id, held.provider_identity) for held in row.sessions] == sorted(
        (session.id, session.provider_identity) for session in (world.session, sibling, fresh)
    )
    assert {held.session_id: held.last_turn_id for held in row.sessions} == {
        world.session.id: done[0],
        sibling.id: done[1],
        fresh.id: None,
    }
    turns = world.store.turns
    assert [(turns[turn].state, turns[turn].checkpoint_id) for turn in done] == [(TurnState.CAPTURED, row.id)] * 2
    assert [turns[turn].state for turn in (cut, failed, accepted)] == [TurnState.CUT, TurnState.FAILED, TurnState.ACCEPTED]
    assert turns[earlier].checkpoint_id == first.id
    assert (await world.capture()).sessions == row.sessions, "a generation says what it contains, also when nothing is new"


@pytest.mark.guarantee("CONT-3")
async def test_identities_may_be_given_only_for_unbound_sessions_of_the_host(world: World) -> None:
    """FIRST_TURN holds the identity of the thread just opened; no argument can name another session or change a bound one."""
    world.log().write_bytes(b"x\n")
    fresh = world.add_session(None)
    row = await world.capture(CheckpointReason.FIRST_TURN, identities={fresh.id: "thread-9"})
    assert {held.session_id: held.provider_identity for held in row.sessions}[fresh.id] == "thread-9"
    for identities in ({uuid4(): "thread-9"}, {world.session.id: "thread-9"}):
        with pytest.raises(ConflictError):
            await world.capture(identities=identities)


@pytest.mark.guarantee("CONT-3")
async def test_a_host_that_is_not_the_stored_one_is_refused(world: World) -> None:
    """The broker believes the store, not its caller."""
    stored = world.host
    world.host = stored.model_copy(update={"agent_id": uuid4()})
    with pytest.raises(ConflictError):
        await world.capture()
    assert not world.packs


@pytest.mark.guarantee("CONT-4")
async def test_complete_json_is_private_and_holds_the_root_alone(world: World) -> None:
    """One small file of mode 0600 names the root and whose it is; the packs hold everything else."""
    world.log().write_bytes(b"a secret conversation\n")
    row = await world.capture()
    complete = world.complete(row)
    assert complete.stat().st_mode & 0o777 == 0o600
    assert complete.parent.stat().st_mode & 0o777 == 0o700
    assert b"secret" not in complete.read_bytes()
    generation = world.generations.read(world.host.id, row.id)
    assert generation is not None
    assert generation.row().model_copy(update={"generation": row.generation}) == row


@pytest.mark.guarantee("CONT-4", "WS-11")
async def test_an_exact_retry_changes_nothing_and_a_changed_one_is_refused(world: World) -> None:
    """Under one checkpoint id a second call gives the first row, writes nothing, and may not ask for something else."""
    world.log().write_bytes(b"x\n")
    identifier = world.ids.uuid()
    first = await world.capture(checkpoint_id=identifier)
    world.log().write_bytes(b"x\ny\n")
    sizes = [pack.stat().st_size for pack in world.packs]
    assert await world.capture(checkpoint_id=identifier) == first
    assert [pack.stat().st_size for pack in world.packs] == sizes
    with pytest.raises(ConflictError):
        await world.capture(CheckpointReason.BEFORE_STOP, checkpoint_id=identifier)


@pytest.mark.guarantee("WS-12")
async def test_one_durable_effect_lies_between_two_boundaries(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace of a publication: a file with its name, a directory, a file with its name; nothing unsynced, nothing twice."""
    trace: list[str] = []

    class Tracing:
        """Notes the boundaries."""

        def reach(self, point: str) -> None:
            """Note one."""
            trace.append(point)

    def sync(descriptor: int) -> None:
        trace.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    world.log().write_bytes(b"x\n")
    await world.capture()
    world.log().write_bytes(b"x\ny\n")
    world.restart(Tracing())
    monkeypatch.setattr(world.files, "sync", sync)
    await world.capture()
    begun, read, sealed, prepared, completed, recorded = POINTS
    assert trace == [
        begun,
        read,
        *("file", "directory", sealed),
        *("directory", prepared),
        *("file", "directory", completed),
        recorded,
    ]


@pytest.mark.guarantee("CONT-4", "WS-12")
@pytest.mark.parametrize("repaired_by", ["retry", "start-up", "next capture"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_at_every_boundary_is_repaired(world: World, point: str, repaired_by: str) -> None:
    """Before complete.json there is no generation; from it on there is one row and safe turns, whichever way it is repaired."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    turn = world.add_turn(world.session, TurnState.COMPLETED)
    world.log().write_bytes(b"one\ntwo\n")
    identifier = world.ids.uuid()
    world.restart(KillAt(point))
    with pytest.raises(KilledError):
        await world.capture(checkpoint_id=identifier)
    world.restart()
    published = point in ("publish.completed", "publish.recorded")
    assert (world.generations.read(world.host.id, identifier) is not None) is published
    if repaired_by == "retry":
        await world.capture(checkpoint_id=identifier)
    elif repaired_by == "start-up":
        await world.broker.repair(world.host.id)
    else:
        world.log().write_bytes(b"one\ntwo\nthree\n")
        await world.capture()
    rows = world.store.checkpoints
    assert (identifier in rows) is (published or repaired_by == "retry")
    numbers = [row.generation for row in sorted(rows.values(), key=lambda row: row.id)]
    assert numbers == list(range(1, len(rows) + 1)), "generation numbers follow the order of making"
    if repaired_by != "start-up" or published:
        kept = world.store.turns[turn]
        assert kept.state is TurnState.CAPTURED
        said = world.store.now(lambda repos: repos.events.after(kept.room_id, 0, 1000))
        payloads = [event.payload for event in said if event.turn_id == turn]
        assert payloads == [TurnStateChanged(state=TurnState.CAPTURED, detail=str(kept.checkpoint_id))], (
            "said once, by whoever did it"
        )
    assert {pack.stem for pack in world.packs} == {str(row) for row in rows}, "no pack without its generation is left"
    assert (await world.inspect()).evidence.generation_state == "verified"


@pytest.mark.guarantee("CONT-4")
async def test_a_row_that_could_not_be_written_is_written_next_time(world: World) -> None:
    """A store that fails leaves a complete generation, which the next capture records first, in order."""
    world.log().write_bytes(b"one\n")
    identifier = world.ids.uuid()
    world.store.fails = ConflictError(kind="store", ref="", problem="full")
    with pytest.raises(ConflictError):
        await world.capture(checkpoint_id=identifier)
    world.store.fails = None
    world.log().write_bytes(b"one\ntwo\n")
    second = await world.capture()
    assert world.store.checkpoints[identifier].generation == 1
    assert second.generation == 2


@pytest.mark.guarantee("CONT-4")
async def test_a_repair_that_could_not_read_the_rows_is_made_next_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed writer left is swept once in the life of a daemon, by the first repair that comes to its end."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    world.restart()
    orphan = world.recovery / "packs" / f"{world.ids.uuid()}.pack"
    orphan.write_bytes(b"")

    async def refuse(_work: object) -> None:
        raise ConflictError(kind="store", ref="", problem="busy")

    with monkeypatch.context() as busy:
        busy.setattr(world.store, "read", refuse)
        with pytest.raises(ConflictError):
            await world.broker.repair(world.host.id)
    assert orphan.exists()
    await world.broker.repair(world.host.id)
    assert not orphan.exists()


@pytest.mark.guarantee("CONT-4")
async def test_what_cannot_be_read_is_never_recorded(world: World) -> None:
    """A complete.json that is not byte for byte Jam's own is not repaired into a row."""
    world.log().write_bytes(b"one\n")
    world.restart(KillAt("publish.completed"))
    identifier = world.ids.uuid()
    with pytest.raises(KilledError):
        await world.capture(checkpoint_id=identifier)
    path = world.recovery / "checkpoints" / str(identifier) / "complete.json"
    path.write_bytes(path.read_bytes().replace(b"thread-1", b"thread-2"))
    world.restart()
    assert await world.broker.repair(world.host.id) == ()
    with pytest.raises(CheckpointCorruptError):
        world.generations.read(world.host.id, identifier)
    assert path.exists()


def full_after(allowed: int) -> Callable[[int], None]:
    """Return a sync that works so many times and then finds the disk full."""
    left = iter(range(allowed))

    def sync(descriptor: int) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(descriptor)

    return sync


async def failure_of(world: World) -> CheckpointFailedError | None:
    """Capture, and return the failure."""
    try:
        await world.capture()
    except CheckpointFailedError as error:
        return error
    return None


async def test_a_full_disk_publishes_nothing_and_the_next_attempt_works(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each durable effect: the error is typed, no generation appears, and no pack is left behind."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    world.log().write_bytes(b"one\ntwo\n")
    syncs = world.files.syncs

    for allowed in range(20):
        with monkeypatch.context() as patch:
            patch.setattr(world.files, "sync", full_after(allowed))
            failure = await failure_of(world)
        if failure is None:
            break
        assert "No space" in failure.problem
    assert allowed >= 4
    assert world.files.syncs == syncs
    assert (await world.inspect()).evidence.generation_state == "verified"
    assert len(world.packs) == len(world.store.checkpoints)


@pytest.mark.guarantee("CONT-2")
async def test_a_checkpoint_waits_for_turns_within_its_bound(world: World) -> None:
    """With a turn running there is no checkpoint, and the refusal names the session."""
    world.log().write_bytes(b"x\n")
    coordinator = world.coordinators.for_host(world.host.id)
    async with coordinator.turn_permit(world.session.id):
        with pytest.raises(HostBusyError) as refused:
            await world.capture(bound_s=0.01)
    assert str(world.session.id) in refused.value.holders[0]
    await world.capture(bound_s=0.01)


@pytest.mark.guarantee("CONT-2")
async def test_a_caller_that_has_the_host_alone_may_pass_its_permit(world: World) -> None:
    """A permit of this host that is held is accepted; an old one or another host's is not."""
    world.log().write_bytes(b"x\n")
    coordinator = world.coordinators.for_host(world.host.id)
    async with coordinator.exclusive("stop", 1) as permit:
        await world.capture(CheckpointReason.BEFORE_STOP, permit_held_by=permit)
    with pytest.raises(ConflictError):
        await world.capture(permit_held_by=permit)
    async with world.coordinators.for_host(uuid4()).exclusive("stop", 1) as other:
        with pytest.raises(ConflictError):
            await world.capture(permit_held_by=other)


async def test_concurrent_captures_with_and_without_a_permit_all_finish(world: World) -> None:
    """Whoever holds the permit and whoever publishes never wait for each other in a circle."""
    world.log().write_bytes(b"line\n" * 300_000)

    async def before_stop() -> None:
        async with world.coordinators.for_host(world.host.id).exclusive("stop", 30) as permit:
            await world.capture(CheckpointReason.BEFORE_STOP, permit_held_by=permit)

    async def after_turn() -> None:
        await world.capture()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(9):
                group.start_soon(before_stop if number % 3 == 0 else after_turn)
    assert sorted(row.generation for row in world.store.checkpoints.values()) == list(range(1, 10))


async def test_a_cancelled_capture_leaves_nothing_and_gives_the_host_back(world: World) -> None:
    """Cancellation while bytes are read ends the reading soon, thaws the guest and drops the pack."""
    world.log().write_bytes(os.urandom(40 << 20))
    coordinator = world.coordinators.for_host(world.host.id)
    with anyio.CancelScope() as scope:

        class CancelAtRead:
            def reach(self, point: str) -> None:
                if point == "publish.begun":
                    anyio.from_thread.run_sync(scope.cancel)

        world.restart(CancelAtRead())
        await world.capture()
        pytest.fail("it was not cancelled")
    assert coordinator.holders == ()
    assert world.packs == []
    world.restart()
    assert (await world.capture()).generation == 1


async def test_a_missing_state_root_is_a_typed_failure(world: World, tmp_path: Path) -> None:
    """The machine's errors come out as one typed error that names the host."""
    world.state = tmp_path / "nowhere"
    with pytest.raises(CheckpointFailedError):
        await world.capture()


@pytest.mark.guarantee("CONT-4", "CONT-7")
async def test_a_clock_that_was_set_back_does_not_put_a_generation_behind_an_older_one(world: World) -> None:
    """Ids tell the order of making, also after a crash between complete.json and the row of one that was made in "the past"."""
    world.log().write_bytes(b"one\n")
    old = await world.capture()
    ahead = UUID(int=old.id.int + (3_600_000 << 80))
    world.log().write_bytes(b"one\ntwo\n")
    newer = await world.capture(checkpoint_id=ahead)
    world.log().write_bytes(b"one\ntwo\nthree\n")
    world.restart(KillAt("publish.completed"))
    with pytest.raises(KilledError):
        await world.capture()
    world.restart()
    recorded = await world.broker.repair(world.host.id)
    assert [row.generation for row in (old, newer, *recorded)] == [1, 2, 3]
    assert recorded[0].id > ahead
