"""Every kind of work that lies nowhere else is seen and stands against the removal; a clean tree has nothing against it (WS-16, OWN-9)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jamcore.domain.removal import Listing, RemovalReason, RepositoryForm
from tests.unit.workspace.inspection.places import GUEST, Git, Workspace, at, blocked, commit_on, times

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]

R = RemovalReason


@pytest.mark.guarantee("WS-16", "OWN-9")
async def test_a_clean_checkout_has_nothing_against_it(workspace: Workspace, checkout: Path, git: Git) -> None:
    """What is ignored is counted; nothing is changed or left behind, and a second look says the same."""
    (checkout / "ignored").write_text("built")
    (checkout / "empty").mkdir()
    before = times(workspace.path)
    found = await workspace.look()
    assert (found.blockers, found.bounds) == ((), ())
    state = at(found, "repo")
    assert (state.form, state.branch, state.problems, state.ignored) == (RepositoryForm.CHECKOUT, "main", (), 1)
    assert state.head == git(checkout, "rev-parse", "HEAD").decode().strip()
    assert (found.losses.ignored, found.losses.files, found.losses.uncommitted) == (1, 4, 0)
    assert times(workspace.path) == before
    assert (await workspace.look()).digest == found.digest


@pytest.mark.guarantee("WS-16", "OWN-9")
async def test_every_kind_of_work_is_named(workspace: Workspace, checkout: Path, git: Git) -> None:
    """Stashed, committed, staged, changed, deleted, untracked, in no repository; each blocker may be forced, and says what it is about."""
    (checkout / "a.txt").write_text("for the stash\n")
    git(checkout, "stash", "push", "-q", "-m", "later")
    commit_on(git, checkout, "mine")
    git(checkout, "branch", "side")
    (checkout / "staged").write_text("x")
    git(checkout, "add", "staged")
    (checkout / "staged").unlink()
    (checkout / "a.txt").write_text("changed\n")
    (checkout / "b.txt").unlink()
    (checkout / "new").write_text("x")
    (checkout / ".git" / "HEAD.lock").touch()
    (checkout / "build.lock").write_text("4711\n")
    (workspace.path / "notes").write_text("four")
    os.utime(workspace.path / "notes", ns=(10**18, 10**18))
    found = await workspace.look()
    kinds = (R.UNCOMMITTED, R.UNTRACKED, R.STASHED, R.UNPUSHED, R.LOCKED)
    assert blocked(found) == {(kind, "repo") for kind in kinds} | {(R.OUTSIDE, ".")}
    assert all(blocker.may_be_forced for blocker in found.blockers)
    state = at(found, "repo")
    assert state.staged == Listing(count=1, first=("staged",))
    assert state.unstaged == Listing(count=3, first=("a.txt", "b.txt", "staged"))
    assert state.untracked == Listing(count=2, first=("build.lock", "new"))
    assert state.stashes == Listing(count=1, first=("On main: later",))
    assert (state.unpushed.count, state.unpushed.first[0][12:]) == (1, " made mine")
    assert state.without_upstream == Listing(count=1, first=("side",))
    assert state.locks == Listing(count=2, first=("repo/.git/HEAD.lock", "build.lock"))
    outside = found.outside
    assert (outside.files, outside.bytes) == (Listing(count=1, first=("notes",)), 4)
    assert outside.newest == datetime.fromtimestamp(10**9, UTC)
    assert (found.losses.uncommitted, found.losses.untracked, found.losses.stashes, found.losses.unpushed) == (4, 2, 1, 1)


@pytest.mark.guarantee("WS-16")
async def test_old_and_large_files_are_no_locks(workspace: Workspace, checkout: Path) -> None:
    """A list of dependencies, or a lock that was forgotten, is a file like another; git's own lock is one at any age."""
    (workspace.path / "fresh.lock").touch()
    (workspace.path / "list.lock").write_text("x" * 100)
    assert (await workspace.look()).outside.locks == Listing(count=1, first=("fresh.lock",))
    (checkout / ".git" / "index.lock").touch()
    workspace.age()
    found = await workspace.look()
    assert (found.outside.locks, at(found, "repo").locks.first) == (Listing(), ("repo/.git/index.lock",))


