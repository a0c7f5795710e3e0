"""A bounded look at a private clone that an agent could write: what would be lost with it (OWN-9, SEC-2).

Git is run in a new git directory of Jam's own, which borrows the clone's objects and nothing else: no configuration, hook, filter or
attribute driver of the clone is ever read by it. References and HEAD are read without git (:mod:`jamcore.workspace.git_files`). Whatever
cannot be looked at is named as unknown; it is never taken for nothing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread

from jamcore.domain.clone_work import SHOWN, CloneWork
from jamcore.system.git import run_git
from jamcore.system.process import Finished
from jamcore.workspace.git_files import Checkout, GitFiles, read_git_directory

LOOK_LIMIT_S = 35.0
"""For the whole look: 100,000 files are hashed within it unless the disk is slow. With an engine's own answers, of 12 s each, it has to fit
into the minute in which a client's question is answered. What takes longer is unknown."""
COMMITS = 1000
"""Commits that are counted; a person needs to know that there are some, not how many thousand."""
PATHS = 100_000
_NAMES_BYTES = 16 << 20
_NAME_CHARACTERS = 120
_AS_THEY_ARE = b"* !filter !ident !working-tree-encoding !text !eol !crlf\n"
_SETTINGS = ("core.commitGraph=false", "core.multiPackIndex=false")
"""Files beside the objects that could say something else than these."""


class _UnansweredError(Exception):
    """Git failed, took too long, or said more than is taken."""


@dataclass(slots=True)
class _Seen:
    paths: dict[bytes, bytes] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    more: bool = False


async def look_at_clone(path: Path, commit: str, *, guest_path: str, scratch: Path, limit_s: float = LOOK_LIMIT_S) -> CloneWork:
    """Say what a clone holds beyond the commit that it was made from. Changes nothing in it, and executes nothing of it.

    Args:
        path: Its directory on the host.
        commit: What it was made from, in hex.
        guest_path: Where its guest sees it: linked worktrees are recorded by that path.
        scratch: A private directory, which exists.
        limit_s: When it takes longer, what is missing is unknown.
    """
    seen = _Seen()
    files = GitFiles()
    with anyio.move_on_after(limit_s) as scope:
        files = await to_thread.run_sync(read_git_directory, path, abandon_on_cancel=True)
        seen.unknown += files.unknown
        if files.whole:
            with tempfile.TemporaryDirectory(dir=scratch, prefix="index-") as directory:
                await _Look(path, commit, guest_path, Path(directory), files, seen).look()
    if scope.cancelled_caught:
        # How far it got differs each time: said, that would be evidence that nobody can confirm.
        seen = _Seen(unknown=[*files.unknown, f"it could not be looked at within {limit_s:g} seconds"])
    return await to_thread.run_sync(_record, path, commit, files, seen)


