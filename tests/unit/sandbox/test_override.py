"""Removal without a proof, on a person's word: what is shown, what is refused, and every kill of the journaled removal (OWN-8, WS-10)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
import structlog.testing

from jamcore.domain.ownership import GUEST_MARKER, OverrideEvidence, OwnershipMismatchError
from jamcore.domain.plan import Owner, Plan, RuntimeHostOwner
from jamcore.domain.sandboxes import EngineUnknownError, Presence
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import ActionGivenUpError, Runner
from jamcore.sandbox.override import (
    OVERRIDE_POINTS,
    HostInUseError,
    OverrideIntent,
    OverrideRefusedError,
    inspect_override,
    is_proven,
    override_action,
    require_confirmed,
)
from jamcore.sandbox.ownership import Ownership
from jamcore.store import StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.crash import KillAt, Killed, Passed
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.world import World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

ACTION = UUID(int=5)


@dataclass
class Sources:
    """A host of one plan; ``said`` is what its rooms hold."""

    world: World
    plan: Plan
    busy: bool = False
    said: set[UUID] = field(default_factory=set)

    async def proofs(self, intent: OverrideIntent) -> tuple[Ownership, Owner]:
        """See :class:`OverrideSources`."""
        assert intent.sandbox == self.plan.name
        return self.world.ownership, self.plan.owner

    async def require_free(self, host: UUID) -> None:
        """See :class:`OverrideSources`."""
        if self.busy:
            raise HostInUseError(host=str(host))

    async def say(self, intent: OverrideIntent) -> None:
        """See :class:`OverrideSources`."""
        assert intent.evidence is not None or not self.world.engine.sandboxes
        self.said.add(intent.id)


@dataclass
class Life:
    """One life of a daemon over a database."""

    runner: Runner
    sources: Sources
    journal: StoreJournal

    async def ask(self, confirmed: str) -> OverrideIntent:
        """Ask for the removal."""
        intent = OverrideIntent(id=ACTION, host_id=plans.HOST, sandbox=self.sources.plan.name, confirmed=confirmed)
        return await self.runner.run(override_action(self.sources), ACTION, intent)

    async def start_up(self) -> list[str]:
        """Finish what was cut; return the codes of what could not be."""
        registry = ActionRegistry()
        registry.register(override_action(self.sources))
        return [error.code for _, error in await registry.replay(self.journal, self.runner)]


@asynccontextmanager
async def living(sources: Sources, path: Path, crash: CrashPoints | None = None) -> AsyncIterator[Life]:
    """Live once."""
    async with open_store(path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
        journal = StoreJournal(store)
        yield Life(Runner(journal, crash or NoCrash()), sources, journal)


async def lose(world: World, plan: Plan) -> OverrideEvidence:
    """Make a sandbox, let its guest destroy the proof, and return the evidence."""
    await world.ensure(plan)
    world.engine.host_path(plan.name, GUEST_MARKER).unlink()
    return await inspect_override(world.ownership, plan.name, plan.owner)


@pytest.mark.guarantee("OWN-8", "WS-10")
async def test_only_the_evidence_that_is_true_now_confirms(world: World, plan: Plan) -> None:
    """A proof that holds needs no override; a change since the inspection, of whatever kind, is refused; so is another owner."""
    await world.ensure(plan)
    evidence = await inspect_override(world.ownership, plan.name, plan.owner)
    assert is_proven(evidence)
    with pytest.raises(OverrideRefusedError, match="proof holds"):
        require_confirmed(evidence, evidence.content_digest())
    guest = world.engine.host_path(plan.name, GUEST_MARKER)
    guest.unlink()
    seen = await inspect_override(world.ownership, plan.name, plan.owner)
    assert (seen.nonce, seen.presence, seen.engine_proof) == ("missing", "running", "not-kept")

    def forge() -> None:
        guest.write_text("forged")

    marker = world.marker(plan.name)

    def rewrite() -> None:
        stored = world.ownership.records.marker(plan.name)
        assert stored is not None
        world.ownership.records.write_marker(stored.model_copy(update={"task_receipt": "another"}))

    changes: tuple[Callable[[], object], ...] = (forge, rewrite)
    for change in changes:
        change()
        now = await inspect_override(world.ownership, plan.name, plan.owner)
        with pytest.raises(OverrideRefusedError, match="no longer"):
            require_confirmed(now, seen.content_digest())
        seen = now
    await world.engine.stop(plan.name)
    with pytest.raises(OverrideRefusedError, match="no longer"):
        require_confirmed(await inspect_override(world.ownership, plan.name, plan.owner), seen.content_digest())
    with pytest.raises(OwnershipMismatchError):
        await inspect_override(world.ownership, plan.name, RuntimeHostOwner(agent_id=plans.SESSION, host_id=plans.HOST))
    marker.unlink()
    with pytest.raises(OwnershipMismatchError, match="there is none"):
        await inspect_override(world.ownership, plan.name, plan.owner)
    assert plan.name in world.engine.sandboxes


@pytest.mark.guarantee("OWN-8", "WS-10", "WS-11")
async def test_the_removal_keeps_the_files_and_is_audited(world: World, plan: Plan, tmp_path: Path) -> None:
    """Sandbox and marker go, the guest's disk stays, the log has the evidence, and an exact retry changes nothing."""
    evidence = await lose(world, plan)
    kept = world.guest(plan.name) / "work"
    kept.write_text("mine")
    sources = Sources(world, plan)
    passed = Passed()
    async with living(sources, tmp_path, passed) as life:
        with structlog.testing.capture_logs() as logs:
            done = await life.ask(evidence.content_digest())
        assert await life.ask(evidence.content_digest()) == done
    assert done.evidence == evidence
    assert world.engine.sandboxes == {}
    assert not world.marker(plan.name).exists()
    assert kept.read_text() == "mine"
    assert sources.said == {ACTION}
    (audit,) = [log for log in logs if log["event"] == "sandbox removed without its proof"]
    assert (audit["action"], audit["evidence"], audit["nonce"]) == (str(ACTION), evidence.content_digest(), "missing")
    assert tuple(passed.points[:-1]) == OVERRIDE_POINTS == override_action(sources).crash_points()
    assert world.engine.calls.count("remove") == 1


