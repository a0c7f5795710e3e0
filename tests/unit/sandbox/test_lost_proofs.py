"""A guest that empties its home, or forges its proof, keeps nobody from its room where the engine has a proof of its own (OWN-8)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jamcore.domain.ownership import GUEST_MARKER, OwnershipMismatchError, PendingCleanup, ProofLostError
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import EngineUnknownError, Presence, SandboxGoneError
from jamcore.sandbox.ensure import Ensured, Renewal, ensure_created
from jamcore.sandbox.teardown import Removal, remove
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.doubles.world import World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

SPOILT = ("emptied home", "forged", "empty", "link", "dangling link", "directory", "full directory")


class KeepingEngine(DirectoryEngine):
    """Keeps the proof that a sandbox was created with, as an engine with a place of its own does."""

    async def proof(self, name: str) -> str:
        """See :meth:`Proves.proof`."""
        self._enter("proof")
        if name not in self.sandboxes:
            raise SandboxGoneError(sandbox=name)
        return self.sandboxes[name].spec.proof


def spoil(proof: Path, how: str) -> None:
    """Do to the guest's proof what a guest can do."""
    if how == "emptied home":
        shutil.rmtree(proof.parent)
        proof.parent.mkdir()
        return
    proof.unlink()
    match how:
        case "forged":
            proof.write_text('{"nonce":"' + "0" * 64 + '"}\n')
        case "empty":
            proof.touch()
        case "link":
            proof.symlink_to("/etc/passwd")
        case "dangling link":
            proof.symlink_to(proof.parent / "made by a link")
        case "directory" | "full directory":
            proof.mkdir()
    if how == "full directory":
        (proof / "below" / "it").mkdir(parents=True)
        (proof / "below" / "file").touch()


@pytest.fixture
async def keeping(tmp_path: Path) -> AsyncIterator[World]:
    """A daemon over an engine that keeps proofs."""
    engine = KeepingEngine()
    yield World.over(tmp_path / "app", engine)
    await engine.close()


async def ensure(world: World, plan: Plan) -> tuple[Ensured, list[Renewal]]:
    """Make sure of a sandbox, and return what was noted on the way."""
    noted: list[Renewal] = []
    done = await ensure_created(world.ownership, plan, world.spec(plan), ids=SystemIds(), note=noted.append)
    return done, noted


def nonce(world: World, plan: Plan) -> str:
    """Return the nonce of the marker."""
    marker = world.ownership.records.marker(plan.name)
    assert marker is not None
    return marker.nonce


@pytest.mark.guarantee("OWN-3", "OWN-8")
@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("parked", [False, True])
async def test_the_engine_s_proof_stands_for_the_guest_s(keeping: World, plan: Plan, how: str, parked: bool) -> None:
    """The sandbox is used, the proof is written anew in place of what was there, and noted once; nothing a link names is touched."""
    assert await ensure(keeping, plan) == (Ensured.CREATED, [])
    proof = keeping.engine.host_path(plan.name, GUEST_MARKER)
    passwd = Path("/etc/passwd").read_bytes()
    if parked:
        await keeping.engine.stop(plan.name)
    spoil(proof, how)
    assert await ensure(keeping, plan) == (Ensured.STARTED if parked else Ensured.REUSED, [Renewal.WRITTEN])
    assert json.loads(proof.read_bytes()) == {"nonce": nonce(keeping, plan)}
    assert not proof.is_symlink()
    assert proof.stat().st_mode & 0o777 == 0o600
    assert Path("/etc/passwd").read_bytes() == passwd
    assert not (proof.parent / "made by a link").exists()
    assert await ensure(keeping, plan) == (Ensured.REUSED, [])


@pytest.mark.guarantee("OWN-3", "OWN-8")
@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("parked", [False, True])
async def test_the_engine_s_proof_is_enough_for_a_removal(keeping: World, plan: Plan, how: str, parked: bool) -> None:
    """Running or parked: removed, with its marker."""
    await ensure(keeping, plan)
    if parked:
        await keeping.engine.stop(plan.name)
    spoil(keeping.engine.host_path(plan.name, GUEST_MARKER), how)
    assert await remove(keeping.ownership, plan.name, plan.owner) is Removal.REMOVED
    assert keeping.engine.sandboxes == {}
    assert not keeping.marker(plan.name).exists()


