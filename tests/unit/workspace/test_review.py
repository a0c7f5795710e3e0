"""Jam's git over a work tree that an agent wrote: nothing in it is ever executed, and the patch is the whole change (SEC-2)."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamcore.domain.limits import PATCH_BYTES
from jamcore.system.files import Files
from jamcore.workspace.review import ReviewGit, ReviewGitError

pytestmark = [pytest.mark.anyio, pytest.mark.needs("git"), pytest.mark.unprivileged]
Git = Callable[..., bytes]
Canary = Callable[[], list[str]]


async def everything(review: ReviewGit, tmp_path: Path) -> tuple[str, str, bytes]:
    """Do all that Jam ever does with a work tree; return both trees and the patch, which is proven to be whole."""
    await review.prepare()
    base = (await review.snapshot()).tree if await review.kept("base") is None else await review.kept("base")
    assert base is not None
    await review.keep("base", base)
    tree = (await review.snapshot()).tree
    await review.keep("now", tree)
    assert await review.kept("now") == tree
    patch, truncated = await review.patch(base, tree, limit=PATCH_BYTES)
    assert not truncated
    file = tmp_path / "change.patch"
    file.write_bytes(patch)
    assert await review.reproduces(base, tree, file)
    await review.changes(base, tree)
    return base, tree, patch


def arm(tree: Path, tmp_path: Path, git: Git) -> None:
    """Write into a repository everything that makes git run programs."""
    for key, value in {
        "core.fsmonitor": "fsmonitor",
        "core.pager": "pager",
        "core.sshCommand": "ssh",
        "core.editor": "editor",
        "filter.evil.clean": "clean",
        "filter.evil.smudge": "smudge",
        "filter.evil.process": "process",
        "diff.evil.textconv": "textconv",
        "diff.evil.command": "diff",
        "diff.external": "diff",
        "merge.evil.driver": "merge",
        "alias.status": "alias",
    }.items():
        prefix = "!" if key.startswith("alias.") else ""
        git(tree, "config", key, f"{prefix}{tmp_path}/run-{value}")
    git(tree, "config", "filter.evil.required", "true")
    git(tree, "config", "diff.external", f"{tmp_path}/run-diff")
    hooks = tree / "my-hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-index-change", "post-checkout", "reference-transaction", "pre-applypatch", "applypatch-msg"):
        for place in (hooks, tree / ".git" / "hooks"):
            place.mkdir(exist_ok=True)
            shutil.copy(tmp_path / "run-hook", place / name)
    git(tree, "config", "core.hooksPath", str(hooks))
    attributes = "* filter=evil diff=evil merge=evil ident text eol=crlf working-tree-encoding=UTF-16\n"
    (tree / ".gitattributes").write_text(attributes)
    (tree / ".git" / "info").mkdir(exist_ok=True)
    (tree / ".git" / "info" / "attributes").write_text(attributes)


@pytest.mark.guarantee("SEC-2")
async def test_nothing_in_a_hostile_repository_is_executed(
    tree: Path, review: ReviewGit, git: Git, canary: Canary, tmp_path: Path
) -> None:
    """Filters, monitors, hooks, drivers, aliases; a person's git runs them in the same directory, which shows that the trap works."""
    arm(tree, tmp_path, git)
    await everything(review, tmp_path)
    (tree / "a.txt").write_text("changed $Id$ \n")
    (tree / "c.bin").write_bytes(bytes(range(256)))
    _, now, patch = await everything(review, tmp_path)
    assert canary() == []
    assert b"changed $Id$ \n" in patch
    assert blob(review, now, "a.txt", tmp_path) == b"changed $Id$ \n"
    git(tree, "add", "--all", check=False)
    git(tree, "diff", "HEAD", check=False)
    assert {"fsmonitor"} < set(canary()), "the trap is not armed"