@pytest.mark.guarantee("OWN-8", "WS-10")
async def test_a_sandbox_that_is_gone_leaves_its_marker_to_the_override(world: World, plan: Plan, tmp_path: Path) -> None:
    """Confirmed absent: the marker alone is removed."""
    await world.ensure(plan)
    await world.engine.remove(plan.name)
    evidence = await inspect_override(world.ownership, plan.name, plan.owner)
    assert (evidence.presence, evidence.nonce) == ("absent", "missing")
    async with living(Sources(world, plan), tmp_path) as life:
        await life.ask(evidence.content_digest())
    assert not world.marker(plan.name).exists()


@pytest.mark.guarantee("OWN-8", "WS-12")
async def test_killed_at_every_boundary_and_again_in_the_recovery(world: World, plan: Plan, tmp_path: Path) -> None:
    """The third life has removed it, and said it; at no moment is the marker gone while the sandbox is there."""
    for number, point in enumerate(OVERRIDE_POINTS):
        for again in (*OVERRIDE_POINTS[number + 1 :][:2], "nowhere"):
            place = tmp_path / f"{number}-{again}"
            place.mkdir()
            evidence = await lose(world, plan)
            sources = Sources(world, plan)
            async with living(sources, place, KillAt(point)) as life:
                with pytest.raises(Killed):
                    await life.ask(evidence.content_digest())
            assert world.marker(plan.name).exists() or not world.engine.sandboxes
            async with living(sources, place, KillAt(again)) as life:
                try:
                    assert await life.start_up() == []
                except Killed:
                    assert world.marker(plan.name).exists() or not world.engine.sandboxes
            async with living(sources, place) as life:
                assert await life.start_up() == []
                await life.ask(evidence.content_digest())
            assert world.engine.sandboxes == {}
            assert not world.marker(plan.name).exists()
            assert sources.said == {ACTION}


@pytest.mark.guarantee("OWN-8", "WS-10", "START-2")
@pytest.mark.parametrize("what", ["stopped", "proven", "in use", "other marker"])
async def test_what_changed_before_the_restart_is_not_removed(world: World, plan: Plan, tmp_path: Path, what: str) -> None:
    """Cut before the removal, and the world is another when the daemon is back: it is over, for good, and everything stays."""
    evidence = await lose(world, plan)
    sources = Sources(world, plan)
    async with living(sources, tmp_path, KillAt("host-override.sandbox.intended")) as life:
        with pytest.raises(Killed):
            await life.ask(evidence.content_digest())
    match what:
        case "stopped":
            await world.engine.stop(plan.name)
        case "proven":
            stored = world.ownership.records.marker(plan.name)
            assert stored is not None
            assert await world.ownership.renew_nonce(plan.name, stored.nonce)
        case "in use":
            sources.busy = True
        case "other marker":
            world.marker(plan.name).write_bytes(b"{}")
    async with living(sources, tmp_path) as life:
        assert len(await life.start_up()) == 1
        assert await life.start_up() == []
        with pytest.raises(ActionGivenUpError) as over:
            await life.ask(evidence.content_digest())
        assert over.value.stays == "the sandbox, its marker and its files"
    assert plan.name in world.engine.sandboxes
    assert world.marker(plan.name).exists()
    assert sources.said == set()


@pytest.mark.guarantee("OWN-8")
async def test_an_engine_that_cannot_say_is_waited_for(world: World, plan: Plan, tmp_path: Path) -> None:
    """Unknown is not absent: nothing is removed, nothing is given up, and the next start finishes it."""
    evidence = await lose(world, plan)
    sources = Sources(world, plan)
    async with living(sources, tmp_path) as life:
        world.engine.fail("presence", EngineUnknownError(engine="directory", operation="presence", detail="asleep"))
        with pytest.raises(EngineUnknownError):
            await life.ask(evidence.content_digest())
        assert await world.engine.presence(plan.name) is Presence.RUNNING
        assert await life.start_up() == []
    assert world.engine.sandboxes == {}
