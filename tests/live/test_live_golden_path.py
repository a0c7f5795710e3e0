"""Gate: the golden path of a private and of a public repository, from a clone to a branch, and everything cleaned up (LIVE-2, RUN-1)."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from anyio import to_thread

from jamcore.domain import layout
from jamcore.testing.jam_program import Done, program
from jamcore.testing.live_rooms import TURN_S, LiveJam, Words, live_jam

PUBLIC, PRIVATE = "JAM_LIVE_PUBLIC_REPOSITORY", "JAM_LIVE_PRIVATE_REPOSITORY"
"""What git clones with this person's own rights: any URL. Nothing is pushed."""
WORDS = Words("quetzal-7731", "ocelot-2290")

pytestmark = [
    pytest.mark.live("JAM_LIVE_GOLDEN_PATH"),
    pytest.mark.needs("provider:codex", "account:codex", "engine:clone", "git"),
    pytest.mark.anyio,
    pytest.mark.timeout(3600),
]


def git(directory: Path, *words: str) -> str:
    """Run git as this person, who may read the repository; it asks nobody."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(("git", *words), cwd=directory, env=environment, capture_output=True, check=True, timeout=TURN_S)
    return done.stdout.decode(errors="surrogateescape").strip()


async def typed(jam: LiveJam, *words: str) -> Done:
    """Type a command of ``jam`` against this daemon."""
    assert jam.daemon.private is not None
    places = {"XDG_RUNTIME_DIR": str(jam.daemon.private / "run")}
    return await to_thread.run_sync(partial(program, jam.daemon.app, *words, env=places, limit_s=TURN_S))


@pytest.mark.needs("variable:JAM_LIVE_PUBLIC_REPOSITORY")
async def test_a_public_repository(tmp_path: Path) -> None:
    """Anybody may clone it."""
    await golden_path(tmp_path, os.environ[PUBLIC])


@pytest.mark.needs("variable:JAM_LIVE_PRIVATE_REPOSITORY")
async def test_a_private_repository(tmp_path: Path) -> None:
    """Only this person may clone it; the sandbox never learns how, nor where it came from with which rights."""
    await golden_path(tmp_path, os.environ[PRIVATE])


async def golden_path(directory: Path, url: str) -> None:
    """Clone, run, review, accept, stop, clean up: the branch has exactly the reviewed bytes, and nothing of the sandbox is left."""
    checkout = directory / "checkout"
    git(directory, "clone", "--quiet", url, str(checkout))
    head, before = git(checkout, "rev-parse", "HEAD"), git(checkout, "status", "--porcelain")
    async with live_jam(directory, "codex") as jam:
        options = [word for pair in chosen(jam) for word in pair]
        ran = await typed(jam, "run", "codex", WORDS.told, "--repo", str(checkout), *options, "--json")
        assert ran.status == 0, ran
        run = ran.lines[-1]["run"]
        change, room = run["change"], run["room"]
        assert [path["path"] for path in change["paths"]] == ["word.txt"]
        accepted = await typed(
            jam, "change", "accept", change["id"], "--branch", "jam-live", "--author", "Live <live@example.invalid>"
        )
        assert accepted.status == 0, accepted
        assert git(checkout, "show", "jam-live:word.txt") == WORDS.written
        assert git(checkout, "rev-parse", "jam-live^") == head == git(checkout, "rev-parse", "HEAD")
        assert git(checkout, "status", "--porcelain") == before, "the person's own files were touched"
        assert (await typed(jam, "stop", room["room"]["id"])).status == 0
        words = ("host", "cleanup", room["host"]["id"], "--discard-work")
        plan = await typed(jam, *words, "--plan", "--json")
        cleaned = await typed(jam, *words, "--confirm", plan.json["digest"])
        assert cleaned.status == 0, cleaned
        assert (await typed(jam, "resume", room["room"]["id"])).status != 0
        left = [path for root in (layout.HOSTS, layout.OWNERS) for path in (jam.daemon.app / root).rglob("*") if not path.is_dir()]
        assert left == [], left
        assert not (jam.daemon.app / layout.host_root(UUID(room["host"]["id"]))).exists()


def chosen(jam: LiveJam) -> list[tuple[str, str]]:
    """Return the options that say what the environment of this run says."""
    options = (("--engine", jam.place.engine), ("--endpoint", jam.place.endpoint), ("--model", jam.place.model))
    return [(name, value) for name, value in options if value]