@pytest.mark.guarantee("SEC-2")
@pytest.mark.parametrize("how", ["nested", "bare beside", "gitfile", "submodule"])
async def test_a_nested_repository_is_a_link_and_runs_nothing(
    tree: Path, review: ReviewGit, git: Git, canary: Canary, tmp_path: Path, how: str
) -> None:
    """Taken again and again while its files change: git would look for changes inside it, with its own filters."""
    inner = tree / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "f.txt").write_text("one\n")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "inner")
    if how == "gitfile":
        (inner / ".git").rename(tree / "moved")
        (inner / ".git").write_text(f"gitdir: {tree / 'moved'}\n")
    elif how == "bare beside":
        shutil.copytree(inner / ".git", tree / "server.git")
    elif how == "submodule":
        (tree / ".gitmodules").write_text(
            f'[submodule "inner"]\n path = inner\n url = ext::{tmp_path}/run-ssh\n update = !{tmp_path}/run-ssh\n'
        )
        git(tree, "config", "submodule.inner.update", f"!{tmp_path}/run-ssh")
        git(tree, "config", "submodule.recurse", "true")
    arm_inner = inner if how != "gitfile" else tree / "moved"
    git(arm_inner, "config", "filter.evil.clean", f"{tmp_path}/run-clean")
    git(arm_inner, "config", "core.fsmonitor", f"{tmp_path}/run-fsmonitor")
    (inner / ".gitattributes").write_text("* filter=evil\n")
    now = ""
    for number in range(4):
        (inner / "f.txt").write_text(f"two {number}\n")
        _, now, _ = await everything(review, tmp_path)
        assert canary() == [], number
    modes = listing(review, now, tmp_path)
    assert modes[b"inner"] == b"160000", "its content is not the outer repository's"
    git(inner, "add", "--all", check=False)
    assert "clean" in canary(), "the trap is not armed"


@pytest.mark.guarantee("SEC-2")
async def test_strange_entries_are_taken_exactly_or_named(tree: Path, review: ReviewGit, tmp_path: Path) -> None:
    """Links in and out, dangling ones, FIFOs, sockets, long names, newlines, bytes that are no text: no hang, nothing followed."""
    await everything(review, tmp_path)
    secret = tmp_path / "secret.txt"
    secret.write_text("outside")
    (tree / "out").symlink_to(secret)
    (tree / "dangling").symlink_to("/nowhere/at/all")
    (tree / "loop").symlink_to("loop")
    (tree / "etc").symlink_to("/etc")
    os.mkfifo(tree / "pipe")
    os.mkfifo(tree / "a pipe\nwith a line")
    names = [
        b"new\nline",
        b"n" * 255,
        b"tab\tbed",
        b'quo"te',
        b"back\\slash",
        b"\xff\xfe not text",
        b"-dash",
        b" space ",
        b"\x1b[31m",
    ]
    for name in names:
        Path(os.fsdecode(os.fsencode(tree) + b"/" + name)).write_bytes(name)
    deep = tree
    for _ in range(40):
        deep = deep / "deeper"
    deep.mkdir(parents=True)
    (deep / "leaf").touch()
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o4755)
    _, now, patch = await everything(review, tmp_path)
    modes = listing(review, now, tmp_path)
    assert set(names) <= set(modes)
    assert {modes[name] for name in (b"out", b"dangling", b"loop", b"etc")} == {b"120000"}
    assert modes[b"run.sh"] == b"100755"
    assert not [name for name in modes if b"pipe" in name]
    assert b"outside" not in patch
    assert blob(review, now, "out", tmp_path) == os.fsencode(secret)


