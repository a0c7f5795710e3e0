"""A creation that fails or is interrupted leaves nothing, or a record that is settled later (OWN-5)."""

from __future__ import annotations

import stat
from pathlib import Path

import anyio
import pytest

from jamcore.domain.errors import RefusalError
from jamcore.domain.ownership import (
    GUEST_MARKER,
    OwnershipMismatchError,
    PendingCleanup,
)
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, ExecSpec, Presence
from jamcore.sandbox.ensure import Ensured, ensure_created
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.records import OwnerRecordFailedError, OwnerRecords
from jamcore.system.files import Files
from jamcore.system.guest import GuestProcess
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.doubles.proofs import FORGED, forge
from jamcore.testing.doubles.world import World

pytestmark = pytest.mark.anyio

UNKNOWN = EngineUnknownError(engine="directory", operation="presence", detail="asleep")
BROKEN = EngineFailedError(engine="directory", operation="remove", detail="busy")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


class FailingFiles(Files):
    """Writes fail for paths that hold a word, as on a full disk."""

    def __init__(self, word: str) -> None:
        self.word = word

    def write_atomic(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Fail where it is told to."""
        if self.word in str(path):
            raise OSError(28, "No space left on device")
        super().write_atomic(path, data, mode=mode)


@pytest.mark.guarantee("OWN-5")
async def test_a_marker_that_cannot_be_written_removes_the_sandbox(world: World, plan: Plan) -> None:
    """The disk is full at the marker: the error is typed, and nothing is left."""
    records = OwnerRecords(world.app, files=FailingFiles(f"sandbox-owners/{plan.name}"))
    with pytest.raises(OwnerRecordFailedError, match="No space left"):
        await ensure_created(Ownership(records, world.engine), plan, world.spec(plan), ids=SystemIds())
    assert world.engine.sandboxes == {}
    assert not world.marker(plan.name).exists()
    assert not world.pending(plan.name).exists()
    assert await world.ensure(plan) is Ensured.CREATED


@pytest.mark.guarantee("OWN-5")
async def test_a_failed_removal_is_recorded_and_finished_later(world: World, plan: Plan) -> None:
    """Marker and removal both fail: the record lies under the app directory, and the next creation consumes it."""
    records = OwnerRecords(world.app, files=FailingFiles(f"sandbox-owners/{plan.name}"))
    world.engine.fail("remove", BROKEN)
    with pytest.raises(OwnerRecordFailedError) as failed:
        await ensure_created(Ownership(records, world.engine), plan, world.spec(plan), ids=SystemIds())
    assert any("recorded for clean-up" in note for note in failed.value.__notes__)
    record = PendingCleanup.model_validate_json(world.pending(plan.name).read_bytes())
    assert record.plan == plan
    assert mode(world.pending(plan.name)) == 0o600
    assert plan.name in world.engine.sandboxes
    assert await world.ensure(plan) is Ensured.CREATED
    assert world.engine.calls.count("create") == 2
    assert not world.pending(plan.name).exists()


async def interrupted(world: World, plan: Plan) -> None:
    """Leave a sandbox whose creation was interrupted after its nonce."""
    await world.ensure(plan)
    marker = world.ownership.records.marker(plan.name)
    assert marker is not None
    world.ownership.records.write_pending(PendingCleanup(plan=plan, nonce=marker.nonce))
    world.marker(plan.name).unlink()


@pytest.mark.guarantee("OWN-5")
async def test_start_up_settles_what_was_interrupted(world: World, plan: Plan) -> None:
    """The nonce still matches: removed. The daemon's next start does it, and one bad record stops no other."""
    await interrupted(world, plan)
    (world.pending(plan.name).parent / "jam-damaged.json").write_bytes(b"{")
    (world.pending(plan.name).parent / "not one of ours.txt").touch()
    failed = await world.ownership.settle_all_pending()
    assert [(name, error.code) for name, error in failed] == [("jam-damaged", "ownership.marker_unreadable")]
    assert world.engine.sandboxes == {}
    assert not world.pending(plan.name).exists()


@pytest.mark.guarantee("OWN-5")
@pytest.mark.parametrize("how", FORGED)
async def test_an_interrupted_creation_is_removed_only_with_its_nonce(world: World, plan: Plan, how: str) -> None:
    """Another sandbox of the name, or a destroyed proof: kept, with the record."""
    await interrupted(world, plan)
    forge(world.engine.host_path(plan.name, GUEST_MARKER), how)
    for _ in range(2):
        with pytest.raises(OwnershipMismatchError):
            await world.ensure(plan)
    assert [name for name, _ in await world.ownership.settle_all_pending()] == [plan.name]
    assert plan.name in world.engine.sandboxes
    assert world.pending(plan.name).exists()


@pytest.mark.guarantee("OWN-5")
async def test_a_record_that_outlived_a_complete_creation_is_only_forgotten(world: World, plan: Plan) -> None:
    """Killed between marker and the end of the record: the sandbox is whole and stays."""
    await world.ensure(plan)
    marker = world.ownership.records.marker(plan.name)
    assert marker is not None
    world.ownership.records.write_pending(PendingCleanup(plan=plan, nonce=marker.nonce))
    assert await world.ensure(plan) is Ensured.REUSED
    assert not world.pending(plan.name).exists()
    assert "remove" not in world.engine.calls


@pytest.mark.guarantee("OWN-5")
async def test_an_unknown_engine_settles_nothing(world: World, plan: Plan) -> None:
    """The record waits until the engine can answer."""
    await interrupted(world, plan)
    world.engine.fail("presence", UNKNOWN)
    assert [error.code for _, error in await world.ownership.settle_all_pending()] == ["engine.unknown"]
    assert world.pending(plan.name).exists()
    assert plan.name in world.engine.sandboxes


@pytest.mark.guarantee("OWN-5")
@pytest.mark.parametrize("operation", ["create", "exec"])
async def test_a_failed_creation_leaves_nothing(world: World, plan: Plan, operation: str) -> None:
    """The engine refused, or the guest could not take its nonce."""
    world.engine.fail(operation, BROKEN)
    with pytest.raises(EngineFailedError):
        await world.ensure(plan)
    assert world.engine.sandboxes == {}
    assert not world.pending(plan.name).exists()
    assert not world.marker(plan.name).exists()


async def test_a_creation_that_finds_a_stranger_removes_nothing(world: World, plan: Plan) -> None:
    """Between the question and the creation somebody made a sandbox of this name: it stays."""
    spec = world.spec(plan)
    original = world.engine.presence

    async def stranger_after(name: str) -> Presence:
        answer = await original(name)
        if name not in world.engine.sandboxes:
            await DirectoryEngine.create(world.engine, spec)
        return answer

    world.engine.presence = stranger_after  # type: ignore[method-assign]
    with pytest.raises(EngineFailedError, match="exists already"):
        await world.ensure(plan)
    assert plan.name in world.engine.sandboxes
    assert world.pending(plan.name).exists(), "whose it is cannot be said, so the intent is not forgotten either"
    assert "remove" not in world.engine.calls


@pytest.mark.guarantee("OWN-5")
async def test_cancellation_during_a_creation_leaves_nothing(world: World, plan: Plan) -> None:
    """The caller goes away while the guest takes its nonce."""
    original = world.engine.exec

    async def slow(name: str, spec: ExecSpec) -> GuestProcess:
        await anyio.sleep(30)
        return await original(name, spec)

    world.engine.exec = slow  # type: ignore[method-assign]
    with anyio.move_on_after(0.2) as scope:
        await world.ensure(plan)
    assert scope.cancelled_caught
    assert world.engine.sandboxes == {}
    assert not world.pending(plan.name).exists()


async def test_an_approval_stands_before_a_creation_alone(world: World, plan: Plan) -> None:
    """A refusal creates nothing; a reuse asks nobody."""

    async def no(asked: Plan) -> None:
        assert asked == plan
        raise RefusalError

    with pytest.raises(RefusalError):
        await ensure_created(world.ownership, plan, world.spec(plan), ids=SystemIds(), approve=no)
    assert "create" not in world.engine.calls
    await world.ensure(plan)
    assert await ensure_created(world.ownership, plan, world.spec(plan), ids=SystemIds(), approve=no) is Ensured.REUSED
