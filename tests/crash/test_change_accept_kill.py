"""Accepting a change request, cut at every boundary and finished by a start: one commit, one decision, or none (WS-12)."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.domain.changes import ChangeDecision
from jamcore.domain.errors import JamError
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import ActionGivenUpError, Runner
from jamcore.journal.steps import Action
from jamcore.runs.accept_action import AcceptIntent, AcceptSources, accept_action
from jamcore.store import StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.testing.crash import KillAt, Killed, Passed
from jamcore.workspace.branch import BranchCheckedOutError

pytestmark = [pytest.mark.anyio, pytest.mark.crash, pytest.mark.needs("git"), pytest.mark.unprivileged]

CHANGE, ROOM, ACCEPT = (UUID(int=number) for number in range(1, 4))
AT = datetime(2026, 1, 2, tzinfo=UTC)
PATCH = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+ONE\n"


@dataclass
class Kept(AcceptSources):
    """Holds the reviewed bytes, and the decisions that were kept."""

    decisions: list[ChangeDecision] = field(default_factory=list)

    async def patch(self, intent: AcceptIntent) -> bytes:
        """Return them."""
        assert hashlib.sha256(PATCH).hexdigest() == intent.patch_sha256
        return PATCH

    async def insert(self, decision: ChangeDecision, room: UUID) -> None:
        """Keep it once."""
        assert room == ROOM
        if decision not in self.decisions:
            self.decisions.append(decision)


@dataclass(frozen=True)
class World:
    """A person's repository, and what Jam keeps."""

    root: Path
    sources: Kept
    action: Action[AcceptIntent]

    def git(self, *argv: str) -> str:
        """Run git as a person would."""
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        who = ("-c", "user.name=p", "-c", "user.email=p@example.org")
        done = subprocess.run(("git", *who, *argv), cwd=self.root / "repo", env=env, capture_output=True, check=True, timeout=60)
        return done.stdout.decode().strip()

    def intent(self) -> AcceptIntent:
        """Accept the patch onto a new branch."""
        return AcceptIntent(
            id=ACCEPT,
            change_id=CHANGE,
            room_id=ROOM,
            patch_sha256=hashlib.sha256(PATCH).hexdigest(),
            repository=str(self.root / "repo"),
            branch="jam/x",
            base=self.git("rev-parse", "main"),
            allow_moved=False,
            author="A <a@example.org>",
            message="m\n",
            base_tree=self.git("rev-parse", "main^{tree}"),
            tree=self.reviewed(),
            at=AT,
        )

    def reviewed(self) -> str:
        """Return the tree that the reviewed bytes make, as git itself says."""
        blob = self.git("hash-object", "-w", str(self.root / "ONE"))
        self.git("read-tree", "main")
        self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},a.txt")
        tree = self.git("write-tree")
        self.git("read-tree", "main")
        return tree

    @asynccontextmanager
    async def living(self, crash: CrashPoints) -> AsyncIterator[tuple[Runner, ActionRegistry, StoreJournal]]:
        """Live once."""
        async with open_store(self.root / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=9)) as store:
            journal, registry = StoreJournal(store), ActionRegistry()
            registry.register(self.action)
            yield Runner(journal, crash), registry, journal

    async def finished(self) -> None:
        """Start again: what was begun is ended, whatever the cut left; an exact retry changes nothing."""
        intent = self.intent()
        async with self.living(NoCrash()) as (runner, registry, journal):
            assert await registry.replay(journal, runner) == ()
            assert await journal.running() == ()
            done = await runner.run(self.action, ACCEPT, intent)
        assert self.git("log", "--format=%H %P", "-1", "jam/x") == f"{done.commit} {intent.base}"
        assert self.git("rev-parse", "jam/x^{tree}") == intent.tree
        assert self.git("for-each-ref", "--format=%(refname)").splitlines() == ["refs/heads/jam/x", "refs/heads/main"]
        (decision,) = self.sources.decisions
        assert decision.commit == done.commit
        assert list((self.root / "scratch").iterdir()) == []


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A repository with one commit."""
    (tmp_path / "repo").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "ONE").write_text("ONE\n")
    sources = Kept()
    made = World(tmp_path, sources, accept_action(sources, scratch=tmp_path / "scratch"))
    made.git("init", "-q", "-b", "main")
    (tmp_path / "repo" / "a.txt").write_text("one\n")
    made.git("add", ".")
    made.git("commit", "-qm", "one")
    return made


POINTS = accept_action(Kept(), scratch=Path()).crash_points()


async def test_a_run_passes_every_boundary_in_order(world: World) -> None:
    """The matrix below is the whole of it."""
    passed = Passed()
    async with world.living(passed) as (runner, _, _):
        await runner.run(world.action, ACCEPT, world.intent())
    assert tuple(passed.points) == POINTS
    await world.finished()


@pytest.mark.guarantee("WS-12", "WS-11", "RUN-1", "START-1")
@pytest.mark.parametrize("point", POINTS)
async def test_cut_anywhere_it_is_finished_once(world: World, point: str) -> None:
    """Cut once, and cut again at each later boundary while it is finished: the branch has one commit, and there is one decision."""
    with pytest.raises(Killed):
        async with world.living(KillAt(point)) as (runner, _, _):
            await runner.run(world.action, ACCEPT, world.intent())
    for later in POINTS[POINTS.index(point) + 1 :]:
        with pytest.raises(Killed):
            async with world.living(KillAt(later)) as (runner, _, _):
                await runner.run(world.action, ACCEPT, world.intent())
    await world.finished()


@pytest.mark.guarantee("WS-12")
async def test_a_branch_that_somebody_made_after_the_cut_is_theirs(world: World) -> None:
    """Cut before the branch was made; meanwhile a person makes one of that name: it is not moved, and that is said."""
    with pytest.raises(Killed):
        async with world.living(KillAt("change-accept.branch.intended")) as (runner, _, _):
            await runner.run(world.action, ACCEPT, world.intent())
    world.git("branch", "jam/x", "main")
    async with world.living(NoCrash()) as (runner, registry, journal):
        ((_, error),) = await registry.replay(journal, runner)
        assert isinstance(error, JamError)
        assert error.code == "branch.moved"
        assert await journal.running() == ()
    assert world.git("rev-parse", "jam/x") == world.git("rev-parse", "main")
    assert world.sources.decisions == []


@pytest.mark.guarantee("WS-11", "START-2")
async def test_what_was_refused_is_not_done_by_a_later_start(world: World) -> None:
    """The branch was checked out, so the person was refused; when it is free again, nothing moves it, and a retry says that it is over."""
    world.git("checkout", "-q", "-b", "jam/x")
    intent = world.intent()
    async with world.living(NoCrash()) as (runner, _, _):
        with pytest.raises(BranchCheckedOutError):
            await runner.run(world.action, ACCEPT, intent)
    world.git("checkout", "-q", "main")
    world.git("branch", "-D", "jam/x")
    async with world.living(NoCrash()) as (runner, registry, journal):
        assert await registry.replay(journal, runner) == ()
        with pytest.raises(ActionGivenUpError) as over:
            await runner.run(world.action, ACCEPT, intent)
        assert (over.value.failure, over.value.stays) == ("branch.checked_out", "the branch as it was")
    assert world.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert world.sources.decisions == []