class _Look:
    """Asks a git directory of its own about the clone's objects and work trees."""

    def __init__(self, clone: Path, commit: str, guest_path: str, directory: Path, files: GitFiles, seen: _Seen) -> None:
        self._clone = clone
        self._commit = commit
        self._guest = os.fsencode(guest_path) + b"/"
        self._git = directory / "git"
        self._scratch = directory
        self._files = files
        self._seen = seen

    async def look(self) -> None:
        """Look at everything; a question without an answer stops none of the others."""
        if not await self._answered("objects", self._prepare()):
            return
        await self._answered("commits", self._commits())
        for checkout in self._files.checkouts:
            tree = self._tree(checkout)
            if tree is not None:
                await self._answered(f"index in {checkout.name}", self._staged(checkout))
                await self._answered(f"files in {checkout.name}", self._changed(checkout, tree))

    async def _answered(self, question: str, asking: Awaitable[None]) -> bool:
        try:
            await asking
        except _UnansweredError:
            self._seen.unknown.append(f"git could not answer about its {question}")
            return False
        return True

    async def _prepare(self) -> None:
        self._git.mkdir()
        kind = "sha256" if len(self._commit) == 64 else "sha1"
        await self._need("init", "--quiet", "--bare", "--template=", f"--object-format={kind}", ".")
        if self._files.shallow:
            (self._git / "shallow").write_bytes(b"\n".join(self._files.shallow) + b"\n")

    async def _commits(self) -> None:
        """Count what the first commit does not hold."""
        tips = sorted(set(self._files.tips.values()))
        question = b"".join(tip + b"\n" for tip in tips) + f"^{self._commit}\n".encode()
        listed = await self._need("rev-list", f"--max-count={COMMITS + 1}", "--stdin", stdin=question)
        found = listed.decode(errors="replace").split()
        self._seen.more |= len(found) > COMMITS
        self._seen.commits += found[:COMMITS]

    def _tree(self, checkout: Checkout) -> Path | None:
        """Return where a checkout's files lie on the host; ``None``: they are gone, or cannot be looked at."""
        if checkout.place is None:
            return self._clone
        inside = self._inside(checkout)
        if inside is None or b".." in inside.split(b"/"):
            self._seen.unknown.append(f"the files in {checkout.name}, which lies outside the clone")
            return None
        tree = self._clone / os.fsdecode(inside)
        if not os.path.lexists(tree):
            return None  # its commits were counted
        if tree.resolve() != self._clone.resolve() / os.fsdecode(inside) or not tree.is_dir():
            self._seen.unknown.append(f"the files in {checkout.name}, which is reached through a link")
            return None
        return tree

    def _inside(self, checkout: Checkout) -> bytes | None:
        """Return a checkout's path below the clone, empty for the clone itself, or ``None`` when it lies elsewhere."""
        if checkout.place is None:
            return b""
        if not checkout.place.startswith(self._guest) or not checkout.place.endswith(b"/.git"):
            return None
        return checkout.place[len(self._guest) : -len(b"/.git")] or None

    async def _staged(self, checkout: Checkout) -> None:
        """What only the checkout's own index holds."""
        if checkout.index is None:
            return
        index = self._scratch / "staged"
        await to_thread.run_sync(index.write_bytes, checkout.index)
        argv: tuple[str, ...] = ("ls-files", "-z", "--cached")
        if checkout.head is not None:
            diff = ("diff-index", "--cached", "--name-only", "-z", "--no-renames", "--ignore-submodules=all")
            argv = (*diff, checkout.head.decode(), "--")
        self._note(self._split(await self._run(*argv, env={"GIT_INDEX_FILE": str(index)})), b"staged", checkout)

    async def _changed(self, checkout: Checkout, tree: Path) -> None:
        """What the files on the disk are, compared with HEAD: in an index of Jam's own, which hides no path and trusts no time."""
        env = {"GIT_INDEX_FILE": str(self._scratch / "index")}
        await self._need("read-tree", *((checkout.head.decode(),) if checkout.head else ("--empty",)), env=env)
        # For a nested repository that it knows, git would look inside, with that repository's configuration. Forgotten, it is untracked.
        staged = await self._need("ls-files", "--stage", "-z", env=env)
        links = [entry.partition(b"\t")[2] for entry in staged.split(b"\0") if entry.startswith(b"160000 ")]
        if links:
            removals = b"".join(b"0 %s\t%s\0" % (b"0" * len(self._commit), path) for path in links)
            await self._need("update-index", "-z", "--index-info", env=env, stdin=removals)
        # A file is as it was if its bytes are the commit's, or if what git makes of them is: an engine's git may have converted line ends.
        attributes = self._git / "info" / "attributes"
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_bytes(_AS_THEY_ARE)
        changed = await self._differing(env, tree)
        attributes.unlink()
        if changed:
            converted = set(await self._differing(env, tree))
            changed = [name for name in changed if name in converted]
        self._note(changed, b"changed", checkout)
        others = await self._run("ls-files", "--others", "--exclude-standard", "-z", env=env, work_tree=tree)
        if others.stderr:  # a directory that cannot be opened is a warning alone
            raise _UnansweredError
        self._note(self._split(others), b"untracked", checkout)

    async def _differing(self, env: dict[str, str], tree: Path) -> list[bytes]:
        """Return the files that are not what the index says."""
        await self._run("update-index", "-q", "--refresh", env=env, work_tree=tree)  # its code says only that some differ
        differ = ("diff-files", "--name-only", "-z", "--no-renames", "--ignore-submodules=all", "--no-ext-diff")
        return self._split(await self._run(*differ, env=env, work_tree=tree))

    def _note(self, names: list[bytes], how: bytes, checkout: Checkout) -> None:
        inside = self._inside(checkout)
        start = inside + b"/" if inside else b""
        linked = {place for other in self._files.checkouts if (place := self._inside(other))}
        for name in names:
            path = start + name
            if path.removesuffix(b"/") not in linked:  # a linked worktree is looked at by itself
                self._seen.paths.setdefault(path, how)

    def _split(self, done: Finished) -> list[bytes]:
        """Return the paths that git listed; a listing that is too long is cut, and said to be."""
        if done.returncode != 0 or done.timed_out:
            raise _UnansweredError
        names = done.stdout.split(b"\0")
        self._seen.more |= done.truncated or len(names) > PATHS
        return [name for name in names[:-1] if name][:PATHS]  # what follows the last zero is nothing, or cut

    async def _need(self, *argv: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> bytes:
        done = await self._run(*argv, env=env, stdin=stdin)
        if not done.ok:
            raise _UnansweredError
        return done.stdout

    async def _run(
        self, *argv: str, env: dict[str, str] | None = None, stdin: bytes = b"", work_tree: Path | None = None
    ) -> Finished:
        return await run_git(
            *argv,
            cwd=work_tree or self._git,
            git_directory=self._git,
            work_tree=work_tree,
            settings=_SETTINGS,
            environment={
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self._clone / ".git" / "objects"),
                "GIT_NO_LAZY_FETCH": "1",
                "GIT_NO_REPLACE_OBJECTS": "1",
                **(env or {}),
            },
            limit_bytes=_NAMES_BYTES,
            timeout_s=LOOK_LIMIT_S,
            stdin=stdin,
        )


