"""Copies a tree that was looked at to an empty directory, file by file in a few threads, and describes what was copied (WS-13).

Modes and times of directories come last, deepest first: an ordinary user could write nothing in a read-only directory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from jamcore.domain import limits
from jamcore.domain.exports import ExportedKind
from jamcore.system.crew import spread
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, SwappedError, owned
from jamcore.workspace.exports.describing import Learned, kept_attributes
from jamcore.workspace.exports.reading import Chain, FileReader, noting_changes, pieces
from jamcore.workspace.exports.survey import MODES, Item, Survey, require_unchanged

_SET_ID_WORDS = ((stat.S_ISUID, "set-user-id"), (stat.S_ISGID, "set-group-id"))


class TreeCopy:
    """One copy. Nothing of the source is changed, and no link of it is followed."""

    def __init__(
        self,
        calls: TreeCalls,
        source: int,
        target: int,
        *,
        owner: tuple[int, int] | None = None,
        scan: bool = False,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare it.

        Args:
            calls: How all is read and written.
            source: The open root of the tree.
            target: An empty open directory that nobody else writes; it becomes the root of the copy.
            owner: User and group of all that is made; ``None``: this process's own.
            scan: Whether to look for credentials.
            alive: Called often; raises when the caller gave up.
        """
        self._calls = calls
        self._source = source
        self._target = target
        self._owner = owner
        self._scan = scan
        self._alive = alive
        self._changed: list[Names] = []
        self._refused = Survey()
        self._lock = Lock()
        self._attribute_bytes = 0

    def run(self, survey: Survey) -> dict[Names, Learned]:
        """Copy everything that the look found and return what was learned of each path.

        Raises:
            TreeChangedError: Something was not any more what it was when looked at.
            ExportRefusedError: Something has attributes that cannot be copied.
            OSError: The machine failed.
        """
        items = survey.items
        self._make_directories(items)
        learned: dict[Names, Learned] = {}
        ordered = sorted(pieces(items), key=lambda piece: sum(item.size for item in piece), reverse=True)
        for part in spread(self._piece, ordered, self._alive):
            learned |= part
        learned |= self._links(items)
        require_unchanged(sorted(self._changed))
        self._more_names(items)
        learned |= self._finish_directories(items)
        require_unchanged(sorted(self._changed))
        self._refused.require_exportable()
        return learned

    def _make_directories(self, items: Sequence[Item]) -> None:
        with Chain(self._calls, self._target) as targets:
            for item in items:
                if item.kind is ExportedKind.DIRECTORY and item.path:
                    self._alive()
                    self._calls.make_directory(targets.at(item.path[:-1]), item.path[-1])

    def _piece(self, piece: list[Item], alive: Callable[[], None]) -> dict[Names, Learned]:
        """Copy some files, in one thread."""
        learned: dict[Names, Learned] = {}
        reader = FileReader(self._calls, alive)
        with Chain(self._calls, self._source) as sources, Chain(self._calls, self._target) as targets:
            for item in piece:
                alive()
                parent, name = item.path[:-1], item.path[-1]
                with noting_changes(self._changed, item), owned(self._calls.open_file(sources.at(parent), name)) as source:
                    learned[item.path] = self._file(item, source, targets.at(parent), reader)
        return learned

    def _file(self, item: Item, source: int, parent: int, reader: FileReader) -> Learned:
        """Copy one file.

        Raises:
            SwappedError: It is not any more what was looked at.
        """
        if not item.is_still(self._calls.status_of(source)):
            raise SwappedError
        with owned(self._calls.create(parent, item.path[-1])) as target:
            stream = reader.copy(source, item, target, scan=self._scan)
            attributes, stripped = self._attributes(item, source)
            if not item.is_still(self._calls.status_of(source)):
                raise SwappedError
            self._finish(item, target, attributes)
        return Learned(stream, b"", attributes, stripped)

    def _finish(self, item: Item, target: int, attributes: Mapping[str, bytes]) -> None:
        """Give a file or directory its attributes, owner, mode and time, in the order in which none of them undoes another."""
        for name, value in attributes.items():
            self._calls.set_attribute(target, name, value)
        if self._owner is not None:
            self._calls.set_owner(target, self._owner)
        self._calls.set_mode(target, item.mode & MODES)
        self._calls.set_time(target, item.mtime_ns)

    def _attributes(self, item: Item, source: int) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Return the attributes to keep, and in words what is not kept of the item."""
        kept, others = kept_attributes(self._calls.attributes(source))
        size = sum(len(os.fsencode(name)) + len(value) for name, value in kept.items())
        with self._lock:
            self._attribute_bytes += size
            if size > limits.EXPORT_ATTRIBUTE_BYTES or self._attribute_bytes > limits.EXPORT_TEXT_BYTES:
                self._refused.refused.add(item.path, "its extended attributes are too large")
                return {}, ()
        words = [word for bit, word in _SET_ID_WORDS if item.mode & bit]
        return kept, (*words, *others)

    def _links(self, items: Sequence[Item]) -> dict[Names, Learned]:
        """Make the symbolic links, each proven to be the one that was looked at."""
        learned: dict[Names, Learned] = {}
        with Chain(self._calls, self._source) as sources, Chain(self._calls, self._target) as targets:
            for item in items:
                if item.kind is ExportedKind.SYMLINK:
                    self._alive()
                    with noting_changes(self._changed, item):
                        parent, name = sources.at(item.path[:-1]), item.path[-1]
                        target = self._calls.target(parent, name)
                        if not item.is_still(self._calls.status(parent, name)):
                            raise SwappedError
                        self._link(item, target, targets.at(item.path[:-1]))
                        learned[item.path] = Learned(target=target)
        return learned

    def _link(self, item: Item, target: bytes, parent: int) -> None:
        name = item.path[-1]
        self._calls.make_link(target, parent, name)
        if self._owner is not None:
            self._calls.set_link_owner(parent, name, self._owner)
        self._calls.set_link_time(parent, name, item.mtime_ns)

    def _more_names(self, items: Sequence[Item]) -> None:
        """Give files that have several names all of them."""
        with Chain(self._calls, self._target) as firsts, Chain(self._calls, self._target) as targets:
            for item in items:
                if item.same_as is not None:
                    self._alive()
                    first = firsts.at(item.same_as[:-1])
                    self._calls.link(first, item.same_as[-1], targets.at(item.path[:-1]), item.path[-1])

    def _finish_directories(self, items: Sequence[Item]) -> dict[Names, Learned]:
        learned: dict[Names, Learned] = {}
        with Chain(self._calls, self._source) as sources, Chain(self._calls, self._target) as targets:
            for item in reversed(items):
                if item.kind is ExportedKind.DIRECTORY:
                    self._alive()
                    with noting_changes(self._changed, item):
                        attributes, stripped = self._attributes(item, sources.at(item.path))
                        self._finish(item, targets.at(item.path), attributes)
                        learned[item.path] = Learned(attributes=attributes, stripped=stripped)
        return learned
