"""Snapshots of a work tree that an agent can write, in a git directory that only Jam can write (SEC-2).

The git directory lies outside every mount. Attributes in the work tree that name a driver or convert bytes are overruled by the git
directory's own attributes file, which has the highest precedence.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio
from anyio import to_thread

from jamcore.domain.errors import FaultError
from jamcore.system.files import Files
from jamcore.system.git import run_git
from jamcore.system.process import Finished

_ATTRIBUTES = b"* !filter !diff !merge !ident !working-tree-encoding !text !eol !crlf\n"
_NAMES_LIMIT = 64 << 20
_LINK_MODE = b"\x00\x00\xe0\x00"
"""The mode of a nested repository as an index holds it; other bytes may look alike, so this only says whether to look closer."""
_SKIPPED_LINES, _SKIPPED_CHARACTERS = 20, 200


@dataclass(eq=False)
class ReviewGitError(FaultError):
    """Git could not read the work tree or the review repository."""

    code: ClassVar[str] = "review.git_failed"
    hint: ClassVar[str] = "The work tree is untouched; the context has git's own words."

    step: str
    detail: str


@dataclass(frozen=True, slots=True)
class RawChange:
    """One changed path: modes as git's octal text, ``status`` one of A M D T, the path's exact bytes."""

    old_mode: str
    new_mode: str
    status: str
    path: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tree, and git's bounded words on what it could not take; empty: the tree is the whole work tree."""

    tree: str
    skipped: tuple[str, ...] = ()


