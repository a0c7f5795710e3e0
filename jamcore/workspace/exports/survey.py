"""Looks at a whole tree before any of it is copied: what is in it, and what of it cannot be exported exactly (WS-13).

The same look, taken again after the copy, says whether the tree stood still: every name must be the same file with the same times.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from jamcore.domain import limits
from jamcore.domain.exports import ExportedKind, ExportRefusedError, Listed, NotLeftOutError, TreeChangedError, TreeTotals
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, owned, shown

MODES = 0o1777
"""Mode bits that are kept. Set-id bits never are (SEC-1)."""
SET_ID = stat.S_ISUID | stat.S_ISGID

ON_REQUEST = "left out on request"
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
_LEFT_OUT: Mapping[int, str] = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
_REFUSED: Mapping[int, str] = {stat.S_IFBLK: "it is a block device", stat.S_IFCHR: "it is a character device"}


@dataclass(frozen=True, slots=True)
class Item:
    """One name below the root and what it was when looked at; the root itself has no names.

    ``same_as``: an earlier path of the same file. ``why``: why it is left out.
    """

    path: Names
    kind: ExportedKind
    device: int
    inode: int
    mode: int
    links: int
    size: int
    blocks: int
    mtime_ns: int
    ctime_ns: int
    same_as: Names | None = None
    why: str = ""

    @property
    def has_holes(self) -> bool:
        """Whether less is stored than the size says."""
        return self.blocks * 512 < self.size

    def is_still(self, status: os.stat_result) -> bool:
        """Say whether an open file or directory is what was looked at, unchanged."""
        now = (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return now == (self.device, self.inode, self.mode, self.size, self.mtime_ns, self.ctime_ns)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one tree may hold."""

    entries: int = limits.EXPORT_ENTRIES
    bytes_total: int = limits.EXPORT_BYTES
    depth: int = limits.EXPORT_DEPTH
    path_bytes: int = limits.EXPORT_PATH_BYTES
    text_bytes: int = limits.EXPORT_TEXT_BYTES


class Named:
    """Counts paths with what is wrong with them, and keeps the first; what matters less stands after all else."""

    def __init__(self, at_most: int = limits.EXPORT_LISTED) -> None:
        self.total = 0
        self._lesser = 0
        self._kept: tuple[list[str], list[str]] = ([], [])
        self._at_most = at_most

    def add(self, path: Names, what: str = "", *, lesser: bool = False) -> None:
        """Take one."""
        self.total += 1
        self._lesser += lesser
        if len(kept := self._kept[lesser]) < self._at_most:
            kept.append(f"{shown(path) or '.'}: {what}" if what else shown(path) or ".")

    @property
    def first(self) -> list[str]:
        """The first of them, what matters less last."""
        return [text for kept in self._kept for text in kept][: self._at_most]

    @property
    def only_lesser(self) -> bool:
        """Whether there is something, and nothing of it matters more."""
        return 0 < self.total == self._lesser

    def listed(self) -> Listed:
        """Return them as a manifest lists them."""
        return Listed(total=self.total, first=tuple(self.first))


@dataclass(slots=True)
class Survey:
    """A whole tree: every name after its directory, in the byte order of the names of each directory.

    ``not_there`` are the names that were to be passed over and are not in it.
    """

    items: list[Item] = field(default_factory=list)
    refused: Named = field(default_factory=Named)
    not_there: tuple[Names, ...] = ()

    def require_exportable(self) -> None:
        """Raise unless all of it can be exported.

        Raises:
            ExportRefusedError: Names what cannot.
        """
        if self.refused.total:
            raise ExportRefusedError(total=self.refused.total, named=tuple(self.refused.first))

    def require_left_out(self) -> None:
        """Raise unless everything that was to be left out is there: who misspells a name would lose, or keep, something else.

        Raises:
            NotLeftOutError: Names what is not.
        """
        if self.not_there:
            raise NotLeftOutError(named=tuple(map(shown, self.not_there)))

    def totals(self) -> TreeTotals:
        """Count what is in it."""
        kinds = [item.kind for item in self.items]
        return TreeTotals(
            files=kinds.count(ExportedKind.FILE),
            directories=kinds.count(ExportedKind.DIRECTORY),
            symlinks=kinds.count(ExportedKind.SYMLINK),
            left_out=kinds.count(ExportedKind.LEFT_OUT),
            bytes_total=sum(item.size for item in self.items if item.kind is ExportedKind.FILE and item.same_as is None),
        )


def changed_between(before: Survey, after: Survey) -> Iterator[Names]:
    """Yield the paths that are not in both looks, or are not the same in both."""
    old, new = ({item.path: item for item in survey.items} for survey in (before, after))
    yield from sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def require_unchanged(paths: Sequence[Names]) -> None:
    """Raise when there are any.

    Raises:
        TreeChangedError: Names the first.
    """
    if paths:
        named = tuple(shown(path) or "." for path in paths[: limits.EXPORT_CHANGED])
        raise TreeChangedError(total=len(paths), named=named)


