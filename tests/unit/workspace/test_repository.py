"""What a person names as a repository is a primary checkout with a commit, or is refused by type; nothing in it runs (CAP-7, SEC-2)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jamcore.workspace.repository import (
    BareRepositoryError,
    DirtyRepositoryError,
    GitMissingError,
    LinkedWorktreeError,
    NoCommitError,
    NotARepositoryError,
    RepositoryMissingError,
    RepositoryRefusedError,
    SubmoduleError,
    UnreadableRepositoryError,
    inspect_repository,
)

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]

ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example",
}


def git(directory: Path, *argv: str) -> str:
    done = subprocess.run(["git", *argv], cwd=directory, env=ENV, capture_output=True, check=True, timeout=30)
    return done.stdout.decode().strip()


def repository(path: Path) -> Path:
    """Make a repository with one commit on ``main``."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "a.txt").write_text("one\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "one")
    return path


def ordinary_status(path: Path) -> None:
    subprocess.run(["git", "status"], cwd=path, env=ENV, capture_output=True, check=False, timeout=30)


NAMES = ["plain", "with space", "new\nline", "quote'\"$(x)", "-dash", "ünïcödé-日本", "a" * 200, "trailing ", "tab\t"]


@pytest.mark.guarantee("CAP-7")
@pytest.mark.parametrize("name", NAMES)
async def test_a_primary_checkout_is_described_whatever_its_name(tmp_path: Path, name: str) -> None:
    """Top directory, commit, branch; also from a directory inside it, and through a link."""
    path = repository(tmp_path / name)
    facts = await inspect_repository(path)
    assert facts.root == path
    assert facts.commit == git(path, "rev-parse", "HEAD")
    assert (facts.branch, facts.dirty) == ("main", False)
    (path / "deep/er").mkdir(parents=True)
    assert await inspect_repository(path / "deep/er") == facts
    (tmp_path / "link").symlink_to(path)
    assert (await inspect_repository(tmp_path / "link")).root == path
    git(path, "checkout", "-q", "--detach")
    assert (await inspect_repository(path)).branch is None


@pytest.mark.guarantee("CAP-7")
async def test_what_is_no_checkout_is_refused_by_type(tmp_path: Path) -> None:
    """Each by its own error, with its own advice."""
    path = repository(tmp_path / "primary")
    git(path, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    git(tmp_path, "clone", "-q", "--bare", str(path), str(tmp_path / "bare"))
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "file").touch()
    outer = repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(path), "inner")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for place, kind in (
        ("absent", RepositoryMissingError),
        ("file", RepositoryMissingError),
        ("loop", RepositoryMissingError),
        ("nothing", NotARepositoryError),
        ("linked", LinkedWorktreeError),
        ("bare", BareRepositoryError),
        ("primary/.git", BareRepositoryError),
        ("empty", NoCommitError),
        ("outer/inner", SubmoduleError),
    ):
        with pytest.raises(RepositoryRefusedError) as refused:
            await inspect_repository(tmp_path / place, allow_dirty=True)
        assert type(refused.value) is kind, place
        assert refused.value.hint != RepositoryRefusedError.hint


@pytest.mark.guarantee("CAP-7")
@pytest.mark.parametrize("how", ["modified", "untracked", "staged", "deleted"])
async def test_uncommitted_work_is_refused_unless_it_may_stay_behind(tmp_path: Path, how: str) -> None:
    """A clone would not hold it, so a person must say that this is fine."""
    path = repository(tmp_path / "r")
    if how == "deleted":
        (path / "a.txt").unlink()
    else:
        (path / ("a.txt" if how == "modified" else "new\x1b[31m.txt")).write_text("two\n")
    if how == "staged":
        git(path, "add", ".")
    with pytest.raises(DirtyRepositoryError) as refused:
        await inspect_repository(path)
    assert "\x1b" not in refused.value.detail
    assert (await inspect_repository(path, allow_dirty=True)).dirty


async def test_many_changes_are_counted(tmp_path: Path) -> None:
    """A few names and how many more."""
    path = repository(tmp_path / "r")
    for number in range(20):
        (path / f"n{number:02}").touch()
    with pytest.raises(DirtyRepositoryError) as refused:
        await inspect_repository(path)
    assert refused.value.detail == "n00, n01, n02, n03, n04 and 15 more"


async def test_ignored_files_are_no_changes(tmp_path: Path) -> None:
    """The repository's own rules hold."""
    path = repository(tmp_path / "r")
    (path / ".gitignore").write_text("build/\n")
    git(path, "add", ".gitignore")
    git(path, "commit", "-q", "-m", "ignore")
    (path / "build").mkdir()
    (path / "build/x").touch()
    assert not (await inspect_repository(path)).dirty


@pytest.mark.guarantee("SEC-2")
async def test_nothing_that_a_repository_names_is_executed(tmp_path: Path) -> None:
    """Filters, hooks, monitors, pagers, editors, helpers: each would leave a trace, and none does."""
    path = repository(tmp_path / "r")
    trace = tmp_path / "trace"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {trace}\ncat\n')
    program.chmod(0o755)
    (path / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\nb filter=e=v.il\n")
    git(path, "add", ".gitattributes")
    git(path, "commit", "-q", "-m", "attributes")
    for key in (
        "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "filter.e=v.il.clean", "diff.evil.textconv", "diff.evil.command",
        "diff.external", "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "credential.helper", "gpg.program",
        "uploadpack.packObjectsHook",
    ):  # fmt: skip
        git(path, "config", key, str(program))
    git(path, "config", "filter.evil.required", "true")
    hooks = path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "pre-commit", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (hooks / name).write_text(program.read_text())
        (hooks / name).chmod(0o755)
    (path / "a.txt").write_text("changed, so that a filter would be asked\n")
    (path / "b").write_text("new\n")
    before = (path / ".git/index").read_bytes()
    assert (await inspect_repository(path, allow_dirty=True)).dirty
    assert not trace.exists()
    assert (path / ".git/index").read_bytes() == before
    ordinary_status(path)
    assert trace.exists(), "the control: an ordinary git does run them"


async def test_a_tree_that_a_setting_moved_elsewhere_is_refused(tmp_path: Path) -> None:
    """``core.worktree`` would make git speak of another directory."""
    path = repository(tmp_path / "r")
    (tmp_path / "elsewhere").mkdir()
    git(path, "config", "core.worktree", str(tmp_path / "elsewhere"))
    with pytest.raises(RepositoryRefusedError):
        await inspect_repository(path, allow_dirty=True)


async def test_a_damaged_repository_is_a_fault_and_not_none(tmp_path: Path) -> None:
    """Git cannot say: that is not the same as no repository."""
    path = repository(tmp_path / "r")
    (path / ".git/config").write_text("[core\n")
    with pytest.raises(UnreadableRepositoryError):
        await inspect_repository(path)


async def test_a_path_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """It could not be recorded exactly."""
    path = repository(Path(os.fsdecode(bytes(tmp_path) + b"/\xff\xfe")))
    with pytest.raises(RepositoryRefusedError, match="not valid UTF-8"):
        await inspect_repository(path)


async def test_a_machine_without_git_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is what is missing, not the repository."""

    async def nobody(*_argv: object, **_options: object) -> object:
        raise FileNotFoundError(2, "No such file or directory", "git")

    monkeypatch.setattr("jamcore.workspace.repository.run_git", nobody)
    with pytest.raises(GitMissingError):
        await inspect_repository(tmp_path)
