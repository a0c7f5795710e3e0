"""Walks a work tree that an agent can write, once: which files there are, and whose they are.

Everything is opened by descriptor below the tree, no link is followed, no pipe is waited for, another file system is not entered, and
every number is bounded. A file belongs to the innermost directory above it that has a ``.git``; git directories are looked through for
locks and for the repositories of submodules, their objects are not.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jamcore.domain.limits import (
    INSPECTION_DEPTH,
    INSPECTION_ENTRIES,
    INSPECTION_NAMES_BYTES,
    INSPECTION_PATH_BYTES,
    INSPECTION_REPOSITORIES,
    INSPECTION_RULES_BYTES,
    INSPECTION_S,
    INSPECTION_UNREADABLE,
)
from jamcore.workspace.git_files import REFERENCE_BYTES, UnclearError, open_directory, read_regular

_GIT_DIRECTORY = frozenset({b"HEAD", b"objects", b"refs"})
_RULES = frozenset({b".gitignore", b".gitattributes"})
"""Files that git reads whole, wherever they lie."""


OF_THE_MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that no tree can give whoever looks at it: as blockers they would be evidence that changes with the machine."""


@dataclass(frozen=True, slots=True)
class InspectionBounds:
    """How far a look goes; :mod:`jamcore.domain.limits` says why."""

    seconds: float = INSPECTION_S
    entries: int = INSPECTION_ENTRIES
    depth: int = INSPECTION_DEPTH
    repositories: int = INSPECTION_REPOSITORIES


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A regular file or a symbolic link; ``path`` is relative to the directory that it belongs to, ``changed_ns`` its time of change."""

    path: bytes
    size: int
    changed_ns: int


@dataclass(slots=True)
class Tree:
    """A directory with a ``.git``, and the files that are its own.

    ``pointer`` is what a ``.git`` file says; ``broken``: it is neither a directory nor a file that can be read.
    """

    path: bytes
    pointer: bytes | None = None
    broken: bool = False
    problems: list[str] = field(default_factory=list)
    files: list[SeenFile] = field(default_factory=list)


@dataclass(slots=True)
class Survey:
    """What the walk found, by paths relative to the root. ``locks`` has the lock files of each git directory."""

    trees: dict[bytes, Tree] = field(default_factory=dict)
    locks: dict[bytes, list[bytes]] = field(default_factory=dict)
    outside: list[SeenFile] = field(default_factory=list)
    unreadable: dict[bytes, str] = field(default_factory=dict)
    bounds: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose the files of a directory are: a tree's, a git directory's, or nobody's."""

    tree: Tree | None = None
    store: bytes | None = None


def survey(root: Path, *, bounds: InspectionBounds, alive: Callable[[], None]) -> Survey:
    """Walk the tree. Blocking: run it in a thread.

    Args:
        root: Its directory, which is no link.
        bounds: Where the walk stops.
        alive: Called all the time; it may raise.

    Raises:
        OSError: The root itself cannot be opened.
    """
    walk = _Walk(bounds, alive)
    with open_directory(root) as here:
        walk.begin(here)
    walk.found.state = walk.digest.hexdigest()
    return walk.found


