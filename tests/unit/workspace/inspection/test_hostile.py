"""An agent may write anything into its tree: nothing of it is executed, followed, waited for or shown raw (SEC-2, SEC-3)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.domain.removal import Listing, RemovalReason
from tests.unit.workspace.inspection.places import Git, Workspace, at, blocked, commit_on, times

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]

R = RemovalReason
HEX = "0" * 40


def put(name: str, content: str | bytes) -> Callable[[Path], None]:
    """Return what writes a file of the git directory, in place of what was there."""

    def make(git: Path) -> None:
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).unlink(missing_ok=True)
        (git / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def pipe(name: str) -> Callable[[Path], None]:
    """Return what makes a pipe in a file's place."""

    def make(git: Path) -> None:
        (git / name).unlink(missing_ok=True)
        os.mkfifo(git / name)

    return make


def link(name: str, target: str) -> Callable[[Path], None]:
    """Return what makes a link; what was in its place lies beside the git directory then."""

    def make(git: Path) -> None:
        if (git / name).exists():
            (git / name).rename(git.parent.parent / "was")
        (git / name).symlink_to(target)

    return make


def gigantic(git: Path) -> None:
    """Make an index that nobody reads whole; on the disk it is nothing."""
    with (git / "index").open("r+b") as stream:
        stream.truncate(1 << 40)


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return what makes something in the place of the git directory, which lies outside the checkout then."""

    def do(git: Path) -> None:
        git.rename(git.parent.parent / "was")
        make(git)

    return do


def piped_object(git: Path) -> None:
    """Make a pipe among the objects."""
    (git / "objects" / "aa").mkdir(exist_ok=True)
    os.mkfifo(git / "objects" / "aa" / ("0" * 38))


def piped_rules(git: Path) -> None:
    """Make a pipe where git reads what is ignored."""
    (git.parent / "deep").mkdir()
    os.mkfifo(git.parent / "deep" / ".gitignore")


def endless_rules(git: Path) -> None:
    """Make a file of rules that git would read into memory."""
    (git.parent / ".gitattributes").touch()
    os.truncate(git.parent / ".gitattributes", 1 << 40)


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "linked git directory": instead(lambda git: git.symlink_to("../was")),
    "pipe as git directory": instead(os.mkfifo),
    "git file that says nothing": instead(lambda git: git.write_text("x")),
    "git file that leads out": instead(lambda git: git.write_text("gitdir: ../../../../etc\n")),
    "empty git directory": instead(Path.mkdir),
    "alternates": put("objects/info/alternates", "/\n"),
    "linked objects": link("objects", "../../was"),
    "object that is a pipe": piped_object,
    "linked reference": link("refs/heads/evil", "/etc/passwd"),
    "pipe as HEAD": pipe("HEAD"),
    "HEAD elsewhere": put("HEAD", "ref: ../../etc/passwd\n"),
    "bad packed references": put("packed-refs", "^x\n--all refs/heads/x\n"),
    "endless packed references": put("packed-refs", f"{HEX} refs/heads/x\n" * 100_001),
    "empty lines without end": put("packed-refs", b"\n" * 100_001),
    "reference to nothing": put("refs/heads/evil", "1" * 40 + "\n"),
    "gigantic index": gigantic,
    "index that is none": put("index", b"DIRC\0\0\0\2\0\0\0\1" + b"x" * 100),
    "index of too many files": put("index", b"DIRC\0\0\0\4\xff\xff\xff\xff" + b"x" * 100),
    "pipe as index": pipe("index"),
    "pipe as configuration": pipe("config"),
    "configuration that is none": put("config", "[core\n"),
    "pipe as own rules": pipe("info/exclude"),
    "pipe as log": pipe("logs/HEAD"),
    "another directory": put("commondir", "/\n"),
    "pipe as rules of the tree": piped_rules,
    "endless attributes": endless_rules,
}


@pytest.mark.guarantee("WS-16", "SEC-2")
@pytest.mark.parametrize("how", UNREADABLE)
async def test_what_cannot_be_understood_blocks(workspace: Workspace, checkout: Path, how: str) -> None:
    """A blocker for each, the same one at a second look; the repository beside it is looked at."""
    UNREADABLE[how](checkout / ".git")
    found = await workspace.look()
    assert (R.UNREADABLE, "repo") in blocked(found)
    assert at(found, "repo").problems
    assert (await workspace.look()).digest == found.digest


@pytest.mark.guarantee("SEC-2")
async def test_nothing_of_a_hostile_repository_is_executed(
    workspace: Workspace, checkout: Path, git: Git, tmp_path: Path, canary: Callable[[], list[str]]
) -> None:
    """Each program that a repository can name runs when a person uses git there, and none of them when Jam looks."""

    def run(name: str) -> str:
        return str(tmp_path / f"run-{name}")

    commit_on(git, checkout, "x.y")
    settings = f"""