@pytest.mark.guarantee("WS-16")
async def test_commits_that_only_tags_or_logs_hold_are_counted_and_block_nothing(
    workspace: Workspace, checkout: Path, git: Git
) -> None:
    """A remote's tags and amended commits are in every checkout; a detached HEAD is work."""
    commit_on(git, checkout, "tagged")
    git(checkout, "tag", "v2")
    git(checkout, "reset", "-q", "--hard", "HEAD~")
    found = await workspace.look()
    assert (found.blockers, found.losses.tagged, found.losses.forgotten) == ((), 1, 0)
    git(checkout, "tag", "-d", "v2")
    found = await workspace.look()
    assert (found.blockers, found.losses.tagged, found.losses.forgotten) == ((), 0, 1)
    git(checkout, "checkout", "-q", "--detach")
    lost = commit_on(git, checkout, "detached")
    found = await workspace.look()
    assert (blocked(found), at(found, "repo").branch) == ({(R.UNPUSHED, "repo")}, None)
    assert (await workspace.look(kept=(lost, "0" * 40))).blockers == (), "the caller knows better"


@pytest.mark.guarantee("WS-16")
async def test_unfinished_operations_are_named(workspace: Workspace, checkout: Path, git: Git) -> None:
    """A merge that stopped at a conflict; a bisection in a linked worktree."""
    git(checkout, "checkout", "-q", "-b", "side")
    (checkout / "a.txt").write_text("side\n")
    git(checkout, "commit", "-qam", "side")
    git(checkout, "checkout", "-q", "main")
    (checkout / "a.txt").write_text("main\n")
    git(checkout, "commit", "-qam", "main")
    git(checkout, "merge", "-q", "side", check=False)
    git(checkout, "worktree", "add", "-q", "--detach", str(workspace.path / "linked"))
    git(workspace.path / "linked", "bisect", "start")
    found = await workspace.look()
    assert (at(found, "repo").unfinished, at(found, "linked").unfinished) == (("merge",), ("bisect",))
    assert {(R.UNFINISHED, "repo"), (R.UNFINISHED, "linked"), (R.UNCOMMITTED, "repo")} <= blocked(found)
    assert at(found, "repo").unstaged.first == ("a.txt",)


@pytest.mark.guarantee("WS-16")
async def test_every_repository_in_the_tree_is_looked_at(workspace: Workspace, checkout: Path, tree: Path, git: Git) -> None:
    """Nested, bare, linked worktrees by the guest's paths, submodules, one without any commit; files belong to the innermost one."""
    allowed = ("-c", "protocol.file.allow=always")
    git(checkout, *allowed, "submodule", "--quiet", "add", str(tree), "sub")
    git(checkout, "commit", "-q", "-m", "with a submodule")
    git(checkout, "worktree", "add", "-q", "-b", "other", str(workspace.path / "linked"))
    for pointer in (workspace.path / "linked" / ".git", checkout / ".git" / "worktrees" / "linked" / "gitdir"):
        pointer.write_text(pointer.read_text().replace(str(workspace.path), GUEST))
    (workspace.path / "linked" / "in linked").write_text("x")
    git(workspace.path, "init", "-q", "repo/nested")
    (checkout / "nested" / "in nested").write_text("x")
    git(workspace.path, "clone", "-q", "--bare", str(tree), "bare.git")
    found = await workspace.look()
    forms = {state.path: state.form for state in found.repositories}
    form = RepositoryForm
    assert forms == {
        "bare.git": form.BARE,
        "linked": form.WORKTREE,
        "repo": form.CHECKOUT,
        "repo/nested": form.CHECKOUT,
        "repo/sub": form.SUBMODULE,
    }
    assert {path for reason, path in blocked(found) if reason is R.UNTRACKED} == {"linked", "repo/nested"}
    assert at(found, "linked").untracked.first == ("in linked",)
    assert at(found, "repo").worktrees.first == ("linked",)
    assert (at(found, "repo/nested").branch, at(found, "repo/nested").head) == ("master", None)
    assert not [state for state in found.repositories if state.problems]
    assert (R.UNCOMMITTED, "repo") not in blocked(found)
    commit_on(git, checkout / "sub", "in the submodule")
    found = await workspace.look()
    assert at(found, "repo").unstaged == Listing(count=1, first=("sub",))
    assert (R.UNPUSHED, "repo/sub") in blocked(found)


