"""What a private clone holds of its own is seen, whatever its agent made of it; nothing in it runs (OWN-9, SEC-2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jamcore.domain.clone_work import CloneWork
from jamcore.domain.sandboxes import CloneSource
from jamcore.engines.supervised.clone import make_clone
from jamcore.system.files import Files
from jamcore.workspace.clone_work import COMMITS, look_at_clone

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]

GUEST = "/jam/work/session"
Git = Callable[..., bytes]


class Clone:
    """A clone as an engine makes it."""

    def __init__(self, path: Path, commit: str, scratch: Path) -> None:
        self.path = path
        self.commit = commit
        self.scratch = scratch

    async def look(self, **changes: Any) -> CloneWork:
        """Look at it."""
        return await look_at_clone(self.path, self.commit, guest_path=GUEST, scratch=self.scratch, **changes)


@pytest.fixture
async def clone(tmp_path: Path, tree: Path, git: Git) -> Clone:
    """A clone of a repository with two branches and a tag."""
    (tree / ".gitignore").write_text("ignored\n")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "two")
    git(tree, "branch", "side")
    git(tree, "tag", "v1")
    commit = git(tree, "rev-parse", "HEAD").decode().strip()
    disk, scratch = tmp_path / 'disk: "x"', tmp_path / "scratch"
    disk.mkdir()
    scratch.mkdir(mode=0o700)
    path = disk / "clone"
    await make_clone(CloneSource(host_path=str(tree), commit=commit, guest_path=GUEST), path, engine="test", files=Files())
    return Clone(path, commit, scratch)


@pytest.mark.guarantee("OWN-9")
async def test_an_untouched_clone_holds_nothing(clone: Clone) -> None:
    """Ignored files and empty directories are no work; a second look says the same; nothing is left behind or changed."""
    before = {path: path.lstat().st_mtime_ns for path in clone.path.rglob("*")}
    work = await clone.look()
    assert (work.blockers(), work.more, work.commit) == ((), False, clone.commit)
    assert {path: path.lstat().st_mtime_ns for path in clone.path.rglob("*")} == before
    (clone.path / "ignored").write_text("x")
    (clone.path / "empty").mkdir()
    assert await clone.look() == work
    assert list(clone.scratch.iterdir()) == []


@pytest.mark.guarantee("OWN-9")
async def test_uncommitted_work_is_counted_and_named(clone: Clone, git: Git) -> None:
    """Changed, deleted, untracked, with any name; and what only the index holds."""
    (clone.path / "a.txt").write_text("changed\n")
    (clone.path / "b.txt").unlink()
    (clone.path / "new\n\x1b[31m").write_text("x")
    (clone.path / "staged").write_text("only staged")
    git(clone.path, "add", "staged")
    (clone.path / "staged").unlink()
    (clone.path / "hidden").mkdir()
    for number in range(7):
        (clone.path / "hidden" / f"{number}").write_text("x")
    work = await clone.look()
    assert work.uncommitted == 11
    assert work.paths[:2] == ("a.txt", "b.txt")
    assert len(work.paths) == 5
    (line,) = work.blockers()
    assert line == "11 uncommitted: a.txt, b.txt, hidden/0, hidden/1, hidden/2 and 6 more"
    for number in range(7):
        (clone.path / "hidden" / f"{number}").unlink()
    assert (await clone.look()).paths == ("a.txt", "b.txt", "new\\n\\x1b[31m", "staged")


@pytest.mark.guarantee("OWN-9")
async def test_files_that_git_converts_are_no_work(tmp_path: Path, tree: Path, git: Git) -> None:
    """Whether the clone has the commit's bytes or what git makes of them; and a change of such a file is one either way."""
    (tree / ".gitattributes").write_text("*.bat text eol=crlf\nutf working-tree-encoding=UTF-16\nid ident\n")
    for name, content in (("run.bat", b"echo\r\n"), ("id", b"$Id$\n"), ("utf", "häh\n".encode("utf-16"))):
        (tree / name).write_bytes(content)
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "two")
    commit = git(tree, "rev-parse", "HEAD").decode().strip()
    path = tmp_path / "clone"
    await make_clone(CloneSource(host_path=str(tree), commit=commit, guest_path=GUEST), path, engine="test", files=Files())
    clone = Clone(path, commit, tmp_path)
    overruled = path / ".git" / "info" / "attributes"
    overruled.parent.mkdir(exist_ok=True)
    for attributes in ("* !ident !working-tree-encoding !text !eol !crlf\n", ""):
        overruled.write_text(attributes)
        for name in ("run.bat", "id", "utf"):
            (path / name).unlink()
        git(path, "checkout", "-q", "--", ".")
        assert (await clone.look()).blockers() == ()
        (path / "run.bat").write_bytes(b"rem\r\n")
        assert (await clone.look()).paths == ("run.bat",)
    assert b"$Id: " in (path / "id").read_bytes(), "the second time git did convert"