class _Walk:
    def __init__(self, bounds: InspectionBounds, alive: Callable[[], None]) -> None:
        self.found = Survey()
        self.digest = hashlib.sha256()
        self.linked: set[tuple[int, int]] = set()
        self._bounds = bounds
        self._alive = alive
        self._entries = 0
        self._letters = 0
        self._device = -1
        self._stopped = False

    def begin(self, root: int) -> None:
        """Walk everything below a descriptor."""
        self._device = os.fstat(root).st_dev
        self._directory(root, b"", 0, _Owner())

    def _directory(self, here: int, path: bytes, depth: int, owner: _Owner) -> None:
        self._alive()
        if depth > self._bounds.depth:
            self._reached(f"more than {self._bounds.depth} directories within one another", stop=False)
            return
        names = self._names(here)
        if b".git" in names:
            owner = _Owner(tree=self._tree(here, path))
        elif names.issuperset(_GIT_DIRECTORY) and _may_be_store(path, owner):
            owner = _Owner(store=self._store(path))
        for name in sorted(names):
            if self._stopped:
                return
            below = owner
            if name == b".git" and owner.tree is not None:
                below = _Owner(store=_join(path, name))
            self._entry(here, name, path, depth, below)

    def _names(self, here: int) -> set[bytes]:
        """Return the names of a directory, or none of them when they are more than may still be looked at."""
        names: set[bytes] = set()
        with os.scandir(here) as entries:
            for entry in entries:
                if self._entries + len(names) >= self._bounds.entries:
                    self._reached(f"more than {self._bounds.entries} names")
                    return set()
                names.add(os.fsencode(entry.name))
        self._entries += len(names)
        return names

    def _entry(self, here: int, name: bytes, parent: bytes, depth: int, owner: _Owner) -> None:
        path = _join(parent, name)
        self._letters += len(path)
        if self._letters > INSPECTION_NAMES_BYTES:
            self._reached(f"names of more than {INSPECTION_NAMES_BYTES} bytes")
            return
        if len(path) > INSPECTION_PATH_BYTES:
            self._unreadable(parent, "its paths are too long for git")
            return
        try:
            seen = os.lstat(name, dir_fd=here)
            if not stat.S_ISDIR(seen.st_mode):
                self._file(path, seen, owner)
            elif seen.st_dev != self._device:
                self._unreadable(path, "another file system")
            elif owner.store is None or path != _join(owner.store, b"objects"):
                with open_directory(name, at=here) as below:
                    if owner.store == path:
                        self._store(path)
                    self._directory(below, path, depth + 1, owner)
        except FileNotFoundError:
            self._unreadable(path, "it went away while it was looked at")
        except OSError as error:
            if error.errno in OF_THE_MACHINE:
                raise
            self._unreadable(path, error.strerror or "it cannot be read")

    def _file(self, path: bytes, seen: os.stat_result, owner: _Owner) -> None:
        name = path.rpartition(b"/")[2]
        if owner.store is not None:
            locks = self.found.locks.get(owner.store)
            if locks is not None and (name.endswith(b".lock") or name == b"gc.pid"):
                locks.append(path)
            return
        self.digest.update(b"%s\0%o %d %d\0" % (path, seen.st_mode, seen.st_size, seen.st_mtime_ns))
        regular = stat.S_ISREG(seen.st_mode)
        if name in _RULES and not stat.S_ISLNK(seen.st_mode) and (not regular or seen.st_size > INSPECTION_RULES_BYTES):
            self._bad_rules(name, owner)
        if name == b".git" or not (regular or stat.S_ISLNK(seen.st_mode)):
            return
        self.found.files += 1
        same = (seen.st_dev, seen.st_ino)
        if same not in self.linked:
            self.found.bytes += seen.st_size
        if seen.st_nlink > 1:
            self.linked.add(same)
        tree = owner.tree
        start = 0 if tree is None or not tree.path else len(tree.path) + 1
        (self.found.outside if tree is None else tree.files).append(SeenFile(path[start:], seen.st_size, seen.st_mtime_ns))

    @staticmethod
    def _bad_rules(name: bytes, owner: _Owner) -> None:
        words = f"a file {name.decode()} is not an ordinary one, or too large"
        if owner.tree is not None and words not in owner.tree.problems:
            owner.tree.problems.append(words)

    def _tree(self, here: int, path: bytes) -> Tree:
        """Begin a tree; one beyond the bound keeps its files to itself."""
        tree = Tree(path)
        if len(self.found.trees) >= self._bounds.repositories:
            self._reached(f"more than {self._bounds.repositories} repositories", stop=False)
            return tree
        self.found.trees[path] = tree
        with suppress(FileNotFoundError):  # said when the entry is looked at
            if not stat.S_ISDIR(os.lstat(b".git", dir_fd=here).st_mode):
                self._point(here, tree)
        return tree

    @staticmethod
    def _point(here: int, tree: Tree) -> None:
        try:
            tree.pointer = read_regular(here, b".git", REFERENCE_BYTES)
        except UnclearError as error:
            tree.problems.append(str(error))
        except OSError:
            tree.problems.append("its .git is a link, or cannot be read")
        tree.broken = tree.pointer is None

    def _store(self, path: bytes) -> bytes:
        if path not in self.found.locks:
            if len(self.found.locks) >= self._bounds.repositories:
                self._reached(f"more than {self._bounds.repositories} repositories", stop=False)
            else:
                self.found.locks[path] = []
        return path

    def _unreadable(self, path: bytes, words: str) -> None:
        if len(self.found.unreadable) >= INSPECTION_UNREADABLE:
            self._reached(f"more than {INSPECTION_UNREADABLE} places that cannot be read")
        else:
            self.found.unreadable[path] = words

    def _reached(self, words: str, *, stop: bool = True) -> None:
        """A bound is reached; after most of them nothing else is looked at."""
        self._stopped |= stop
        if words not in self.found.bounds:
            self.found.bounds.append(words)


def _may_be_store(path: bytes, owner: _Owner) -> bool:
    """Within a git directory only what lies below ``modules`` is one too: a branch may have any name."""
    return owner.store is None or path == owner.store or path.startswith(_join(owner.store, b"modules/"))


def _join(parent: bytes, name: bytes) -> bytes:
    return parent + b"/" + name if parent else name
