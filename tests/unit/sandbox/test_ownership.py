"""A sandbox is used or removed only with its proofs (OWN-1 to OWN-5, OWN-8)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from jamcore.domain.errors import JamError, RefusalError
from jamcore.domain.ownership import (
    GUEST_MARKER,
    MarkerUnreadableError,
    OwnerMarker,
    OwnershipMismatchError,
    PendingCleanup,
    PlanMatch,
    match_plans,
)
from jamcore.domain.plan import McpServer, Plan, PlanRefusedError, RuntimeHostOwner, RuntimeSessionOwner
from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, ExecSpec, Presence
from jamcore.sandbox.ensure import Ensured, ensure_created
from jamcore.sandbox.ownership import WRITE_PROOF_ARGV, Ownership, mcp_digest, proof
from jamcore.sandbox.records import OwnerRecordFailedError, OwnerRecords
from jamcore.sandbox.teardown import OverrideRefusedError, Removal, inspect_override, park, remove, remove_overridden
from jamcore.system.files import Files
from jamcore.system.guest import GuestProcess
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine
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


@pytest.mark.guarantee("OWN-1", "OWN-2")
async def test_a_creation_leaves_two_private_proofs(world: World, plan: Plan) -> None:
    """The full plan, nonce and digest on the host, the same nonce in the guest; nothing pending; no nonce in an argument."""
    assert await world.ensure(plan) is Ensured.CREATED
    marker = OwnerMarker.model_validate_json(world.marker(plan.name).read_bytes())
    assert marker.plan == plan
    assert marker.mcp_digest == mcp_digest(plan)
    assert len(marker.nonce) == 64
    guest = world.engine.host_path(plan.name, GUEST_MARKER)
    assert json.loads(guest.read_bytes()) == {"nonce": marker.nonce}
    assert (mode(guest), mode(world.marker(plan.name)), mode(world.marker(plan.name).parent)) == (0o600, 0o600, 0o700)
    assert not world.pending(plan.name).exists()
    assert [spec.argv for spec in world.engine.executed] == [WRITE_PROOF_ARGV]


@pytest.mark.guarantee("OWN-3")
async def test_reuse_of_a_running_and_of_a_stopped_sandbox(world: World, plan: Plan) -> None:
    """Found running: verified. Found stopped: started and verified."""
    await world.ensure(plan)
    assert await world.ensure(plan) is Ensured.REUSED
    await world.engine.stop(plan.name)
    assert await world.ensure(plan) is Ensured.STARTED
    assert world.engine.calls.count("create") == 1


@pytest.mark.guarantee("OWN-3", "OWN-4")
@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"environment": (("A", "b"),)}, "plan: environment"),
        ({"agent_image": "other", "kits": ("k",)}, "plan: agent_image, kits"),
        ({"mcp_servers": (McpServer(name="m", digest="d"),)}, "plan: mcp_servers"),
        ({"owner": RuntimeHostOwner(agent_id=plans.HOST, host_id=plans.HOST)}, "plan: owner"),
        ({"owner": RuntimeSessionOwner(agent_id=plans.AGENT, session_id=plans.HOST)}, "plan: owner"),
    ],
)
async def test_another_plan_is_not_served(world: World, plan: Plan, change: dict[str, Any], part: str) -> None:
    """Reuse needs the exact stored plan; the refusal names what differs and shows no value. Nothing is changed."""
    await world.ensure(plan)
    before = world.marker(plan.name).read_bytes()
    with pytest.raises(OwnershipMismatchError) as refused:
        await world.ensure(plan.model_copy(update=change))
    assert refused.value.part == part
    assert world.marker(plan.name).read_bytes() == before
    assert await world.engine.presence(plan.name) is Presence.RUNNING


@pytest.mark.guarantee("OWN-4", "PLAN-2")
async def test_a_sessions_sandbox_serves_its_dedicated_host_and_never_the_reverse(world: World, plan: Plan) -> None:
    """The one reviewed transition, in one direction, for one agent."""
    old = plan.model_copy(update={"owner": RuntimeSessionOwner(agent_id=plans.AGENT, session_id=plans.HOST)})
    assert match_plans(old, plan) is PlanMatch.DEDICATED_SESSION_COMPATIBILITY
    assert match_plans(plan, old) is PlanMatch.DIFFERENT
    other = old.model_copy(update={"owner": RuntimeSessionOwner(agent_id=plans.SESSION, session_id=plans.HOST)})
    assert match_plans(other, plan) is PlanMatch.DIFFERENT
    await world.ensure(old)
    assert await world.ensure(plan) is Ensured.REUSED
    stored = world.ownership.records.marker(plan.name)
    assert stored is not None
    assert stored.plan == old
    assert await remove(world.ownership, plan.name, plan.owner) is Removal.REMOVED


@pytest.mark.guarantee("OWN-3")
async def test_mcp_registrations_matter_for_reuse_and_not_for_removal(world: World, plan: Plan) -> None:
    """An old marker with other registrations blocks a start, and can still be cleaned up."""
    await world.ensure(plan)
    marker = world.ownership.records.marker(plan.name)
    assert marker is not None
    world.ownership.records.write_marker(marker.model_copy(update={"mcp_digest": "0" * 64}))
    with pytest.raises(OwnershipMismatchError, match="MCP registrations"):
        await world.ensure(plan)
    assert await remove(world.ownership, plan.name, plan.owner) is Removal.REMOVED
    assert not world.marker(plan.name).exists()
    assert plan.name not in world.engine.sandboxes


def forge(path: Path, how: str) -> None:
    """Do to the guest's proof what a guest might."""
    data = path.read_bytes()
    path.unlink()
    if how == "other":
        path.write_bytes(data.replace(data[12:16], b"zzzz"))
    elif how == "longer":
        path.write_bytes(data + b"x" * 100_000)
    elif how == "link":
        path.with_name("copy").write_bytes(b"{}")
        path.symlink_to(path.with_name("copy"))
    elif how == "directory":
        path.mkdir()