@pytest.mark.guarantee("WS-16")
async def test_a_linked_worktree_elsewhere_is_unknown_and_one_that_is_gone_keeps_its_index(
    workspace: Workspace, checkout: Path, git: Git, tmp_path: Path
) -> None:
    """Its files are not in the tree, but it would not live without it. Of one that was deleted, what was staged is left."""
    elsewhere, gone = tmp_path / "elsewhere", workspace.path / "gone"
    for path in (elsewhere, gone):
        git(checkout, "worktree", "add", "-q", "--detach", str(path))
    (gone / "new").write_text("x")
    git(gone, "add", "new")
    gone.rename(tmp_path / "moved away")
    found = await workspace.look()
    assert at(found, "repo/.git/worktrees/elsewhere").problems == ("a linked worktree that lies outside the tree",)
    assert at(found, "repo/.git/worktrees/gone").staged.first == ("new",)
    outside = git(elsewhere, "rev-parse", "HEAD").decode().strip()
    assert outside
    (workspace.path / "stray").mkdir()
    (workspace.path / "stray" / ".git").write_text(f"gitdir: {tmp_path / 'tree' / '.git'}\n")
    found = await workspace.look()
    assert (R.UNREADABLE, "stray") in blocked(found)
    assert at(found, "stray").head is None, "nothing outside is read"


@pytest.mark.guarantee("WS-16")
async def test_no_flag_of_the_index_hides_a_change(workspace: Workspace, checkout: Path, git: Git) -> None:
    """Assumed unchanged, skipped, with its old time and size; but a file that a sparse checkout leaves out is no deletion."""
    before = (checkout / "a.txt").stat()
    git(checkout, "update-index", "--assume-unchanged", "a.txt")
    (checkout / "a.txt").write_text("eno\n")
    os.utime(checkout / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    git(checkout, "update-index", "--skip-worktree", "b.txt")
    (checkout / "b.txt").write_text("changed\n")
    assert at(await workspace.look(), "repo").unstaged.first == ("a.txt", "b.txt")
    (checkout / "b.txt").unlink()
    assert at(await workspace.look(), "repo").unstaged.first == ("a.txt",)


@pytest.mark.guarantee("WS-16")
async def test_files_that_git_converts_are_no_work(workspace: Workspace, checkout: Path, git: Git) -> None:
    """By a rule of the tree, or by the repository's configuration; a real change among them is one."""
    (checkout / ".gitattributes").write_text("*.crlf text eol=crlf\n")
    (checkout / "x.crlf").write_bytes(b"one\r\ntwo\r\n")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "converted")
    git(checkout, "config", "core.autocrlf", "true")
    (checkout / "a.txt").write_bytes(b"one\r\n")
    assert at(await workspace.look(), "repo").unstaged == Listing()
    (checkout / "x.crlf").write_bytes(b"one\r\n")
    assert at(await workspace.look(), "repo").unstaged.first == ("x.crlf",)