@pytest.mark.guarantee("OWN-9")
async def test_no_flag_of_the_index_hides_a_change(clone: Clone, git: Git) -> None:
    """Git's own status believes these; the look reads the files."""
    git(clone.path, "update-index", "--assume-unchanged", "a.txt")
    git(clone.path, "update-index", "--skip-worktree", "b.txt")
    before = (clone.path / "a.txt").stat()
    (clone.path / "a.txt").write_text("ONE\n")
    os.utime(clone.path / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    (clone.path / "b.txt").write_text("TWO\n")
    (clone.path / ".git" / "info").mkdir(exist_ok=True)
    (clone.path / ".git" / "info" / "exclude").write_text("excluded\n")
    (clone.path / "excluded").write_text("x")
    assert git(clone.path, "status", "--porcelain") == b""
    assert (await clone.look()).paths == ("a.txt", "b.txt", "excluded")


def commit_on(git: Git, path: Path, name: str) -> str:
    """Commit a file and return the commit."""
    (path / name).write_text(name)
    git(path, "add", name)
    git(path, "commit", "-q", "-m", name)
    return git(path, "rev-parse", "HEAD").decode().strip()


@pytest.mark.guarantee("OWN-9")
@pytest.mark.parametrize("where", ["branch", "packed", "tag", "detached", "stash", "old stash", "note", "other branch"])
async def test_commits_are_found_wherever_they_hang(clone: Clone, git: Git, where: str) -> None:
    """All references, packed or not, each entry of the stash, and a HEAD without a branch."""
    path, most = clone.path, 1
    match where:
        case "branch":
            commit_on(git, path, "c")
        case "packed":
            commit_on(git, path, "c")
            git(path, "pack-refs", "--all")
        case "tag":
            git(path, "checkout", "-q", "--detach")
            git(path, "tag", "-a", "-m", "x", "kept", commit_on(git, path, "c"))
            git(path, "checkout", "-q", "jam")
        case "detached":
            git(path, "checkout", "-q", "--detach")
            commit_on(git, path, "c")
        case "stash" | "old stash":
            (path / "a.txt").write_text("stashed\n")
            git(path, "stash")
            if where == "old stash":
                (path / "a.txt").write_text("stashed later\n")
                git(path, "stash")
                git(path, "update-ref", "refs/stash", clone.commit)  # the entries are in its log alone
            most = 2  # the change and its index
        case "note":
            git(path, "notes", "add", "-m", "remember")
        case "other branch":
            git(path, "checkout", "-q", "-b", "deep/er/branch")
            commit_on(git, path, "c")
            git(path, "checkout", "-q", "jam")
    work = await clone.look()
    assert (work.uncommitted, work.unknown) == (0, ())
    assert work.commits >= most if where == "old stash" else work.commits == most
    assert all(len(found) == 12 for found in work.first_commits)


@pytest.mark.guarantee("OWN-9")
async def test_an_orphan_branch_and_an_unborn_one(clone: Clone, git: Git) -> None:
    """A history of its own is all work; a branch without a commit has everything staged."""
    git(clone.path, "checkout", "-q", "--orphan", "fresh")
    work = await clone.look()
    assert (work.commits, work.uncommitted, work.unknown) == (0, 3, ())
    git(clone.path, "commit", "-q", "-m", "again")
    work = await clone.look()
    assert (work.commits, work.uncommitted, work.unknown) == (1, 0, ())


@pytest.mark.guarantee("OWN-9")
async def test_unfinished_operations_are_named(clone: Clone, git: Git) -> None:
    """A merge and a rebase that wait for their conflicts to be settled, and a bisection."""
    path = clone.path
    git(path, "checkout", "-q", "-b", "other")
    (path / "a.txt").write_text("theirs\n")
    git(path, "commit", "-q", "-a", "-m", "theirs")
    git(path, "checkout", "-q", "jam")
    (path / "a.txt").write_text("ours\n")
    git(path, "commit", "-q", "-a", "-m", "ours")
    git(path, "merge", "other", check=False)
    work = await clone.look()
    assert (work.operations, work.unknown) == (("merge",), ())
    assert "unfinished: merge" in work.blockers()
    git(path, "merge", "--abort")
    git(path, "rebase", "other", check=False)
    work = await clone.look()
    assert (work.operations, work.unknown) == (("rebase",), ())
    git(path, "rebase", "--abort")
    git(path, "bisect", "start")
    assert (await clone.look()).operations == ("bisect",)


@pytest.mark.guarantee("OWN-9")
async def test_linked_worktrees_inside_are_looked_at_and_others_are_unknown(clone: Clone, git: Git, tmp_path: Path) -> None:
    """Their HEAD and their files, also in an ignored directory; one that is gone holds nothing; one elsewhere cannot be seen."""
    path = clone.path
    git(path, "worktree", "add", "-q", "--detach", "ignored/one")
    record = path / ".git" / "worktrees" / "one" / "gitdir"
    record.write_text(f"{GUEST}/ignored/one/.git\n")  # as its guest wrote it
    assert (await clone.look()).blockers() == ()
    (path / "ignored" / "one" / "a.txt").write_text("changed in it\n")
    (path / ".gitignore").unlink()
    assert (await clone.look()).paths == (".gitignore", "ignored/one/a.txt")
    (path / ".gitignore").write_text("ignored\n")
    (path / "ignored" / "one" / "a.txt").write_text("one\n")
    one = path / "ignored" / "one"
    (one / ".git").write_text(f"gitdir: {path}/.git/worktrees/one\n")
    commit_on(git, one, "c")
    work = await clone.look()
    assert (work.commits, work.uncommitted, work.unknown) == (1, 0, ())
    one.rename(tmp_path / "moved")
    assert (await clone.look()).commits == 1
    one.symlink_to(tmp_path / "moved")
    assert (await clone.look()).unknown == ("the files in worktree one, which is reached through a link",)
    for place in ("/home/agent/one/.git", f"{GUEST}/../x/.git", f"{GUEST}/.git", "relative/.git"):
        record.write_text(place + "\n")
        assert (await clone.look()).unknown == ("the files in worktree one, which lies outside the clone",)


@pytest.mark.guarantee("OWN-9")
async def test_repositories_inside_are_work(clone: Clone, git: Git, tree: Path) -> None:
    """One that was cloned into the tree, and a submodule whose files are there; neither is entered."""
    git(tree, "clone", "-q", str(tree), str(clone.path / "nested"))
    work = await clone.look()
    assert (work.paths, work.unknown) == (("nested/",), ())
    git(clone.path, "add", "nested")
    git(clone.path, "commit", "-q", "-m", "link")
    (clone.path / ".git" / "modules" / "nested").mkdir(parents=True)
    work = await clone.look()
    assert (work.commits, work.paths, work.unknown) == (1, ("nested/",), ("the repositories of its submodules",))


@pytest.mark.guarantee("OWN-9", "WS-10")
async def test_the_digest_is_fresh_evidence(clone: Clone, git: Git) -> None:
    """What is written into a file that was changed already alters no count, and the digest; so does a branch that moves."""
    (clone.path / "a.txt").write_text("changed 1\n")
    commit_on(git, clone.path, "c")
    (clone.path / "new").write_text("x")
    seen = await clone.look()
    assert (await clone.look()).content_digest() == seen.content_digest()
    (clone.path / "new").write_text("longer")
    now = await clone.look()
    assert (now.blockers(), now.content_digest() == seen.content_digest()) == (seen.blockers(), False)
    git(clone.path, "branch", "another")
    assert (await clone.look()).content_digest() != now.content_digest()


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
    """Return what makes a link of the git directory; what is in its place lies beside it then."""

    def make(git: Path) -> None:
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        if (git / name).exists():
            (git / name).rename(git.parent / "was")
        (git / name).symlink_to(target)

    return make


def move(git: Path) -> None:
    """Take the git directory away."""
    git.rename(git.parent / "was")


def gitfile(git: Path) -> None:
    """Put the git directory elsewhere, as a linked worktree has it."""
    move(git)
    git.write_text("gitdir: was\n")


def linked(git: Path) -> None:
    """The same by a link."""
    move(git)
    git.symlink_to("was")


def large(git: Path) -> None:
    """Make a file of references that nobody reads whole."""
    with (git / "packed-refs").open("wb") as stream:
        stream.truncate(1 << 30)


def spoil_packs(git: Path) -> None:
    """Make every pack no pack."""
    for pack in (git / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"PACK" + b"\xff" * 100)


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "no git directory": move,
    "linked git directory": linked,
    "git file": gitfile,
    "another directory": put("commondir", "/\n"),
    "reference format": lambda git: (git / "reftable").mkdir(),
    "alternates": put("objects/info/alternates", "/\n"),
    "linked objects": link("objects", "../was"),
    "pipe among the objects": pipe("objects/pack/pack-1.idx"),
    "object that is a link": link(f"objects/aa/{'0' * 38}", "/etc/passwd"),
    "linked reference": link("refs/heads/evil", "/etc/passwd"),
    "linked references": link("refs/heads/evil", "/etc"),
    "pipe as HEAD": pipe("HEAD"),
    "no HEAD": lambda git: (git / "HEAD").unlink(),
    "HEAD elsewhere": put("HEAD", "ref: ../../etc/passwd\n"),
    "bad reference": put("refs/heads/evil", "--upload-pack=x\n"),
    "bad packed reference": put("packed-refs", "^x\n--all refs/heads/x\n"),
    "large file": large,
    "large reference": put("refs/heads/evil", "0" * 5000),
    "deep references": lambda git: (git / "refs" / "heads" / "/".join("d" * 40)).mkdir(parents=True),
    "pipe as index": pipe("index"),
    "no object": put("refs/heads/evil", "1" * 40 + "\n"),
    "bad index": put("index", b"DIRC\0\0\0\2\xff\xff\xff\xff" + b"x" * 100),
    "bad pack": spoil_packs,
}