def _record(clone: Path, commit: str, files: GitFiles, seen: _Seen) -> CloneWork:
    digest = hashlib.sha256()
    for name, value in sorted(files.tips.items()):
        digest.update(b"%s\0%s\0" % (name, value))
    names = sorted(seen.paths)
    for name in names:
        digest.update(b"%s\0%s\0%s\0" % (name, seen.paths[name], _looks(clone / os.fsdecode(name))))
    return CloneWork(
        commit=commit,
        uncommitted=len(names),
        paths=tuple(_text(name) for name in names[:SHOWN]),
        commits=len(seen.commits),
        first_commits=tuple(found[:12] for found in seen.commits[:SHOWN]),
        operations=tuple(sorted(_text(os.fsencode(name)) for name in files.operations)),
        unknown=tuple(dict.fromkeys(_text(os.fsencode(words)) for words in seen.unknown)),
        more=seen.more,
        state=digest.hexdigest(),
    )


def _looks(path: Path) -> bytes:
    try:
        found = path.lstat()
    except OSError:
        return b"gone"
    return b"%o %d %d" % (found.st_mode, found.st_size, found.st_mtime_ns)


def _quoted(path: Path) -> str:
    """Write a path for a list of paths, in which a colon ends one."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text(raw: bytes) -> str:
    """Return bytes as bounded text that can be shown: what is no text, and control characters, are escaped."""
    text = raw.decode(errors="backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return shown if len(shown) <= _NAME_CHARACTERS else shown[:_NAME_CHARACTERS] + "…"