@pytest.mark.guarantee("SEC-2", "RUN-1")
async def test_type_changes_are_whole_in_the_patch(tree: Path, review: ReviewGit, git: Git, tmp_path: Path) -> None:
    """File to link, link to file, file to directory, directory to file, executable bits: the patch makes the same tree at the reader's."""
    (tree / "link").symlink_to("a.txt")
    (tree / "d").mkdir()
    (tree / "d" / "f").write_text("in a directory\n")
    (tree / "empty").touch()
    (tree / "binary").write_bytes(bytes(range(256)) * 40)
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "all kinds")
    reader = tmp_path / "reader"
    git(tmp_path, "clone", "-q", str(tree), str(reader))
    base, _, _ = await everything(review, tmp_path)
    (tree / "a.txt").unlink()
    (tree / "a.txt").symlink_to("b.txt")
    (tree / "link").unlink()
    (tree / "link").write_text("a file now\n")
    shutil.rmtree(tree / "d")
    (tree / "d").write_text("no directory any more\n")
    (tree / "b.txt").unlink()
    (tree / "b.txt").mkdir()
    (tree / "b.txt" / "inside").write_text("x")
    (tree / "empty").chmod(0o755)
    (tree / "binary").write_bytes(bytes(reversed(range(256))) * 41)
    (tree / "no newline").write_text("last line")
    lookalike = tree / "diff --git a" / "x b" / "x\n--- a" / "x"
    lookalike.parent.mkdir(parents=True)
    lookalike.write_text("a name that looks like a patch\n")
    _, now, _ = await everything(review, tmp_path)
    statuses = {change.path: change.status for change in await review.changes(base, now)}
    assert statuses[b"a.txt"] == "T"
    assert statuses[b"link"] == "T"
    git(reader, "apply", "--index", "--binary", str(tmp_path / "change.patch"))
    assert git(reader, "write-tree").decode().strip() == now


@pytest.mark.guarantee("SEC-2")
async def test_what_git_ignores_stays_out_but_not_what_it_is_told_by_the_machine(
    tree: Path, review: ReviewGit, tmp_path: Path
) -> None:
    """The work tree's own .gitignore counts; a settings file in the work tree, which is git's home for the command, does not."""
    await everything(review, tmp_path)
    (tree / ".gitignore").write_text("*.log\nsecret/\n")
    (tree / "x.log").touch()
    (tree / "secret").mkdir()
    (tree / "secret" / "key").write_text("k")
    (tree / ".gitconfig").write_text(f"[core]\n excludesFile = {tree}/all\n fsmonitor = {tmp_path}/run-fsmonitor\n")
    (tree / "all").write_text("*\n")
    _, now, _ = await everything(review, tmp_path)
    assert set(listing(review, now, tmp_path)) == {b".gitconfig", b".gitignore", b"a.txt", b"all", b"b.txt"}


async def test_a_change_that_keeps_size_and_time_is_seen(tree: Path, review: ReviewGit, tmp_path: Path) -> None:
    """A guest may set any time on a file: what git's own record cannot see at least never mixes two trees up."""
    await review.prepare()
    first = (await review.snapshot()).tree
    before = (tree / "a.txt").stat()
    await anyio.sleep(0.02)
    (tree / "a.txt").write_text("ONE\n")
    os.utime(tree / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (tree / "a.txt").stat().st_ctime_ns != before.st_ctime_ns
    assert (await review.snapshot()).tree != first, "the change time cannot be set back"


async def test_a_work_tree_that_cannot_be_read_is_a_typed_error(tree: Path, review: ReviewGit, tmp_path: Path) -> None:
    """Gone, or its place taken by something else: the error has git's words and the review repository is as it was."""
    await everything(review, tmp_path)
    kept = await review.kept("base")
    tree.rename(tmp_path / "gone")
    for taken in (False, True):
        if taken:
            tree.touch()
        with pytest.raises((ReviewGitError, OSError)):
            await review.snapshot()
    tree.unlink()
    (tmp_path / "gone").rename(tree)
    assert await review.kept("base") == kept
    assert (await review.snapshot()).tree == kept


async def test_a_patch_beyond_its_limit_says_so(tree: Path, review: ReviewGit, tmp_path: Path) -> None:
    """It is cut, it says that it is, and it is not taken for the whole."""
    base, _, _ = await everything(review, tmp_path)
    (tree / "large").write_bytes(os.urandom(1 << 20))
    now = (await review.snapshot()).tree
    patch, truncated = await review.patch(base, now, limit=100_000)
    assert truncated
    assert len(patch) <= 100_000


async def test_the_review_repository_is_private(tree: Path, review: ReviewGit, tmp_path: Path) -> None:
    """Mode 0700, no hooks, no remotes; nothing of the work tree's own git directory in it."""
    await everything(review, tmp_path)
    directory = tmp_path / "review.git"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not (directory / "hooks").exists()
    assert "remote" not in (directory / "config").read_text()
    assert not list(directory.glob("index-*"))


CONTENT = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\n", b"+++ b/x\n", b"diff --git a/a b/a\n", b"GIT binary patch\n", b"-- \n2.39\n", b"\r\n", b"x\r\ny"]),
)
NAME = st.binary(min_size=1, max_size=20).filter(
    lambda n: not set(n) & {0, ord("/")} and n not in (b".", b"..") and n.lower() != b".git"
)


