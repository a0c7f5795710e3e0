"""What cannot be said, bounds, and processes stand against a removal; force reaches what it names and no further (WS-16)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jamcore.domain.removal import (
    NEVER_FORCED,
    RemovalBlockedError,
    RemovalEvidenceChangedError,
    RemovalOverride,
    RemovalReason,
    require_removable,
)
from jamcore.domain.sandboxes import EngineUnknownError
from jamcore.system.files import StorageFullError
from jamcore.workspace.inspection.inspect import TreeUser
from jamcore.workspace.inspection.shown import CHARACTERS, shown
from jamcore.workspace.inspection.survey import InspectionBounds
from tests.unit.workspace.inspection.places import Git, Workspace, at, blocked

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]

R = RemovalReason


@pytest.mark.guarantee("WS-16")
async def test_a_tree_that_is_not_there_is_never_empty(workspace: Workspace, tmp_path: Path) -> None:
    """Absent, or a file: nothing was looked at, and no word overrides that."""
    workspace.path.rmdir()
    for _ in range(2):
        found = await workspace.look()
        assert blocked(found) == {(R.NO_TREE, ".")}
        assert found.standing((RemovalOverride(reason=R.NO_TREE, path="."),)) == found.blockers
        workspace.path.write_text("a file")


@pytest.mark.guarantee("WS-16")
async def test_processes_block_and_so_does_not_knowing(workspace: Workspace) -> None:
    """Who works in the tree is named; an engine that cannot say never means that nobody does."""
    workspace.users.answer = (TreeUser(pid=7, program=b"make\x1b", path=b"src"), TreeUser(pid=3, program=b"sh", path=b""))
    found = await workspace.look()
    assert [(b.reason, b.detail) for b in found.blockers] == [(R.IN_USE, r"2 processes: sh (3) at ., make\u001b (7) at src")]
    for error in (EngineUnknownError(engine="e", operation="users", detail="x"), PermissionError()):
        workspace.users.error = error
        found = await workspace.look()
        assert blocked(found) == {(R.USE_UNKNOWN, ".")}
        assert found.standing((RemovalOverride(reason=R.USE_UNKNOWN, path="."),)) == found.blockers


@pytest.mark.guarantee("WS-16")
async def test_time_is_a_bound_and_its_evidence_can_be_confirmed(workspace: Workspace, checkout: Path) -> None:
    """What was found until then is not said, since it differs each time; that nobody answered about processes is not forgotten."""
    workspace.users.silent = True
    found = [await workspace.look(InspectionBounds(seconds=0)) for _ in range(2)]
    assert blocked(found[0]) == {(R.NOT_WHOLE, "."), (R.USE_UNKNOWN, ".")}
    assert found[0].digest == found[1].digest


@pytest.mark.guarantee("WS-16")
async def test_a_machine_that_fails_says_nothing_of_the_tree(
    workspace: Workspace, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No git on the machine blocks; a disk without room is no evidence of a tree. What was not looked at never passes for nothing."""
    monkeypatch.setattr("jamcore.workspace.inspection.own_git.run_git", no_git)
    found = await workspace.look()
    assert {problem.partition(":")[0] for problem in at(found, "repo").problems} == {"git could not be started"}
    assert (R.UNREADABLE, "repo") in blocked(found)
    monkeypatch.setattr("jamcore.workspace.inspection.repository.make_own_git", no_room)
    with pytest.raises(StorageFullError) as raised:
        await workspace.look()
    assert isinstance(raised.value.__cause__, OSError)
    monkeypatch.setattr("jamcore.workspace.inspection.repository.make_own_git", broken)
    found = await workspace.look()
    assert found.bounds == (f"it could not be looked at: {os.strerror(errno.EIO)}",)
    assert (R.NOT_WHOLE, ".") in blocked(found)


async def no_git(*_argv: str, **_how: object) -> None:
    """Take the place of git."""
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def no_room(*_what: object, **_how: object) -> None:
    """Take the place of what writes."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(*_what: object, **_how: object) -> None:
    """Take the place of what writes, on a disk that is broken."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.guarantee("WS-16")
async def test_each_bound_blocks(workspace: Workspace, checkout: Path, git: Git) -> None:
    """Names, depth and repositories: what lies within them is looked at all the same."""
    assert (await workspace.look()).blockers == ()
    (checkout / "a.txt").write_text("changed\n")
    git(workspace.path, "init", "-q", "second")
    (workspace.path / "x" / "y" / "z").mkdir(parents=True)
    few = await workspace.look(InspectionBounds(repositories=1))
    assert (few.bounds, at(few, "repo").unstaged.count) == (("more than 1 repositories",), 1)
    shallow = await workspace.look(InspectionBounds(depth=2))
    assert (R.NOT_WHOLE, ".") in blocked(shallow)
    names = await workspace.look(InspectionBounds(entries=10))
    assert names.bounds == ("more than 10 names",)
    word = RemovalOverride(reason=R.NOT_WHOLE, path=".")
    assert R.NOT_WHOLE not in {blocker.reason for blocker in names.standing((word,))}, "a tree must not stay for ever"


@pytest.mark.guarantee("WS-16")
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
async def test_a_directory_that_cannot_be_read_blocks(workspace: Workspace) -> None:
    """Its files may be work."""
    (workspace.path / "closed").mkdir(mode=0o000)
    assert blocked(await workspace.look()) == {(R.UNREADABLE, "closed")}


@pytest.mark.guarantee("WS-16", "WS-10")
async def test_force_overrides_what_it_names_alone(workspace: Workspace, checkout: Path) -> None:
    """Reason and path both; the confirmation is bound to what was seen, and stale once the tree has changed."""
    (checkout / "new").write_text("x")
    (workspace.path / "notes").write_text("x")
    found = await workspace.look()
    untracked = RemovalOverride(reason=R.UNTRACKED, path="repo")
    outside = RemovalOverride(reason=R.OUTSIDE, path=".")
    with pytest.raises(RemovalBlockedError) as refused:
        require_removable(found, confirmed=found.digest, force=(untracked, RemovalOverride(reason=R.OUTSIDE, path="repo")))
    assert refused.value.blockers == ("outside .: 1 files of no repository: notes",)
    require_removable(found, confirmed=found.digest, force=(untracked, outside))
    (checkout / "new").write_text("more")
    with pytest.raises(RemovalEvidenceChangedError):
        require_removable(await workspace.look(), confirmed=found.digest, force=(untracked, outside))


@pytest.mark.guarantee("WS-16")
def test_what_a_person_can_end_is_never_forced() -> None:
    """Everything else may be: an agent must not be able to make a tree that stays for ever."""
    assert {R.NO_TREE, R.MOUNTED, R.IN_USE, R.USE_UNKNOWN} == NEVER_FORCED


@pytest.mark.guarantee("SEC-3", "WS-16")
def test_different_names_are_never_the_same_text() -> None:
    """A path names what force overrides, so an escape must not look like a name that another one has, however long they are."""
    names = [b"\x85", "\x85".encode(), rb"\x85", rb"\u0085", b"\\", b"\\\\", b"\n", rb"\n", rb"\u000a", "\U000e0001".encode()]
    long = b"x" * CHARACTERS
    names += [long, long + b"y", long + b"z"]
    assert len({shown(name) for name in names}) == len(names)
    assert all(shown(name).isprintable() and len(shown(name)) <= CHARACTERS + 17 for name in names)