FORGED = ["gone", "other", "longer", "link", "directory"]


@pytest.mark.guarantee("OWN-3")
@pytest.mark.parametrize("how", FORGED)
@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("view", [True, False])
async def test_without_the_live_nonce_nothing_is_used_or_removed(
    plan: Plan, tmp_path: Path, how: str, running: bool, view: bool
) -> None:
    """Whatever became of the guest's file, and with or without a look from the host: refused, and left as it was found."""
    engine = DirectoryEngine(DirectoryEngine().abilities if view else frozenset())
    own = World.over(tmp_path / "app", engine)
    await own.ensure(plan)
    forge(engine.host_path(plan.name, GUEST_MARKER), how)
    if not running:
        await engine.stop(plan.name)
    before = await engine.presence(plan.name)
    for attempt in (own.ensure(plan), remove(own.ownership, plan.name, plan.owner)):
        with pytest.raises(OwnershipMismatchError, match="nonce"):
            await attempt
        assert await engine.presence(plan.name) is before
        assert own.marker(plan.name).exists()
    assert "remove" not in engine.calls
    await engine.close()


async def test_a_guest_that_does_not_answer_is_unknown_and_not_a_mismatch(
    world: World, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hanging guest proves nothing either way."""
    await world.ensure(plan)
    guest = world.engine.host_path(plan.name, GUEST_MARKER)
    guest.unlink()
    os.mkfifo(guest)
    monkeypatch.setattr("jamcore.sandbox.ownership.READ_TIMEOUT_S", 0.3)
    with pytest.raises(EngineUnknownError):
        await world.ensure(plan)


@pytest.mark.guarantee("OWN-3")
async def test_a_sandbox_without_a_marker_is_never_taken_over(world: World, plan: Plan) -> None:
    """A name alone proves nothing."""
    await world.ensure(plan)
    world.marker(plan.name).unlink()
    for attempt in (world.ensure(plan), remove(world.ownership, plan.name, plan.owner)):
        with pytest.raises(OwnershipMismatchError, match="there is none"):
            await attempt
    assert plan.name in world.engine.sandboxes


@pytest.mark.guarantee("OWN-3")
async def test_a_confirmed_absence_removes_the_marker_alone(world: World, plan: Plan) -> None:
    """The sandbox is gone behind our back: the marker goes, and the next creation starts clean."""
    await world.ensure(plan)
    first = world.marker(plan.name).read_bytes()
    await world.engine.remove(plan.name)
    assert await remove(world.ownership, plan.name, plan.owner) is Removal.ALREADY_ABSENT
    assert not world.marker(plan.name).exists()
    await world.ensure(plan)
    await world.engine.remove(plan.name)
    assert await world.ensure(plan) is Ensured.CREATED
    assert world.marker(plan.name).read_bytes() != first


@pytest.mark.guarantee("OWN-3")
async def test_unknown_is_not_absent(world: World, plan: Plan) -> None:
    """An engine that cannot say whether a sandbox is there changes nothing: no creation, no removal, no marker lost."""
    await world.ensure(plan)
    before = world.marker(plan.name).read_bytes()
    for attempt in (world.ensure(plan), remove(world.ownership, plan.name, plan.owner)):
        world.engine.fail("presence", UNKNOWN)
        with pytest.raises(EngineUnknownError):
            await attempt
    assert world.marker(plan.name).read_bytes() == before
    assert world.engine.calls.count("create") == 1
    assert "remove" not in world.engine.calls


@pytest.mark.guarantee("OWN-3")
async def test_only_the_owner_removes(world: World, plan: Plan) -> None:
    """The stored plan is chosen by name and owner."""
    await world.ensure(plan)
    for owner in (
        RuntimeHostOwner(agent_id=plans.SESSION, host_id=plans.HOST),
        RuntimeSessionOwner(agent_id=plans.AGENT, session_id=plans.HOST),
    ):
        with pytest.raises(OwnershipMismatchError, match="owner"):
            await remove(world.ownership, plan.name, owner)
    assert await remove(world.ownership, plan.name, plan.owner) is Removal.REMOVED


async def test_a_removal_that_did_not_remove_keeps_the_marker(world: World, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine said yes and the sandbox is still there: the world is believed, not the answer."""
    await world.ensure(plan)

    async def lie(name: str) -> None:
        assert name == plan.name

    monkeypatch.setattr(world.engine, "remove", lie)
    with pytest.raises(EngineUnknownError, match="still there"):
        await remove(world.ownership, plan.name, plan.owner)
    assert world.marker(plan.name).exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"schema_version":2}', b"x" * (1 << 21)])