@pytest.mark.guarantee("WS-16")
async def test_shallow_clones_and_long_ids(workspace: Workspace, tree: Path, git: Git) -> None:
    """A history that was cut off has nothing of its own; ids of 64 digits are understood."""
    commit_on(git, tree, "second")
    git(workspace.path, "clone", "-q", "--depth", "1", tree.as_uri(), "shallow")
    git(workspace.path, "init", "-q", "--object-format=sha256", "long")
    found = await workspace.look()
    assert found.blockers == ()
    commit_on(git, workspace.path / "long", "first")
    (workspace.path / "long" / "new").write_text("x")
    found = await workspace.look()
    assert blocked(found) == {(R.UNPUSHED, "long"), (R.UNTRACKED, "long")}


@pytest.mark.guarantee("WS-16")
async def test_forms_of_an_index_and_places_of_a_git_directory(workspace: Workspace, tree: Path, git: Git) -> None:
    """Compressed, with whole directories left out, divided in two files; a git directory beside its checkout; a tag of a file."""
    (tree / "left out").mkdir()
    commit_on(git, tree, "left out/file")
    for form in ("compressed", "sparse", "split"):
        git(workspace.path, "clone", "-q", str(tree), form)
        (workspace.path / form / "a.txt").write_text("changed\n")
    git(workspace.path / "compressed", "update-index", "--index-version", "4")
    git(workspace.path / "split", "update-index", "--split-index")
    git(workspace.path / "sparse", "sparse-checkout", "set", "--sparse-index", "no-such-directory")
    git(workspace.path, "clone", "-q", "--separate-git-dir", str(workspace.path / "beside.git"), str(tree), "separate")
    git(workspace.path / "separate", "tag", "file", git(tree, "rev-parse", "HEAD:a.txt").decode().strip())
    assert not (workspace.path / "sparse" / "left out").exists()
    found = await workspace.look()
    for form in ("compressed", "sparse"):
        assert at(found, form).unstaged.first == ("a.txt",)
    assert (at(found, "separate").form, at(found, "separate").problems) == (RepositoryForm.CHECKOUT, ())
    unclear = {state.path for state in found.repositories if state.problems}
    assert unclear == {"split"}, "its entries lie in a second file, which is not taken over"


@pytest.mark.guarantee("WS-16")
async def test_before_the_first_commit(workspace: Workspace, git: Git) -> None:
    """What is staged is work; a log that names nothing that is there is none."""
    git(workspace.path, "init", "-q", "new")
    (workspace.path / "new" / "first").write_text("x")
    git(workspace.path / "new", "add", "first")
    (workspace.path / "new" / ".git" / "logs").mkdir(exist_ok=True)
    (workspace.path / "new" / ".git" / "logs" / "HEAD").write_text(f"{'0' * 40} {'1' * 40} a <a@x> 1 +0000\tcommit: gone\n")
    found = await workspace.look()
    assert blocked(found) == {(R.UNCOMMITTED, "new")}
    assert (at(found, "new").staged.first, found.losses.forgotten) == (("first",), 0)


@pytest.mark.guarantee("WS-16")
async def test_the_digest_is_fresh_evidence(workspace: Workspace, checkout: Path, git: Git) -> None:
    """A change that alters no count shows all the same; and nothing else does."""
    (checkout / "new").write_text("x")
    seen = await workspace.look()
    assert (await workspace.look()).digest == seen.digest
    (checkout / "new").write_text("longer")
    now = await workspace.look()
    assert (blocked(now), now.digest == seen.digest) == (blocked(seen), False)
    git(checkout, "tag", "another")
    assert (await workspace.look()).digest != now.digest


@pytest.mark.guarantee("WS-16")
async def test_a_file_with_several_names_takes_its_bytes_once(workspace: Workspace) -> None:
    """What is printed as bytes that go is what goes: each name is counted, and the content once."""
    (workspace.path / "a").write_bytes(b"x" * 1000)
    (workspace.path / "b").hardlink_to(workspace.path / "a")
    (workspace.path / "c").write_bytes(b"y" * 24)
    found = await workspace.look()
    assert (found.losses.files, found.losses.bytes) == (3, 1024)