def survey(
    root: int,
    calls: TreeCalls,
    *,
    bounds: Bounds | None = None,
    leave_out: AbstractSet[Names] = frozenset(),
    alive: Callable[[], None] = lambda: None,
) -> Survey:
    """Look at everything below an open directory.

    Args:
        root: The directory. Other file systems below it are refused, not entered.
        calls: How it is looked at.
        bounds: The limits; the domain's by default.
        leave_out: What is passed over, with all that is below it.
        alive: Called often; raises when the caller gave up.

    Raises:
        TreeChangedError: A name was gone, or another file, before it could be looked into.
        OSError: The machine failed.
    """
    found = Survey()
    walk = _Walk(found, calls, bounds or Bounds(), leave_out, alive)
    try:
        walk.run(root)
    except _FullError as error:
        found.refused.add(error.path, error.reason)
    else:
        found.not_there = tuple(sorted(path for path in leave_out - walk.passed_over if not _within(path, leave_out)))
    return found


def _within(path: Names, others: AbstractSet[Names]) -> bool:
    """Say whether a directory above a path is one of others."""
    return any(path[:length] in others for length in range(1, len(path)))


@dataclass
class _FullError(Exception):
    path: Names
    reason: str


class _Walk:
    def __init__(
        self, found: Survey, calls: TreeCalls, bounds: Bounds, leave_out: AbstractSet[Names], alive: Callable[[], None]
    ) -> None:
        self._found = found
        self._calls = calls
        self._bounds = bounds
        self._leave_out = leave_out
        self.passed_over: set[Names] = set()
        self._alive = alive
        self._bytes = self._text = 0
        self._device = -1
        self._first_of: dict[int, Names] = {}

    def run(self, root: int) -> None:
        status = self._calls.status_of(root)
        self._device = status.st_dev
        self._take((), ExportedKind.DIRECTORY, status)
        self._directory(root, ())

    def _directory(self, directory: int, path: Names) -> None:
        for name in self._calls.names(directory, self._bounds.entries):
            self._alive()
            below = (*path, name)
            try:
                self._name(directory, below, self._calls.status(directory, name))
            except OSError as error:
                if error.errno in _GONE:
                    require_unchanged([below])
                raise

    def _name(self, parent: int, path: Names, status: os.stat_result) -> None:
        form = stat.S_IFMT(status.st_mode)
        if path in self._leave_out:
            self.passed_over.add(path)
            self._take(path, ExportedKind.LEFT_OUT, status, why=ON_REQUEST)
        elif form in _LEFT_OUT:
            self._take(path, ExportedKind.LEFT_OUT, status, why=_LEFT_OUT[form])
        elif reason := self._hindrance(parent, path, status):
            self._found.refused.add(path, reason)
        elif form == stat.S_IFDIR:
            self._take(path, ExportedKind.DIRECTORY, status)
            with owned(self._calls.open_directory(parent, path[-1])) as child:
                if not self._found.items[-1].is_still(self._calls.status_of(child)):
                    require_unchanged([path])
                self._directory(child, path)
        elif form == stat.S_IFLNK:
            self._take(path, ExportedKind.SYMLINK, status)
        else:
            self._take(path, ExportedKind.FILE, status)

    def _hindrance(self, parent: int, path: Names, status: os.stat_result) -> str:
        """Say why something cannot be exported exactly."""
        form = stat.S_IFMT(status.st_mode)
        if form in _REFUSED:
            return _REFUSED[form]
        if status.st_dev != self._device:
            return "it lies on another file system"
        if len(path) > self._bounds.depth:
            return f"it is deeper than {self._bounds.depth} directories"
        if sum(map(len, path)) + len(path) > self._bounds.path_bytes:
            return f"its path is longer than {self._bounds.path_bytes} bytes"
        if form != stat.S_IFLNK and not self._calls.may_read(parent, path[-1], directory=form == stat.S_IFDIR):
            return "it cannot be read"
        return ""

    def _take(self, path: Names, kind: ExportedKind, status: os.stat_result, *, why: str = "") -> None:
        same_as = None
        if kind is ExportedKind.FILE:
            if status.st_nlink > 1:
                same_as = self._first_of.setdefault(status.st_ino, path)
                same_as = None if same_as is path else same_as
            self._bytes += status.st_size if same_as is None else 0
        self._text += sum(map(len, path)) + len(path) + (status.st_size if kind is ExportedKind.SYMLINK else 0)
        if len(self._found.items) == self._bounds.entries:
            raise _FullError(path, f"the tree has more than {self._bounds.entries} names")
        if self._bytes > self._bounds.bytes_total:
            raise _FullError(path, f"the tree has more than {self._bounds.bytes_total} bytes, holes included")
        if self._text > self._bounds.text_bytes:
            raise _FullError(path, f"the names in the tree are more than {self._bounds.text_bytes} bytes")
        self._found.items.append(
            Item(
                path,
                kind,
                status.st_dev,
                status.st_ino,
                status.st_mode,
                status.st_nlink,
                status.st_size,
                status.st_blocks,
                status.st_mtime_ns,
                status.st_ctime_ns,
                same_as,
                why,
            )
        )