async def test_a_damaged_marker_is_named_and_preserved(world: World, plan: Plan, content: bytes) -> None:
    """It is never overwritten and never taken for none."""
    await world.ensure(plan)
    world.marker(plan.name).write_bytes(content)
    for attempt in (world.ensure(plan), remove(world.ownership, plan.name, plan.owner)):
        with pytest.raises(MarkerUnreadableError):
            await attempt
    assert world.marker(plan.name).read_bytes() == content
    assert plan.name in world.engine.sandboxes


async def test_a_marker_of_another_name_or_a_link_is_no_marker(world: World, plan: Plan) -> None:
    """A marker that was copied or linked from elsewhere proves nothing here."""
    await world.ensure(plan)
    copy = world.marker("jam-0000000000000000")
    copy.write_bytes(world.marker(plan.name).read_bytes())
    with pytest.raises(MarkerUnreadableError, match="names the sandbox"):
        world.ownership.records.marker("jam-0000000000000000")
    copy.unlink()
    copy.symlink_to(world.marker(plan.name))
    with pytest.raises(MarkerUnreadableError):
        world.ownership.records.marker("jam-0000000000000000")
    for name in ("../x", "", "A", "a/b", "a" * 64):
        with pytest.raises(PlanRefusedError):
            world.ownership.records.marker(name)


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


def test_the_proof_is_one_line_of_json() -> None:
    """Its bytes are compared whole."""
    assert proof("ab") == b'{"nonce":"ab"}\n'
    assert issubclass(OwnershipMismatchError, JamError)