@pytest.mark.guarantee("OWN-9", "SEC-2")
@pytest.mark.parametrize("how", UNREADABLE)
async def test_what_cannot_be_understood_is_unknown_never_nothing(clone: Clone, git: Git, how: str) -> None:
    """A typed answer for each, and a blocker."""
    git(clone.path, "gc", "-q")
    UNREADABLE[how](clone.path / ".git")
    work = await clone.look()
    assert work.unknown
    assert any(line.startswith("unknown: ") for line in work.blockers())


@pytest.mark.guarantee("OWN-9", "SEC-2")
async def test_nothing_of_a_hostile_clone_is_executed(
    clone: Clone, git: Git, tree: Path, tmp_path: Path, canary: Callable[[], list[str]]
) -> None:
    """Each program that a repository can name runs when a person uses git there, and none of them when Jam looks."""
    path = clone.path

    def run(name: str) -> str:
        return str(tmp_path / f"run-{name}")

    settings = f"""
[core]
    fsmonitor = {run("fsmonitor")}
    hooksPath = {tmp_path / "hooks"}
    sshCommand = {run("ssh")}
    pager = {run("pager")}
    editor = {run("editor")}
    untrackedCache = true
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
    partialclonefilter = blob:none
[extensions]
    worktreeConfig = true
[status]
    submoduleSummary = true
"""
    (tmp_path / "included").write_text(settings)
    with (path / ".git" / "config").open("a") as stream:
        stream.write(f"[include]\n\tpath = {tmp_path / 'included'}\n{settings}")
    (path / ".git" / "config.worktree").write_text(settings)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (hooks / hook).write_text(Path(run("hook")).read_text())
        (hooks / hook).chmod(0o755)
    (path / ".git" / "info" / "attributes").unlink(missing_ok=True)  # what an engine put there, an agent can take away
    (path / ".gitattributes").write_text("* filter=x diff=x merge=x\n*.y filter=y\n")
    (path / "a.txt").write_text("changed\n")
    (path / "new.y").write_text("x")
    nested = path / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / ".git" / "config").write_text(settings + "[core]\n\trepositoryformatversion = 0\n")
    work = await clone.look()
    assert canary() == []
    assert (work.paths, work.unknown) == ((".gitattributes", "a.txt", "nested/", "new.y"), ())
    git(path, "add", "a.txt", check=False)
    assert "clean" in canary(), "a person's own git runs them: the traps work"
    assert "fsmonitor" in canary()


