"""A private clone that goes with its sandbox is looked at before; work in it is lost on a person's word alone (OWN-9)."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.domain.cells import Ability, Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.clone_work import WorkWouldBeLostError
from jamcore.domain.ownership import GUEST_MARKER, OverrideEvidence
from jamcore.domain.plan import Owner, Plan
from jamcore.domain.sandboxes import SandboxGoneError
from jamcore.journal.points import NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.sandbox.override import (
    OVERRIDE_POINTS,
    OverrideIntent,
    OverrideRefusedError,
    inspect_override,
    override_action,
    require_confirmed,
    work_that_stays,
)
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.teardown import Removal, remove
from jamcore.store import StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.crash import KillAt, Killed
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.engines import ABILITIES, DirectoryEngine
from jamcore.testing.doubles.world import World
from jamcore.workspace.clone_work import look_at_clone

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]

CELL = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.PRIVATE_HOST_CLONE, placement=Placement.DEDICATED)
GOES = ABILITIES - {Ability.KEEPS_DISK}
ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(directory: Path, *argv: str) -> str:
    """Run git as a person, or an agent, would."""
    done = subprocess.run(["git", *argv], cwd=directory, env=ENV, capture_output=True, check=True, timeout=60)
    return done.stdout.decode().strip()


@dataclass
class Host:
    """A sandbox with a private clone, on an engine of the test's choice."""

    world: World
    plan: Plan
    said: set[UUID] = field(default_factory=set)

    @property
    def clone(self) -> Path:
        """Where the clone lies."""
        return self.world.engine.host_path(self.plan.name, self.plan.primary.guest_path)

    def exists(self) -> bool:
        """Return whether the sandbox is there, with its marker and its clone."""
        there = self.plan.name in self.world.engine.sandboxes
        assert there == self.world.marker(self.plan.name).exists()
        return there and self.clone.is_dir()

    def work(self) -> None:
        """Do what an agent does."""
        (self.clone / "mine").write_text("work")

    async def lost(self) -> OverrideEvidence:
        """Let the guest destroy its proof, and return the evidence."""
        self.world.engine.host_path(self.plan.name, GUEST_MARKER).unlink(missing_ok=True)
        return await self.evidence()

    async def evidence(self) -> OverrideEvidence:
        """Return what there is to confirm."""
        return await inspect_override(self.world.ownership, self.plan.name, self.plan.owner)

    async def remove(self, discard: str | None = None) -> Removal:
        """Remove it, proven."""
        return await remove(self.world.ownership, self.plan.name, self.plan.owner, discard=discard)

    async def proofs(self, _intent: OverrideIntent) -> tuple[Ownership, Owner]:
        """See :class:`OverrideSources`."""
        return self.world.ownership, self.plan.owner

    async def require_free(self, _host: UUID) -> None:
        """See :class:`OverrideSources`."""

    async def say(self, intent: OverrideIntent) -> None:
        """See :class:`OverrideSources`."""
        self.said.add(intent.id)


Make = Callable[..., Awaitable[Host]]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Make a sandbox with a clone on an engine with these abilities."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    (repository / "a.txt").write_text("one\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "one")
    inputs = plans.inputs_for(CELL, path=str(repository), commit=git(repository, "rev-parse", "HEAD"))
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    engines: list[DirectoryEngine] = []

    async def build(abilities: frozenset[Ability] = GOES, *, looks: bool = True) -> Host:
        engine = DirectoryEngine(abilities)
        engines.append(engine)
        world = World.over(tmp_path / f"app-{len(engines)}", engine)
        look = partial(look_at_clone, scratch=scratch) if looks else None
        world.ownership = Ownership(world.ownership.records, engine, look=look)
        host = Host(world, plans.plan(inputs))
        await world.ensure(host.plan)
        return host

    yield build
    for engine in engines:
        await engine.close()


