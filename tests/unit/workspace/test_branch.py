"""A patch becomes a commit on a branch of a person's repository, and nothing else of it is touched (SEC-2, RUN-1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jamcore.workspace.branch import (
    NOBODY,
    AuthorInvalidError,
    BaseMissingError,
    BranchCheckedOutError,
    Branches,
    BranchMovedError,
    BranchNameError,
    PatchDoesNotApplyError,
)
from jamcore.workspace.repository import UnreadableRepositoryError

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged, pytest.mark.guarantee("RUN-1", "SEC-2")]

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WHO = "A Person <person@example.org>"
PATCH = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+ONE\n"

Git = Callable[..., bytes]


@pytest.fixture
def branches(tree: Path, tmp_path: Path) -> Branches:
    """The branches of the repository."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Branches(tree, scratch=scratch)


def head(git: Git, tree: Path, name: str = "HEAD") -> str:
    """Return the commit of a name."""
    return git(tree, "rev-parse", name).decode().strip()


async def accept(branches: Branches, branch: str, base: str | None, *, patch: bytes = PATCH, allow_moved: bool = False) -> str:
    """Do all that accepting does to a repository."""
    target = await branches.target(branch, base, allow_moved=allow_moved)
    commit, _ = await branches.commit(target, patch, branch=branch, message="why\n", author=WHO, at=AT)
    await branches.point(branch, commit, old=target.old, author=WHO, why="because")
    return commit


def everything(tree: Path) -> dict[str, tuple[int, bytes]]:
    """Return the work tree and the person's index, byte for byte."""
    files = [path for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in (*files, tree / ".git" / "index")}


async def test_a_new_branch_holds_exactly_the_patch(branches: Branches, tree: Path, git: Git) -> None:
    """One commit on the reviewed one, by its author; the work tree, the index, HEAD and the other branch are as they were."""
    base, before = head(git, tree), everything(tree)
    (tree / "untracked").write_text("mine")
    commit = await accept(branches, "jam/x", base)
    (tree / "untracked").unlink()
    assert everything(tree) == before
    assert head(git, tree) == head(git, tree, "main") == base
    assert git(tree, "log", "--format=%H %P %an %ae %cn %at %s", "-1", "jam/x").decode() == (
        f"{commit} {base} A Person person@example.org A Person {int(AT.timestamp())} why\n"
    )
    assert git(tree, "show", "jam/x:a.txt") == b"ONE\n"
    assert git(tree, "diff", "--name-only", base, "jam/x") == b"a.txt\n"
    assert b"because" in git(tree, "reflog", "jam/x")
    git(tree, "fsck", "--strict")


async def test_the_same_again_is_the_same_commit(branches: Branches, tree: Path, git: Git) -> None:
    """What a restart makes again is what was made, so it can be recognised on the branch."""
    target = await branches.target("x", head(git, tree), allow_moved=False)
    made = [await branches.commit(target, PATCH, branch="x", message="m", author=WHO, at=AT) for _ in range(2)]
    assert made[0] == made[1]


async def test_a_branch_that_moved_is_said_with_how_far(branches: Branches, tree: Path, git: Git) -> None:
    """The reviewed commit, the one that is there, and how many are new; with leave the patch goes on top of it."""
    base = head(git, tree)
    git(tree, "checkout", "-q", "-b", "moved")
    (tree / "b.txt").write_text("three\n")
    git(tree, "commit", "-qam", "two")
    tip = head(git, tree)
    git(tree, "checkout", "-q", "main")
    with pytest.raises(BranchMovedError) as refused:
        await accept(branches, "moved", base)
    assert (refused.value.reviewed, refused.value.now, refused.value.new_commits) == (base, tip, "1")
    assert head(git, tree, "moved") == tip
    commit = await accept(branches, "moved", base, allow_moved=True)
    assert git(tree, "log", "--format=%P", "-1", commit).decode().strip() == tip
    assert git(tree, "show", "moved:a.txt", "moved:b.txt") == b"ONE\nthree\n"


async def test_a_branch_that_moves_meanwhile_is_left_alone(branches: Branches, tree: Path, git: Git) -> None:
    """Between the look and the move somebody commits, makes or deletes it: theirs stays."""
    base = head(git, tree)
    git(tree, "branch", "theirs")
    target = await branches.target("theirs", base, allow_moved=False)
    commit, _ = await branches.commit(target, PATCH, branch="theirs", message="m", author=WHO, at=AT)
    other = git(tree, "commit-tree", f"{base}^{{tree}}", "-p", base, "-m", "other").decode().strip()
    git(tree, "update-ref", "refs/heads/theirs", other)
    for old in (target.old, ""):
        with pytest.raises(BranchMovedError):
            await branches.point("theirs", commit, old=old, author=WHO, why="w")
    git(tree, "branch", "-D", "theirs")
    with pytest.raises(BranchMovedError):
        await branches.point("theirs", commit, old=target.old, author=WHO, why="w")
    assert await branches.tip("theirs") is None