@pytest.mark.guarantee("OWN-9", "SEC-2")
async def test_the_look_is_bounded(clone: Clone, git: Git) -> None:
    """A history longer than is counted, references without number, a file that never ends its line, and time."""
    start = git(clone.path, "rev-parse", "HEAD").decode().strip()
    lines = [f"commit refs/heads/long\nmark :1\ncommitter a <a@x> 1 +0000\ndata 1\nx\nfrom {start}\n"]
    lines += [f"commit refs/heads/long\nmark :{n}\ncommitter a <a@x> {n} +0000\ndata 1\nx\n" for n in range(2, COMMITS + 100)]
    (clone.scratch / "history").write_text("".join(lines))
    git(clone.path, "-c", f"alias.make=!git fast-import --quiet < '{clone.scratch}/history'", "make")
    work = await clone.look()
    assert (work.commits, work.more) == (COMMITS, True)
    assert work.blockers()[0].startswith(f"at least {COMMITS} commits: ")
    packed = clone.path / ".git" / "packed-refs"
    packed.write_text("".join(f"{start} refs/heads/b{n}\n" for n in range(50_000)))
    assert (await clone.look()).unknown == ()
    packed.write_text("".join(f"{start} refs/heads/b{n}\n" for n in range(100_001)))
    assert (await clone.look()).unknown == ("it has more than 100000 references",)
    packed.unlink()
    assert (await clone.look(limit_s=0)).unknown[-1].startswith("it could not be looked at within")