@pytest.mark.guarantee("OWN-8")
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
async def test_a_guest_that_lets_nothing_be_written_is_used_all_the_same(keeping: World, plan: Plan) -> None:
    """Its home is read-only: the note says that the proof could not be written, and the sandbox serves."""
    await ensure(keeping, plan)
    proof = keeping.engine.host_path(plan.name, GUEST_MARKER)
    proof.unlink()
    proof.parent.chmod(0o500)
    try:
        assert await ensure(keeping, plan) == (Ensured.REUSED, [Renewal.REFUSED])
        assert await remove(keeping.ownership, plan.name, plan.owner) is Removal.REMOVED
    finally:
        proof.parent.chmod(0o700)


@pytest.mark.guarantee("OWN-3", "OWN-8")
@pytest.mark.parametrize("kept", ["", "0" * 64])
async def test_an_engine_that_vouches_for_another_creation_proves_nothing(keeping: World, plan: Plan, kept: str) -> None:
    """Its record is of another nonce, or of none: the refusal names the way out, and nothing was changed."""
    await ensure(keeping, plan)
    keeping.engine.host_path(plan.name, GUEST_MARKER).unlink()
    sandbox = keeping.engine.sandboxes[plan.name]
    sandbox.spec = sandbox.spec.model_copy(update={"proof": kept})
    for attempt in (ensure(keeping, plan), remove(keeping.ownership, plan.name, plan.owner)):
        with pytest.raises(ProofLostError, match="nonce: missing") as refused:
            await attempt
        assert "jam host override" in refused.value.hint
    assert await keeping.engine.presence(plan.name) is Presence.RUNNING
    assert keeping.marker(plan.name).exists()


@pytest.mark.guarantee("OWN-8")
@pytest.mark.parametrize("how", SPOILT)
async def test_an_engine_without_a_place_of_its_own_refuses_and_names_the_override(world: World, plan: Plan, how: str) -> None:
    """The marker alone is not enough: an operator decides, by the evidence."""
    await ensure(world, plan)
    spoil(world.engine.host_path(plan.name, GUEST_MARKER), how)
    for attempt in (ensure(world, plan), remove(world.ownership, plan.name, plan.owner)):
        with pytest.raises(ProofLostError) as refused:
            await attempt
        assert isinstance(refused.value, OwnershipMismatchError)
        assert "jam host override" in refused.value.hint
    assert plan.name in world.engine.sandboxes


@pytest.mark.guarantee("OWN-8")
async def test_a_sick_engine_s_silence_is_no_proof(keeping: World, plan: Plan) -> None:
    """The guest's proof is gone and the engine cannot say what it kept: unknown, and nothing is removed."""
    await ensure(keeping, plan)
    keeping.engine.host_path(plan.name, GUEST_MARKER).unlink()
    sick = EngineUnknownError(engine="directory", operation="proof", detail="asleep")
    keeping.engine.fail("proof", sick, sick)
    for attempt in (ensure(keeping, plan), remove(keeping.ownership, plan.name, plan.owner)):
        with pytest.raises(EngineUnknownError):
            await attempt
    assert plan.name in keeping.engine.sandboxes


@pytest.mark.guarantee("OWN-5", "OWN-8")
@pytest.mark.parametrize("how", SPOILT)
async def test_an_interrupted_creation_is_settled_by_the_engine_s_proof(keeping: World, plan: Plan, how: str) -> None:
    """Killed between nonce and marker, and the nonce is gone since: the engine's record is of this creation, so it is removed."""
    await ensure(keeping, plan)
    keeping.ownership.records.write_pending(PendingCleanup(plan=plan, nonce=nonce(keeping, plan)))
    keeping.marker(plan.name).unlink()
    spoil(keeping.engine.host_path(plan.name, GUEST_MARKER), how)
    assert await keeping.ownership.settle_all_pending() == ()
    assert keeping.engine.sandboxes == {}
    assert not keeping.pending(plan.name).exists()
