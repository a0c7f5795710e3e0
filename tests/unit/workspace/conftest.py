"""A work tree that an agent can write, Jam's own git view of it, and a person's git beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.system.files import Files
from jamcore.workspace.review import ReviewGit

ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


@pytest.fixture
def git() -> Callable[..., bytes]:
    """Run git as a person would, with all that the repository's own configuration says."""

    def run(directory: Path, *argv: str, check: bool = True) -> bytes:
        return subprocess.run(["git", *argv], cwd=directory, env=ENV, capture_output=True, check=check, timeout=60).stdout

    return run


@pytest.fixture
def tree(tmp_path: Path, git: Callable[..., bytes]) -> Path:
    """A repository with one commit."""
    path = tmp_path / "tree"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    (path / "a.txt").write_text("one\n")
    (path / "b.txt").write_text("two\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "one")
    return path


@pytest.fixture
def review(tmp_path: Path, tree: Path) -> ReviewGit:
    """Jam's view of it; the caller prepares it."""
    return ReviewGit(tmp_path / "review.git", tree, files=Files())


@pytest.fixture
def canary(tmp_path: Path) -> Callable[[], list[str]]:
    """Programs that leave a trace when somebody runs them: ``<tmp>/run-NAME``; call it for the traces."""
    traces = tmp_path / "traces"
    traces.mkdir()
    for name in ("clean", "smudge", "process", "fsmonitor", "textconv", "diff", "hook", "pager", "ssh", "editor", "alias", "merge"):
        program = tmp_path / f"run-{name}"
        program.write_text(f"#!/bin/sh\ntouch '{traces / name}'\ncat 2>/dev/null || true\n")
        program.chmod(0o755)
    return lambda: sorted(path.name for path in traces.iterdir())
