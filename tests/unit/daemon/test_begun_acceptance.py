"""An acceptance that moved its branch and could not record it: its repetition ends it, and no other verdict comes between (WS-11)."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.reviews import Reviews
from jamcore.domain.changes import ChangeDecision, Verdict
from jamcore.domain.errors import ConflictError
from jamcore.domain.requests import AcceptRequest, RejectRequest
from jamcore.journal.points import NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runs.accept_action import AcceptIntent
from jamcore.store import StoreJournal, open_store
from jamcore.store.errors import StoreFullError
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]

CHANGE, ROOM = UUID(int=1), UUID(int=2)
FIRST, SECOND = UUID(int=3), UUID(int=4)
PATCH = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+ONE\n"
DIGEST = hashlib.sha256(PATCH).hexdigest()


@dataclass
class World:
    """Reviews over a real journal and a real repository; the change request itself, and where its decision is kept, are scripted."""

    repository: Path
    reviews: Reviews
    kept: list[ChangeDecision]
    full: bool = True

    def git(self, *argv: str) -> str:
        """Run git as a person would."""
        who = ("-c", "user.name=p", "-c", "user.email=p@example.org")
        done = subprocess.run(("git", *who, *argv), cwd=self.repository, capture_output=True, check=True, timeout=60)
        return done.stdout.decode().strip()

    async def patch(self, _intent: AcceptIntent) -> bytes:
        """See :class:`AcceptSources`."""
        return PATCH

    async def insert(self, decision: ChangeDecision, _room: UUID) -> None:
        """See :class:`AcceptSources`; on a full disk it fails."""
        if self.full:
            raise StoreFullError(detail="no room")
        self.kept.append(decision)

    async def judged(self, _ref: str) -> object:
        """Return the change request as it was judged."""
        files = (SimpleNamespace(name="change.patch", sha256=DIGEST),)
        change = SimpleNamespace(id=CHANGE, room_id=ROOM, files=files, patch_sha256=DIGEST)
        return SimpleNamespace(change=change, workspace=None, decision=self.kept[0] if self.kept else None)

    async def intent(self, _judged: object, request: AcceptRequest) -> AcceptIntent:
        """Accept the patch onto a new branch."""
        return AcceptIntent(
            id=request.id,
            change_id=CHANGE,
            room_id=ROOM,
            patch_sha256=DIGEST,
            repository=str(self.repository),
            branch="jam/x",
            base=self.git("rev-parse", "main"),
            allow_moved=False,
            author="A <a@example.org>",
            message="m\n",
            base_tree="0" * 40,
            tree="0" * 40,
            at=datetime(2026, 1, 2, tzinfo=UTC),
        )


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A repository with one commit, and a disk that is full."""
    repository = tmp_path / "repo"
    repository.mkdir()
    options = DaemonOptions(app=tmp_path, runtime=tmp_path, version="0", pid=1, environment={})
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=9)) as store:
        runner = Runner(StoreJournal(store), NoCrash())
        reviews = Reviews(
            options, store=store, feed=cast("Any", None), runner=runner, actions=ActionRegistry(), rooms=cast("Any", None)
        )
        made = World(repository, reviews, [])
        for name in ("patch", "insert"):
            monkeypatch.setattr(reviews._sources, name, getattr(made, name))
        for name in ("judged", "intent"):
            monkeypatch.setattr(reviews, f"_{name}", getattr(made, name))
        made.git("init", "-q", "-b", "main")
        (repository / "a.txt").write_text("one\n")
        made.git("add", ".")
        made.git("commit", "-qm", "one")
        yield made


@pytest.mark.guarantee("WS-11", "WS-10", "RUN-1")
async def test_only_its_repetition_ends_it(world: World) -> None:
    """The branch is where it was put: neither a refusal nor another acceptance is taken, and the exact retry changes nothing of it."""
    request = AcceptRequest(id=FIRST, patch_sha256=DIGEST)
    with pytest.raises(StoreFullError):
        await world.reviews.accept("x", request)
    tip = world.git("rev-parse", "jam/x")
    world.full = False
    with pytest.raises(ConflictError, match="was begun"):
        await world.reviews.reject("x", RejectRequest(id=SECOND, patch_sha256=DIGEST, reason="no"))
    with pytest.raises(ConflictError, match="was begun"):
        await world.reviews.accept("x", request.model_copy(update={"id": SECOND}))
    assert world.kept == []
    decision = await world.reviews.accept("x", request)
    assert (decision.verdict, decision.commit) == (Verdict.ACCEPTED, tip)
    assert world.kept == [decision]
    assert world.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/jam") == f"refs/heads/jam/x {tip}"


@pytest.mark.guarantee("WS-11")
@pytest.mark.parametrize("other", [{"reason": "another"}, {"patch_sha256": "0" * 64}, {"turn_id": UUID(int=7)}])
async def test_another_rejection_under_the_id_of_one_is_refused(world: World, other: dict[str, object]) -> None:
    """Who repeats it in the same words is answered with what was kept; who says something else is not taken to have said that."""
    world.full = False
    request = RejectRequest(id=FIRST, patch_sha256=DIGEST, reason="no")
    decision = await world.reviews.reject("x", request)
    assert await world.reviews.reject("x", request) == decision
    with pytest.raises(ConflictError, match="another rejection"):
        await world.reviews.reject("x", request.model_copy(update=other))
    assert world.kept == [decision]