@pytest.mark.guarantee("OWN-9")
async def test_a_pipe_in_the_place_of_a_rule_is_waited_for_no_longer_than_the_bound(clone: Clone) -> None:
    """Git opens files of rules wherever it looks; a pipe there never ends."""
    (clone.path / "deep").mkdir()
    (clone.path / "deep" / "file").write_text("x")
    os.mkfifo(clone.path / "deep" / ".gitignore")
    works = [await clone.look(limit_s=3) for _ in range(2)]
    assert works[0].unknown == ("it could not be looked at within 3 seconds",)
    assert works[0] == works[1], "and that can be confirmed"


@pytest.mark.guarantee("OWN-9")
async def test_shallow_and_other_hashes(tmp_path: Path, tree: Path, git: Git) -> None:
    """A clone of a shallow clone, and a repository whose ids are twice as long."""
    for number in range(3):
        commit_on(git, tree, f"f{number}")
    shallow, other = tmp_path / "shallow", tmp_path / "other"
    git(tree, "clone", "-q", "--depth", "1", tree.as_uri(), str(shallow))
    other.mkdir()
    git(other, "init", "-q", "--object-format=sha256")
    commit_on(git, other, "x")
    for source in (shallow, other):
        commit = git(source, "rev-parse", "HEAD").decode().strip()
        path = tmp_path / f"clone-of-{source.name}"
        await make_clone(CloneSource(host_path=str(source), commit=commit, guest_path=GUEST), path, engine="test", files=Files())
        one = Clone(path, commit, tmp_path)
        assert (await one.look()).blockers() == ()
        commit_on(git, path, "mine")
        assert (await one.look()).blockers()[0].startswith("1 commits: ")


@pytest.mark.guarantee("OWN-9")
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
async def test_a_directory_that_cannot_be_read_is_unknown(clone: Clone) -> None:
    """Its files may be work."""
    (clone.path / "closed").mkdir(mode=0o000)
    assert (await clone.look()).unknown == ("git could not answer about its files in the clone",)
