"""Private clones, where an engine makes them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import CloneSource, EngineFailedError, SandboxGoneError, SandboxSpec
from jamcore.engines.port import Clones, Engine
from jamcore.testing.engines.base import EngineTests
from jamcore.testing.engines.checks import Topic, check


class CloneTests(EngineTests):
    """CLONE."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> tuple[Path, str]:
        """A primary checkout with history, a tag, and everything that would run a program if git let it."""
        root = tmp_path / "checkout"
        root.mkdir()
        trap = tmp_path / "ran"
        _git(root, "init", "-q", "-b", "main")
        (root / "a.txt").write_text("one\n")
        (root / ".gitattributes").write_text("*.txt filter=evil\n")
        _git(root, "add", ".")
        _git(root, "commit", "-q", "-m", "one")
        _git(root, "tag", "v1")
        (root / "a.txt").write_text("two\n")
        _git(root, "commit", "-q", "-a", "-m", "two")
        commit = _git(root, "rev-parse", "HEAD")
        for name in ("post-checkout", "post-merge", "reference-transaction"):
            hook = root / ".git/hooks" / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
            hook.chmod(0o755)
        for key in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "uploadpack.packObjectsHook", "core.sshCommand"):
            _git(root, "config", key, f"touch {trap}; cat")
        return root, commit

    @pytest.mark.needs("git")
    @pytest.mark.guarantee("CAP-7", "SEC-2")
    @check(
        Topic.CLONE,
        "A clone that runs a hook runs the repository's code on the host; one that shares objects lets an agent damage its source.",
        Ability.CLONE,
    )
    async def test_a_clone_is_whole_private_and_ran_nothing(
        self, engine: Engine, spec: SandboxSpec, checkout: tuple[Path, str], tmp_path: Path
    ) -> None:
        """The commit's files and history on a branch of its own; no hook or filter ran; nothing names a host path; edits stay inside."""
        assert isinstance(engine, Clones)
        root, commit = checkout
        source = CloneSource(host_path=str(root), commit=commit, guest_path=self.clone_place(spec))
        wanted = spec.model_copy(update={"clone": source})
        await engine.create(wanted)
        box = self.box_of(engine, wanted)
        clone = source.guest_path
        looks = (
            "cat a.txt",
            "git rev-parse HEAD",
            "git branch --show-current",
            "git log --oneline | wc -l",
            "git remote",
            "git status -s",
        )
        script = "; ".join((f"cd {clone}", *looks))
        assert (await box.run("sh", "-c", script)).text.split() == ["two", commit, "jam", "2"]
        found = await box.run("sh", "-c", f"grep -rl '{root if self.host_paths else tmp_path}' {clone}")
        assert found.text == ""
        assert not (tmp_path / "ran").exists()
        assert (await box.run("sh", "-c", f"cd {clone}; echo three > a.txt; git gc -q --prune=now && git fsck")).status.ok
        assert (root / "a.txt").read_text() == "two\n"
        assert _git(root, "status", "--porcelain") == ""
        assert await engine.inspect_clone(spec.name) == source

    @pytest.mark.needs("git")
    @check(Topic.CLONE, "A clone made again on a start is an agent's work overwritten.", Ability.CLONE)
    async def test_a_clone_is_made_once_and_outlives_stop_and_start(
        self, engine: Engine, spec: SandboxSpec, checkout: tuple[Path, str]
    ) -> None:
        """Work in the clone is never overwritten."""
        root, commit = checkout
        wanted = spec.model_copy(
            update={"clone": CloneSource(host_path=str(root), commit=commit, guest_path=self.clone_place(spec))}
        )
        await engine.create(wanted)
        box = self.box_of(engine, wanted)
        file = f"{self.clone_place(spec)}/a.txt"
        await box.run("sh", "-c", f"echo mine > {file}")
        await engine.stop(spec.name)
        await engine.start(spec.name)
        assert (await box.run("cat", file)).text == "mine"

    @pytest.mark.needs("git")
    @check(Topic.CLONE, "Half a clone under the final name is taken for a whole one by the next try.", Ability.CLONE)
    async def test_a_commit_that_is_not_there_leaves_nothing(
        self, engine: Engine, spec: SandboxSpec, checkout: tuple[Path, str]
    ) -> None:
        """A typed error, no sandbox and no half clone."""
        source = CloneSource(host_path=str(checkout[0]), commit="1" * 40, guest_path=self.clone_place(spec))
        with pytest.raises(EngineFailedError):
            await engine.create(spec.model_copy(update={"clone": source}))
        assert await engine.inventory() == ()
        assert not list(Path(spec.guest_disk).rglob("a.txt"))
        await engine.create(spec)
        assert isinstance(engine, Clones)
        with pytest.raises(SandboxGoneError):
            await engine.inspect_clone(spec.name)


def _git(root: Path, *argv: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.invalid",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.invalid",
    }
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1", **identity}
    done = subprocess.run(
        (shutil.which("git") or "git", *argv), cwd=root, env=environment, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()
