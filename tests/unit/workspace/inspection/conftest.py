"""A session's work tree with a checkout of a remote in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.workspace.inspection.places import Git, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty work tree; its path has what a list of paths would stumble over."""
    path, scratch = tmp_path / 'host: "x"' / "work", tmp_path / "scratch"
    path.mkdir(parents=True)
    scratch.mkdir(mode=0o700)
    return Workspace(path, scratch)


@pytest.fixture
def checkout(workspace: Workspace, tree: Path, git: Git) -> Path:
    """A clone of a repository in the work tree, with everything pushed."""
    (tree / ".gitignore").write_text("ignored*\n")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "rules")
    git(tree, "tag", "v1")
    path = workspace.path / "repo"
    git(workspace.path, "clone", "-q", str(tree), "repo")
    return path