[core]
    fsmonitor = {run("fsmonitor")}
    hooksPath = {tmp_path / "hooks"}
    sshCommand = {run("ssh")}
    pager = {run("pager")}
    editor = {run("editor")}
    attributesFile = {tmp_path / "attributes"}
[alias]
    ls-files = !{run("alias")}
    rev-list = !{run("alias")}
[filter "x"]
    clean = {run("clean")}
    smudge = {run("smudge")}
    required = true
[filter "y"]
    process = {run("process")}
[diff]
    external = {run("diff")}
[diff "x"]
    textconv = {run("textconv")}
[merge "x"]
    driver = {run("merge")}
[remote "origin"]
    url = ssh://somewhere/x
    promisor = true
[extensions]
    worktreeConfig = true
"""
    (tmp_path / "included").write_text(settings)
    with (checkout / ".git" / "config").open("a") as stream:
        stream.write(f"[include]\n\tpath = {tmp_path / 'included'}\n{settings}")
    (checkout / ".git" / "config.worktree").write_text(settings)
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (tmp_path / "hooks" / hook).write_text(Path(run("hook")).read_text())
        (tmp_path / "hooks" / hook).chmod(0o755)
    (checkout / ".gitattributes").write_text("* filter=x diff=x merge=x\n*.y filter=y\n")
    for name in ("a.txt", "x.y", "new"):
        (checkout / name).write_text("changed\n")
    found = await workspace.look()
    assert canary() == []
    state = at(found, "repo")
    assert (state.unstaged.first, state.untracked.first, state.problems) == (("a.txt", "x.y"), (".gitattributes", "new"), ())
    git(checkout, "add", "a.txt", check=False)
    assert {"clean", "fsmonitor"} <= set(canary()), "a person's own git runs them: the traps work"


@pytest.mark.guarantee("SEC-2")
async def test_nested_repositories_are_not_entered_by_the_outer_one(workspace: Workspace, checkout: Path, git: Git) -> None:
    """A pipe in the place of a nested HEAD keeps nobody waiting, and the outer repository is looked at whole."""
    git(checkout, "init", "-q", "nested")
    commit_on(git, checkout / "nested", "x")
    git(checkout, "add", "nested")
    git(checkout, "commit", "-q", "-m", "as a submodule without a name")
    (checkout / "nested" / ".git" / "HEAD").unlink()
    os.mkfifo(checkout / "nested" / ".git" / "HEAD")
    found = await workspace.look()
    assert blocked(found) == {(R.UNREADABLE, "repo/nested"), (R.UNPUSHED, "repo")}
    assert at(found, "repo").problems == ()


@pytest.mark.guarantee("SEC-2")
async def test_links_lead_nowhere(workspace: Workspace, checkout: Path, git: Git, tmp_path: Path) -> None:
    """A link is a file; a tracked directory that became a link has lost its files, and what it leads to is not looked at."""
    (checkout / "inner").mkdir()
    commit_on(git, checkout, "inner/file")
    git(checkout, "push", "-q", "origin", "HEAD:refs/heads/pushed")
    outside = tmp_path / "outside"
    (checkout / "inner").rename(outside)
    git(outside, "init", "-q")
    (checkout / "inner").symlink_to(outside)
    (workspace.path / "all").symlink_to("/")
    found = await workspace.look()
    assert [state.path for state in found.repositories] == ["repo"]
    assert blocked(found) == {(R.UNCOMMITTED, "repo"), (R.UNTRACKED, "repo"), (R.OUTSIDE, ".")}
    assert at(found, "repo").unstaged.first == ("inner/file",)
    assert (at(found, "repo").untracked.first, found.outside.files.first) == (("inner",), ("all",))


NAMES = (
    b":(top)x",
    b":!x",
    b"*",
    b"new\nline",
    b"\x1b[31mred",
    b"back\\slash",
    b"\xff\xfe",
    b" ",
    b'"quoted"',
    "\u202ebidi".encode(),
    b"-n",
)


@pytest.mark.guarantee("SEC-3", "WS-16")
async def test_any_name_is_told_apart_and_shown_escaped(workspace: Workspace, checkout: Path, git: Git) -> None:
    """Untracked, ignored, staged, as a branch, in a subject, and as the name of a repository."""
    (checkout / ".gitignore").write_bytes(b"/i/\n")
    git(checkout, "commit", "-q", "-a", "-m", "rules\x1b]0;title\x07")
    for place in ("i", "u"):
        (checkout / place).mkdir()
        for name in NAMES:
            Path(os.fsdecode(bytes(checkout / place) + b"/" + name)).write_text("x")
    git(checkout, "add", "--", "u/back\\slash", "u/new\nline")
    git(workspace.path, "init", "-q", "evil\n\x1b[31m")
    found = await workspace.look()
    state = at(found, "repo")
    assert (state.ignored, state.untracked.count) == (len(NAMES), len(NAMES) - 2)
    assert state.staged.first == (r"u/back\\slash", r"u/new\u000aline")
    assert state.unpushed.first[0].endswith(r" rules\u001b]0;title\u0007")
    assert {r"u/\xff\xfe", r"u/\u001b[31mred", r"u/\u202ebidi"} <= set(state.untracked.first)
    assert found.repositories[0].path == r"evil\u000a\u001b[31m"
    assert all(char.isprintable() for char in found.model_dump_json()), "nothing that a terminal would obey"


@pytest.mark.guarantee("WS-16")
async def test_ten_thousand_references_are_counted(workspace: Workspace, checkout: Path, git: Git) -> None:
    """Loose and packed ones together; those of remotes are no branches."""
    commit = git(checkout, "rev-parse", "HEAD").decode().strip()
    packed = "".join(f"{commit} refs/heads/packed-{n}\n{commit} refs/remotes/origin/r{n}\n" for n in range(9_500))
    (checkout / ".git" / "packed-refs").write_text(packed)
    for number in range(500):
        (checkout / ".git" / "refs" / "heads" / f"loose-{number}").write_text(commit + "\n")
    found = await workspace.look()
    assert (found.blockers, at(found, "repo").without_upstream.count) == ((), 10_000)


@pytest.mark.guarantee("WS-16", "SEC-2")
async def test_what_is_neither_file_nor_directory_is_passed_by(workspace: Workspace) -> None:
    """Pipes and sockets hold no bytes; the look changes nothing."""
    os.mkfifo(workspace.path / "pipe")
    os.mknod(workspace.path / "socket", stat.S_IFSOCK | 0o600)
    before = times(workspace.path)
    found = await workspace.look()
    assert (found.blockers, found.outside.files) == ((), Listing())
    assert times(workspace.path) == before


@pytest.mark.guarantee("WS-16", "SEC-2")
async def test_long_paths_are_said_and_not_followed(workspace: Workspace, checkout: Path) -> None:
    """Deeper than any path that a program could open at once."""
    here = os.open(checkout, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(20):
            os.mkdir("x" * 250, dir_fd=here)
            below = os.open("x" * 250, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    finally:
        os.close(here)
    found = await workspace.look()
    (blocker,) = found.blockers
    assert (blocker.reason, blocker.detail) == (R.UNREADABLE, "its paths are too long for git")
    assert len(blocker.path) < 400


@pytest.mark.guarantee("SEC-2")
async def test_indexes_of_many_worktrees_are_bounded_together(workspace: Workspace, checkout: Path, git: Git) -> None:
    """Each of them alone would be read."""
    for number in range(3):
        git(checkout, "worktree", "add", "-q", "--detach", str(workspace.path / f"w{number}"))
        os.truncate(checkout / ".git" / "worktrees" / f"w{number}" / "index", 60 << 20)
    found = await workspace.look()
    assert [problem.partition(" is larger")[0] for problem in at(found, "repo").problems] == ["index"]
    assert {(R.UNREADABLE, f"w{number}") for number in range(3)} <= blocked(found)