@asynccontextmanager
async def living(host: Host, path: Path, crash: KillAt | None = None) -> AsyncIterator[tuple[Runner, StoreJournal]]:
    """Live once over a database."""
    async with open_store(path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
        journal = StoreJournal(store)
        yield Runner(journal, crash or NoCrash()), journal


async def override(host: Host, path: Path, confirmed: str, *, number: int = 1, discard: bool = False) -> OverrideIntent:
    """Ask for a removal without a proof."""
    intent = OverrideIntent(
        id=UUID(int=number), host_id=plans.HOST, sandbox=host.plan.name, confirmed=confirmed, discard_work=discard
    )
    async with living(host, path) as (runner, _):
        return await runner.run(override_action(host), intent.id, intent)


@pytest.mark.guarantee("OWN-9")
async def test_a_removal_that_would_lose_work_is_refused(make: Make) -> None:
    """Stopped, whole, and the refusal says what is there; a clean clone goes; what was confirmed goes, and nothing newer."""
    host = await make()
    host.work()
    with pytest.raises(WorkWouldBeLostError) as refused:
        await host.remove()
    assert refused.value.lost == ("1 uncommitted: mine",)
    assert host.exists()
    seen = (await host.evidence()).work
    assert seen is not None
    (host.clone / "mine").write_text("more work")
    with pytest.raises(WorkWouldBeLostError):
        await host.remove(discard=seen.content_digest())
    assert host.exists()
    now = (await host.evidence()).work
    assert now is not None
    assert await host.remove(discard=now.content_digest()) is Removal.REMOVED
    assert not host.exists()
    clean = await make()
    assert await clean.remove() is Removal.REMOVED
    assert clean.world.engine.calls.index("stop") < clean.world.engine.calls.index("remove")


@pytest.mark.guarantee("OWN-9")
async def test_work_in_a_commit_is_work_too(make: Make) -> None:
    """Nothing is uncommitted, and nobody has the commit."""
    host = await make()
    host.work()
    git(host.clone, "add", "mine")
    git(host.clone, "commit", "-q", "-m", "mine")
    with pytest.raises(WorkWouldBeLostError, match="1 commits: "):
        await host.remove()
    assert host.exists()


@pytest.mark.guarantee("OWN-9")
@pytest.mark.parametrize("why", ["no host view", "nobody looks", "the engine knows no clone", "a link in its place", "spoilt"])
async def test_what_cannot_be_looked_at_is_not_lost(make: Make, why: str, tmp_path: Path) -> None:
    """Unknown is not nothing."""
    host = await make(GOES - {Ability.HOST_VIEW} if why == "no host view" else GOES, looks=why != "nobody looks")
    match why:
        case "the engine knows no clone":
            host.world.engine.fail("inspect_clone", SandboxGoneError(sandbox="x"))
        case "a link in its place":
            host.clone.rename(tmp_path / "elsewhere")
            host.clone.symlink_to(tmp_path / "elsewhere")
        case "spoilt":
            (host.clone / ".git" / "HEAD").unlink()
    with pytest.raises(WorkWouldBeLostError, match="unknown: "):
        await host.remove()
    assert host.exists()


@pytest.mark.guarantee("OWN-9")
async def test_where_the_clone_stays_it_is_told_and_blocks_nothing(make: Make) -> None:
    """The evidence does not change with the work; the clone is there after the removal."""
    host = await make(ABILITIES)
    host.work()
    before = await host.lost()
    assert (before.clone_goes, before.work) == (False, None)
    stays = await work_that_stays(host.world.ownership, host.plan.name, host.plan.owner, before.presence)
    assert stays is not None
    assert stays.paths == ("mine",)
    (host.clone / "mine").write_text("more")
    assert await host.evidence() == before
    clone = host.clone
    require_confirmed(before, before.content_digest())
    with_proof = await make(ABILITIES)
    with_proof.work()
    kept = with_proof.clone
    assert await with_proof.remove() is Removal.REMOVED
    assert (kept / "mine").exists()
    assert (clone / "mine").exists()


@pytest.mark.guarantee("OWN-9", "OWN-8", "WS-10")
async def test_an_override_needs_a_word_of_its_own_for_the_work(make: Make, tmp_path: Path) -> None:
    """Confirmed evidence is not enough; with the word it is, and only for what the evidence says."""
    host = await make()
    host.work()
    await host.world.engine.stop(host.plan.name)
    evidence = await host.lost()
    assert evidence.work is not None
    assert (evidence.clone_goes, evidence.work.blockers()) == (True, ("1 uncommitted: mine",))
    with pytest.raises(WorkWouldBeLostError):
        await override(host, tmp_path, evidence.content_digest())
    (host.clone / "mine").write_text("more work")
    with pytest.raises(OverrideRefusedError, match="no longer"):
        await override(host, tmp_path, evidence.content_digest(), number=2, discard=True)
    assert host.exists()
    fresh = await host.evidence()
    done = await override(host, tmp_path, fresh.content_digest(), number=3, discard=True)
    assert done.evidence == fresh
    assert not host.exists()
    assert host.said == {UUID(int=3)}


@pytest.mark.guarantee("OWN-9", "OWN-8")
async def test_a_running_sandbox_is_stopped_first_and_looked_at_then(make: Make, tmp_path: Path) -> None:
    """While it runs nobody can say what would be lost: the first word stops it and removes nothing, the second knows what it takes."""
    host = await make()
    running = await host.lost()
    assert running.work is not None
    assert running.work.blockers() == ("unknown: the sandbox runs, and its files may change",)
    with pytest.raises(WorkWouldBeLostError):
        await override(host, tmp_path, running.content_digest())
    with pytest.raises(OverrideRefusedError, match="no longer"):
        await override(host, tmp_path, running.content_digest(), number=2, discard=True)
    assert host.exists()
    stopped = await host.evidence()
    assert (stopped.presence, stopped.work and stopped.work.blockers()) == ("stopped", ())
    await override(host, tmp_path, stopped.content_digest(), number=3)
    assert not host.exists()


@pytest.mark.guarantee("OWN-9", "WS-12")
@pytest.mark.parametrize("point", OVERRIDE_POINTS)
async def test_killed_anywhere_what_was_confirmed_is_lost_and_nothing_else(make: Make, tmp_path: Path, point: str) -> None:
    """The next life finishes; work that came in between keeps the sandbox."""
    for comes in (False, True):
        host, place = await make(), tmp_path / f"{comes}"
        place.mkdir()
        host.work()
        await host.world.engine.stop(host.plan.name)
        confirmed = (await host.lost()).content_digest()
        intent = OverrideIntent(id=UUID(int=1), host_id=plans.HOST, sandbox=host.plan.name, confirmed=confirmed, discard_work=True)
        async with living(host, place, KillAt(point)) as (runner, _):
            with pytest.raises(Killed):
                await runner.run(override_action(host), intent.id, intent)
        there = host.plan.name in host.world.engine.sandboxes
        if comes and there:
            (host.clone / "newer").write_text("work that nobody confirmed")
        async with living(host, place) as (runner, journal):
            registry = ActionRegistry()
            registry.register(override_action(host))
            await registry.replay(journal, runner)
        assert host.exists() == (comes and there)
