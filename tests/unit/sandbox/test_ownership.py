"""A sandbox is reused or removed only with its proofs: plan, marker, nonce (OWN-1 to OWN-4)."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.limits import Limits
from jamcore.domain.ownership import (
    GUEST_MARKER,
    MarkerUnreadableError,
    OwnerMarker,
    OwnershipMismatchError,
    PlanMatch,
    match_plans,
)
from jamcore.domain.plan import McpServer, Plan, PlanRefusedError, RuntimeHostOwner, RuntimeSessionOwner
from jamcore.domain.sandboxes import EngineFailedError, EngineUnknownError, Presence
from jamcore.sandbox.ensure import Ensured
from jamcore.sandbox.ownership import WRITE_PROOF_ARGV, Ownership, mcp_digest, proof
from jamcore.sandbox.teardown import Removal, remove
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.doubles.proofs import FORGED, forge
from jamcore.testing.doubles.world import World

pytestmark = pytest.mark.anyio

UNKNOWN = EngineUnknownError(engine="directory", operation="presence", detail="asleep")
BROKEN = EngineFailedError(engine="directory", operation="remove", detail="busy")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


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


@pytest.mark.guarantee("PREP-4")
@pytest.mark.parametrize("stop_fails", [False, True])
async def test_a_start_that_fails_leaves_nothing_running(
    world: World, plan: Plan, monkeypatch: pytest.MonkeyPatch, *, stop_fails: bool
) -> None:
    """The engine carried it out and said that it failed: the sandbox is stopped again, and the start's own failure is what is told."""
    await world.ensure(plan)
    await world.engine.stop(plan.name)
    start = world.engine.start

    async def started_and_lost(name: str) -> None:
        await start(name)
        raise EngineFailedError(engine="directory", operation="start", detail="no answer")

    monkeypatch.setattr(world.engine, "start", started_and_lost)
    if stop_fails:
        world.engine.fail("stop", EngineFailedError(engine="directory", operation="stop", detail="busy"))
    with pytest.raises(EngineFailedError, match="no answer"):
        await world.ensure(plan)
    assert await world.engine.presence(plan.name) is (Presence.RUNNING if stop_fails else Presence.STOPPED)


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
    monkeypatch.setattr("jamcore.sandbox.ownership.READ_PROOF_ARGV", ("sleep", "60"))
    world.ownership = Ownership(world.ownership.records, world.engine, limits=Limits(read_s=0.3))
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


def test_the_proof_is_one_line_of_json() -> None:
    """Its bytes are compared whole."""
    assert proof("ab") == b'{"nonce":"ab"}\n'
    assert issubclass(OwnershipMismatchError, JamError)