@pytest.mark.guarantee("SEC-2")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.dictionaries(NAME, CONTENT, max_size=4),
    after=st.dictionaries(NAME, st.one_of(CONTENT, st.just("link"), st.just("executable")), max_size=4),
)
def test_any_patch_reproduces_its_tree(
    tmp_path_factory: pytest.TempPathFactory, before: dict[bytes, bytes], after: dict[bytes, bytes | str]
) -> None:
    """Whatever names and contents: the patch, applied to the base, is exactly the tree, and lists exactly the paths."""
    root = tmp_path_factory.mktemp("any")
    tree = root / "tree"
    tree.mkdir()
    review = ReviewGit(root / "review.git", tree, files=Files())

    def write(entries: dict[bytes, bytes | str] | dict[bytes, bytes]) -> None:
        shutil.rmtree(tree)
        tree.mkdir()
        for name, content in entries.items():
            path = Path(os.fsdecode(os.fsencode(tree) + b"/" + name))
            if content == "link":
                path.symlink_to("/etc/passwd")
            else:
                path.write_bytes(content if isinstance(content, bytes) else b"#!/bin/sh\n")
                path.chmod(0o755 if content == "executable" else 0o644)

    async def run() -> None:
        write(before)
        await review.prepare()
        base = (await review.snapshot()).tree
        write(after)
        taken = await review.snapshot()
        patch, _ = await review.patch(base, taken.tree, limit=PATCH_BYTES)
        (root / "p").write_bytes(patch)
        assert await review.reproduces(base, taken.tree, root / "p")
        if not taken.skipped and b".gitignore" not in after and b".gitignore" not in before:
            assert set(listing(review, taken.tree, root)) >= set(after)

    anyio.run(run)


def listing(review: ReviewGit, tree: str, root: Path) -> dict[bytes, bytes]:
    """Return path to mode of a tree in the review repository."""
    out = subprocess.run(
        ["git", "ls-tree", "-r", "-z", tree], cwd=root / "review.git", capture_output=True, check=True, timeout=30
    ).stdout
    return {line.partition(b"\t")[2]: line.partition(b" ")[0] for line in out.split(b"\0") if line}


def blob(review: ReviewGit, tree: str, path: str, root: Path) -> bytes:
    """Return a file's exact bytes in a tree."""
    argv = ["git", "cat-file", "blob", f"{tree}:{path}"]
    return subprocess.run(argv, cwd=root / "review.git", capture_output=True, check=True, timeout=30).stdout


async def test_no_file_is_written_on_the_event_loop(tmp_path: Path) -> None:
    """A sync of a slow disk, or the copy of a large index, holds up nobody else's turn."""

    class Watching(Files):
        def __init__(self) -> None:
            self.threads: set[int] = set()

        def write_atomic(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
            self.threads.add(threading.get_ident())
            super().write_atomic(path, data, mode=mode)

        def make_private(self, path: Path) -> Path:
            self.threads.add(threading.get_ident())
            return super().make_private(path)

    files, tree = Watching(), tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("one\n")
    review = ReviewGit(tmp_path / "git", tree, files=files)
    await review.prepare()
    first = await review.snapshot()
    assert (await review.snapshot()).tree == first.tree
    assert files.threads
    assert threading.get_ident() not in files.threads
    assert not list((tmp_path / "git").glob("index-*"))