class ReviewGit:
    """Trees of one work tree, kept in one private git directory. Stateless between calls."""

    def __init__(self, git_directory: Path, work_tree: Path, *, files: Files) -> None:
        self._git = git_directory
        self._tree = work_tree
        self._files = files

    @property
    def work_tree(self) -> Path:
        """The directory that is looked at."""
        return self._tree

    async def prepare(self) -> None:
        """Make the git directory; an existing one is kept."""
        await to_thread.run_sync(self._files.make_private, self._git)
        if not (self._git / "HEAD").exists():
            await self._run("init", "init", "--quiet", "--bare", "--template=", ".")
        await to_thread.run_sync(self._write_attributes)

    def _write_attributes(self) -> None:
        self._files.make_private(self._git / "info")
        self._files.write_atomic(self._git / "info" / "attributes", _ATTRIBUTES)

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[Path]:
        """Yield a directory for one index. Making, copying and removing an index of 100,000 files is no work for the event loop."""
        directory = await to_thread.run_sync(partial(tempfile.TemporaryDirectory, dir=self._git, prefix="index-"))
        try:
            yield Path(directory.name)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(directory.cleanup)

    async def snapshot(self, *, also: bytes = b"") -> Snapshot:
        """Store the work tree as it is now.

        Ignored files stay out, as they would in any change that a person reviews, unless an earlier snapshot had them; nested repositories
        become links, never read. What git cannot take (a nested repository without a commit, a file it may not read) is named.

        Args:
            also: NUL-separated paths that are taken although they are ignored: what the repository tracks all the same.
        """
        async with self._scratch() as directory:
            index, last = directory / "index", self._git / "index"
            # Git trusts its own record of sizes and times, so that an unchanged tree is not read again.
            await to_thread.run_sync(_copy_if_there, last, index)
            env = {"GIT_INDEX_FILE": str(index)}
            await self._forget_links(index, env)
            done = await self._git_command("add", "--all", "--ignore-errors", "--", ":/", env=env, work_tree=True)
            if done.returncode not in (0, 1) or done.timed_out:
                raise ReviewGitError(step="add", detail=done.stderr.decode(errors="replace")[-300:])
            if also:
                paths = directory / "paths"
                await to_thread.run_sync(paths.write_bytes, also)
                force = ("add", "--force", "--ignore-errors", f"--pathspec-from-file={paths}", "--pathspec-file-nul")
                await self._git_command("--literal-pathspecs", *force, env=env, work_tree=True)
            tree = (await self._run("write-tree", "write-tree", env=env)).decode().strip()
            index.replace(last)
            return Snapshot(tree=tree, skipped=_skipped(done.stderr) if done.returncode == 1 else ())

    async def _forget_links(self, index: Path, env: dict[str, str]) -> None:
        """Take nested repositories out of an index before it is compared with the work tree; they are found there again.

        For each that it knows, git would run ``git status`` inside it, with the configuration, and so the programs, of whoever wrote it.
        """
        if not await to_thread.run_sync(_may_hold_links, index):
            return
        staged = await self._run("links", "ls-files", "--stage", "-z", env=env, limit=_NAMES_LIMIT)
        links = [entry.partition(b"\t")[2] for entry in staged.split(b"\0") if entry.startswith(b"160000 ")]
        removals = b"".join(b"0 %s\t%s\0" % (b"0" * 40, path) for path in links)
        if removals:
            await self._run("links", "update-index", "-z", "--index-info", env=env, stdin=removals)

    async def keep(self, name: str, tree: str) -> None:
        """Give a tree a name that survives; the same name again with another tree replaces it."""
        await self._run("keep", "update-ref", f"refs/jam/{name}", tree)

    async def kept(self, name: str) -> str | None:
        """Return the tree of a name, or ``None``."""
        done = await self._git_command("rev-parse", "--verify", "--quiet", f"refs/jam/{name}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    async def changes(self, base: str, tree: str) -> tuple[RawChange, ...]:
        """List what differs between two trees, in path order; a rename is a deletion and an addition."""
        argv = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", base, tree)
        return tuple(_parse_raw(await self._run("diff", *argv, limit=_NAMES_LIMIT)))

    async def patch(self, base: str, tree: str, *, limit: int) -> tuple[bytes, bool]:
        """Return the binary-safe patch between two trees and whether it was cut at ``limit`` bytes."""
        argv = ("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        done = await self._git_command("diff-tree", *argv, base, tree, limit=limit)
        if done.returncode != 0 and not done.truncated:
            raise ReviewGitError(step="patch", detail=done.stderr.decode(errors="replace"))
        return done.stdout, done.truncated

    async def reproduces(self, base: str, tree: str, patch: Path) -> bool:
        """Say whether applying the patch file to ``base`` gives exactly ``tree``: the proof that it is whole."""
        if base == tree:
            return patch.stat().st_size == 0
        async with self._scratch() as directory:
            index = {"GIT_INDEX_FILE": str(directory / "index")}
            await self._run("read-tree", "read-tree", base, env=index)
            await self._run("apply", "apply", "--cached", "--binary", "--whitespace=nowarn", str(patch), env=index)
            return (await self._run("write-tree", "write-tree", env=index)).decode().strip() == tree

    async def _run(
        self,
        step: str,
        *argv: str,
        env: dict[str, str] | None = None,
        limit: int = 1 << 20,
        work_tree: bool = False,
        stdin: bytes = b"",
    ) -> bytes:
        done = await self._git_command(*argv, env=env, limit=limit, work_tree=work_tree, stdin=stdin)
        if not done.ok:
            raise ReviewGitError(step=step, detail=done.stderr.decode(errors="replace")[-300:])
        return done.stdout

    async def _git_command(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        limit: int = 1 << 20,
        work_tree: bool = False,
        stdin: bytes = b"",
    ) -> Finished:
        return await run_git(
            *argv,
            cwd=self._tree if work_tree else self._git,
            git_directory=self._git,
            work_tree=self._tree if work_tree else None,
            environment=env,
            limit_bytes=limit,
            stdin=stdin,
        )


async def tracked_paths(clone: Path) -> bytes:
    """Return the NUL-separated paths that a fresh clone tracks, ignored ones too. Only for a clone that no guest has written yet."""
    done = await run_git("ls-files", "-z", cwd=clone, settings=("safe.directory=*",), limit_bytes=_NAMES_LIMIT)
    return done.stdout if done.ok else b""


def _copy_if_there(source: Path, target: Path) -> None:
    if source.exists():
        shutil.copy2(source, target)


def _may_hold_links(index: Path) -> bool:
    return index.exists() and _LINK_MODE in index.read_bytes()


def _skipped(said: bytes) -> tuple[str, ...]:
    lines = [line.removeprefix("error: ") for line in said.decode(errors="replace").splitlines() if line.startswith("error: ")]
    return tuple(line[:_SKIPPED_CHARACTERS] for line in lines[:_SKIPPED_LINES]) or ("something that git did not name",)


def _parse_raw(raw: bytes) -> list[RawChange]:
    parts = raw.split(b"\0")
    found = []
    for head, path in zip(parts[::2], parts[1::2], strict=False):
        if head.startswith(b":"):
            old_mode, new_mode, _, _, status = head[1:].decode().split(" ")
            found.append(RawChange(old_mode, new_mode, status[:1], path))
    return found
