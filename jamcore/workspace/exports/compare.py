"""Compares a tree on the disk with the entries that describe it: everything that differs is named (WS-5, WS-13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from jamcore.domain.checkpoint_exports import spelled, unspelled
from jamcore.domain.exports import ExportedKind, ExportEntry, TreeTotals
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names
from jamcore.workspace.exports.describing import Learned, spelled_attributes, spelled_path
from jamcore.workspace.exports.learning import learn
from jamcore.workspace.exports.survey import MODES, Item, Named, survey

OTHER_TIME = "has another modification time"
"""What many ways of copying do to every file, and what hides nothing."""
_MODES = 0o7777


class TreeComparison:
    """One tree, looked at and read; entries are then held against it, one after the other."""

    def __init__(
        self,
        root: int,
        top: str,
        found: Named,
        calls: TreeCalls,
        alive: Callable[[], None] = lambda: None,
        *,
        leave_out: AbstractSet[Names] | None = None,
    ) -> None:
        """Look at the tree and read it.

        Args:
            root: The open directory.
            top: Its name in the export.
            found: Takes what differs.
            calls: How it is read.
            alive: Called often; raises when the caller gave up.
            leave_out: The tree is the one that was exported: it has what was left out, this on request, and bits that were stripped.
        """
        self._modes = _MODES if leave_out is None else MODES
        self._original = leave_out is not None
        self._top = top
        self._found = found
        look = survey(root, calls, leave_out=leave_out or frozenset(), alive=alive)
        self._learned, changed = learn(root, look, calls, alive)
        for path in changed:
            found.add(self._below(path), "changed while it was read")
        for text in look.refused.first:
            found.add((f"{top}/{text}".encode(),))
        self._items = {spelled_path(top, item.path): item for item in look.items}
        self._counts = dict.fromkeys(ExportedKind, 0)
        self._bytes = 0

    def take(self, entry: ExportEntry) -> None:
        """Hold one entry against the tree."""
        self._counts[entry.kind] += 1
        self._bytes += entry.size if entry.same_file_as is None else 0
        if entry.kind is ExportedKind.LEFT_OUT:
            self._take_left_out(entry)
            return
        path = tuple(unspelled(entry.path).split(b"/"))
        item = self._items.pop(entry.path, None)
        if item is None:
            self._found.add(path, "is missing")
            return
        for problem in self._problems(entry, item, self._learned):
            self._found.add(path, problem, lesser=problem == OTHER_TIME)

    def _take_left_out(self, entry: ExportEntry) -> None:
        item = self._items.get(entry.path)
        if self._original and item is not None and item.kind is ExportedKind.LEFT_OUT:
            del self._items[entry.path]

    def end(self) -> TreeTotals:
        """Name what no entry told of, and return what the entries told of."""
        for item in self._items.values():
            self._found.add(self._below(item.path), "is not in the list of entries")
        return TreeTotals(
            files=self._counts[ExportedKind.FILE],
            directories=self._counts[ExportedKind.DIRECTORY],
            symlinks=self._counts[ExportedKind.SYMLINK],
            left_out=self._counts[ExportedKind.LEFT_OUT],
            bytes_total=self._bytes,
        )

    def _below(self, path: Names) -> Names:
        return (self._top.encode(), *path)

    def _problems(self, entry: ExportEntry, item: Item, learned: Mapping[Names, Learned]) -> list[str]:
        if entry.kind is not item.kind:
            return [f"is {item.why or f'a {item.kind}'} instead of a {entry.kind}"]
        of = learned.get(item.same_as or item.path)
        if of is None:
            return []  # it changed while it was read, which is said already
        problems: list[str] = []
        if item.mtime_ns != entry.mtime_ns:
            problems.append(OTHER_TIME)
        if entry.kind is ExportedKind.SYMLINK:
            return problems if spelled(of.target) == entry.target else [*problems, "has another link target"]
        if f"{item.mode & self._modes:04o}" != entry.mode:
            problems.append(f"has the mode {item.mode & self._modes:04o} instead of {entry.mode}")
        if spelled_attributes(of.attributes) != entry.attributes:
            problems.append("has other extended attributes")
        return problems + (self._content(entry, item, of) if entry.kind is ExportedKind.FILE else [])

    def _content(self, entry: ExportEntry, item: Item, of: Learned) -> list[str]:
        same_as = spelled_path(self._top, item.same_as) if item.same_as is not None else None
        problems = [] if same_as == entry.same_file_as else ["has other hard links"]
        if item.size != entry.size:
            problems.append(f"has {item.size} bytes instead of {entry.size}")
        elif of.stream is None or of.stream.sha256 != entry.sha256:
            problems.append("has other content")
        return problems