async def test_a_branch_that_is_checked_out_is_refused(branches: Branches, tree: Path, tmp_path: Path, git: Git) -> None:
    """In the primary checkout and in a linked worktree, with the place named."""
    base = head(git, tree)
    git(tree, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked\nplace"))
    for branch, place in (("main", tree), ("linked", tmp_path / "linked\nplace")):
        with pytest.raises(BranchCheckedOutError) as refused:
            await accept(branches, branch, base)
        assert refused.value.checkout == str(place)
    assert head(git, tree, "main") == head(git, tree, "linked") == base


@pytest.mark.parametrize(
    "branch",
    ["-d", "a..b", "a b", "x.lock", "", "/", "a\x01", "@{-1}", "x/", "~1", "a:b", "HEAD", "refs/heads/x", "a\0b", "a\u202eb"],
)
async def test_names_that_git_refuses(branches: Branches, tree: Path, git: Git, branch: str) -> None:
    """By type, and nothing is made: a branch HEAD would make every later word HEAD of that repository mean two things."""
    with pytest.raises(BranchNameError):
        await accept(branches, branch, head(git, tree))
    assert git(tree, "for-each-ref", "--format=%(refname)") == b"refs/heads/main\n"


async def test_a_patch_that_does_not_fit_changes_nothing(branches: Branches, tree: Path, git: Git) -> None:
    """Other lines, a file that is not there, or no patch at all."""
    for patch in (PATCH.replace(b"-one", b"-two"), PATCH.replace(b"a.txt", b"none.txt"), b"no patch\n"):
        with pytest.raises(PatchDoesNotApplyError):
            await accept(branches, "x", head(git, tree), patch=patch)
    assert await branches.tip("x") is None


@pytest.mark.parametrize("name", ["../out", ".git/hooks/post-commit", "/etc/x", "sub/../../out", ".GIT/config"])
async def test_a_hostile_path_leaves_the_repository_alone(
    branches: Branches, tree: Path, tmp_path: Path, git: Git, name: str
) -> None:
    """Git refuses to leave the tree or to enter its own directory; nothing appears anywhere."""
    before = sorted(str(path) for path in tmp_path.rglob("*") if "objects" not in path.parts)
    patch = f"diff --git a/{name} b/{name}\nnew file mode 100755\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n".encode()
    with pytest.raises(PatchDoesNotApplyError):
        await accept(branches, "x", head(git, tree), patch=patch)
    assert sorted(str(path) for path in tmp_path.rglob("*") if "objects" not in path.parts) == before
    assert await branches.tip("x") is None


async def test_nothing_of_the_repository_is_executed(
    branches: Branches, tree: Path, tmp_path: Path, git: Git, canary: Callable[[], list[str]]
) -> None:
    """Hooks for references and commits, filters, a monitor, signing: configured, and silent."""
    base = head(git, tree)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("reference-transaction", "post-commit", "pre-commit", "commit-msg", "applypatch-msg", "post-index-change"):
        (hooks / hook).symlink_to(tmp_path / "run-hook")
    settings = {
        "core.hooksPath": str(hooks),
        "core.fsmonitor": str(tmp_path / "run-fsmonitor"),
        "filter.x.clean": str(tmp_path / "run-clean"),
        "filter.x.smudge": str(tmp_path / "run-smudge"),
        "commit.gpgSign": "true",
        "gpg.program": str(tmp_path / "run-editor"),
        "core.pager": str(tmp_path / "run-pager"),
    }
    for key, value in settings.items():
        git(tree, "config", key, value)
    (tree / ".gitattributes").write_text("* filter=x\n")
    assert await accept(branches, "x", base)
    assert canary() == []
    git(tree, "update-ref", "refs/heads/control", base)
    assert canary() == ["hook"]  # the control: as configured, a hook does run


async def test_a_base_that_is_elsewhere_is_named(branches: Branches) -> None:
    """Another repository than the session's: its commit is not there."""
    with pytest.raises(BaseMissingError):
        await branches.target("x", "1" * 40, allow_moved=True)


async def test_who_is_named(branches: Branches, tree: Path, git: Git) -> None:
    """The repository's own settings, or Jam; what git could not store is refused."""
    assert await branches.author() == NOBODY
    git(tree, "config", "user.name", "Zoë")
    git(tree, "config", "user.email", "z@example.org")
    assert await branches.author() == "Zoë <z@example.org>"
    target = await branches.target("x", head(git, tree), allow_moved=False)
    for author in ("nobody", "a <b> <c>", "a\nb <c>", "<c>", "a <>"):
        with pytest.raises(AuthorInvalidError):
            await branches.commit(target, PATCH, branch="x", message="m", author=author, at=AT)


async def test_a_repository_that_cannot_be_written_is_no_fault_of_the_patch(branches: Branches, tree: Path, git: Git) -> None:
    """A full disk or a lack of rights, here a file where git keeps objects: said in git's words, and the patch is not blamed."""
    (tree / "probe").write_bytes(b"ONE\n")
    name = git(tree, "hash-object", "probe").decode().strip()
    (tree / ".git" / "objects" / name[:2]).write_bytes(b"")
    with pytest.raises(UnreadableRepositoryError) as refused:
        await accept(branches, "x", head(git, tree))
    assert refused.value.question == "apply"
    assert await branches.tip("x") is None
