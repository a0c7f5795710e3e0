"""How the files of one checkout differ from its index, and the index from HEAD.

The comparison uses an index of Jam's own with the same entries: it hides no path, trusts no time, and knows no nested repository, into
which git would look otherwise. Which files there are is known from the walk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anyio import to_thread

from jamcore.domain.limits import INSPECTION_ENTRIES
from jamcore.workspace.git_files import Checkout
from jamcore.workspace.inspection.own_git import OwnGit, UnansweredError
from jamcore.workspace.inspection.survey import SeenFile, Tree

_AS_THEY_ARE = b"* !filter !ident !working-tree-encoding !text !eol !crlf\n"
_ENTRY = re.compile(rb"(.) ((\d{6}) ([0-9a-f]+) [0-3]\t(.+))", re.DOTALL)
_SUBMODULE = b"160000"


@dataclass(slots=True)
class Changes:
    """Names, by path relative to the checkout; files that git does not know as the walk saw them."""

    staged: list[bytes] = field(default_factory=list)
    unstaged: list[bytes] = field(default_factory=list)
    untracked: list[SeenFile] = field(default_factory=list)
    ignored: list[SeenFile] = field(default_factory=list)


@dataclass(slots=True)
class _Index:
    """What the checkout's index holds: its entries as git reads them, submodules apart, and paths that are meant to be absent."""

    paths: set[bytes] = field(default_factory=set)
    entries: list[bytes] = field(default_factory=list)
    submodules: dict[bytes, bytes] = field(default_factory=dict)
    sparse: set[bytes] = field(default_factory=set)


class CheckoutLook:
    """One checkout, which a directory of scratch files belongs to."""

    def __init__(self, git: OwnGit, checkout: Checkout, scratch: Path) -> None:
        self._git = git
        self._checkout = checkout
        self._copy = scratch / "copied-index"
        self._own = scratch / "own-index"
        self._index = _Index()
        self.changes = Changes()

    async def staged(self) -> None:
        """Find what only the index holds.

        Raises:
            UnansweredError: It is too long, or git cannot read it or HEAD's files.
        """
        if self._checkout.index is None:
            return  # as git has it before the first `add`
        if int.from_bytes(self._checkout.index[8:12]) > INSPECTION_ENTRIES:
            raise UnansweredError(f"its index has more than {INSPECTION_ENTRIES} files")
        await to_thread.run_sync(self._copy.write_bytes, self._checkout.index)
        listed = await self._git.ask("index", "ls-files", "--stage", "-t", "-z", index=self._copy)
        self._index = _parsed(listed)
        if self._checkout.head is None:
            self.changes.staged = sorted(self._index.paths)
            return
        diff = ("diff-index", "--cached", "--name-only", "-z", "--no-renames", "--ignore-submodules=none")
        answer = await self._git.ask("index", *diff, self._checkout.head.decode(), "--", index=self._copy)
        self.changes.staged = _names(answer)

    async def files(self, tree: Tree, path: Path, nested: Mapping[bytes, bytes | None]) -> None:
        """Find what differs on the disk, after :meth:`staged`.

        Args:
            tree: The checkout as the walk saw it.
            path: Its directory.
            nested: Commits of the repositories inside, by path relative to the tree.

        Raises:
            UnansweredError: Git could not say.
        """
        present = {file.path for file in tree.files}
        differing = set(await self._differing(path)) - (self._index.sparse - present)
        moved = {name for name, commit in self._index.submodules.items() if name in nested and nested[name] != commit}
        self.changes.unstaged = sorted(differing | moved)
        others = [file for file in tree.files if file.path not in self._index.paths]
        ignored = await self._ignored(path, others)
        self.changes.ignored = [file for file in others if file.path in ignored]
        self.changes.untracked = [file for file in others if file.path not in ignored]

    async def _differing(self, path: Path) -> Iterable[bytes]:
        """Return files that are not what the index says: neither their bytes, nor what git makes of them (an engine's git converts)."""
        if not self._index.entries:
            return ()
        entries = b"".join(entry + b"\0" for entry in self._index.entries)
        await self._git.ask("index", "update-index", "-z", "--index-info", stdin=entries, index=self._own)
        attributes = self._git.directory / "info" / "attributes"
        attributes.write_bytes(_AS_THEY_ARE)
        changed = await self._compared(path)
        attributes.unlink()
        if changed:
            converted = set(await self._compared(path))
            changed = [name for name in changed if name in converted]
        return changed

    async def _compared(self, path: Path) -> list[bytes]:
        # The code of the first says only that some differ.
        await self._git.ask("files", "update-index", "-q", "--refresh", index=self._own, tree=path, codes=(0, 1))
        diff = ("diff-files", "--name-only", "-z", "--no-renames", "--ignore-submodules=all", "--no-ext-diff")
        return _names(await self._git.ask("files", *diff, index=self._own, tree=path))

    async def _ignored(self, path: Path, files: list[SeenFile]) -> set[bytes]:
        if not files:
            return set()
        asked = b"".join(b"./" + file.path + b"\0" for file in files)  # what begins with a colon would be a pattern
        argv = ("check-ignore", "--no-index", "-z", "--stdin")
        answer = await self._git.ask("ignored files", *argv, stdin=asked, tree=path, codes=(0, 1))
        return {name[2:] for name in _names(answer)}


def _parsed(listed: bytes) -> _Index:
    index = _Index()
    for line in listed.split(b"\0"):
        if entry := _ENTRY.fullmatch(line):
            tag, whole, mode, commit, path = entry.groups()
            index.paths.add(path)
            if mode == _SUBMODULE:
                index.submodules[path] = commit
            else:
                index.entries.append(whole)
            if tag == b"S":
                index.sparse.add(path)
    return index


def _names(answer: bytes) -> list[bytes]:
    return list(dict.fromkeys(name for name in answer.split(b"\0") if name))
