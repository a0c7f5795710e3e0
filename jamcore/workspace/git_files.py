"""Reads a git directory that an agent can write, without git: references, HEAD, unfinished operations, linked worktrees (SEC-2).

Git itself would read the repository's configuration, and with it the names of programs. Everything is opened by descriptor, nothing that
is a link is followed, no pipe is waited for, and every size and number is bounded. What is not understood is a problem, never "nothing".
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

FILE_BYTES = 64 << 20
"""Packed references of a million names are as large; an index of 500,000 files too."""
INDEX_BYTES = 128 << 20
"""All indexes of a repository and its linked worktrees: they are kept in memory, and a hole costs its guest nothing."""
REFERENCE_BYTES = 4096
REFERENCES = 100_000
OBJECTS = 1_000_000
"""Directory entries of an object store that are looked at; git packs long before."""
DEPTH = 32
WORKTREES = 100

_HEX = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SYMBOLIC = re.compile(rb"ref: *(refs/[^\x00\n]+)\n?")
_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase or am"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)
_UNREADABLE = (
    ("commondir", "its git directory points to another one"),
    ("reftable", "its references are in a form that is not read"),
)


class UnclearError(Exception):
    """Something is not what git makes there; the words say what."""


@dataclass(slots=True)
class Checkout:
    """One work tree: its HEAD's commit (``None``: no commit yet) and where git says it lies (``None``: beside the git directory).

    ``branch`` is the reference that HEAD names (``None``: detached); ``linked`` the name of its directory below ``worktrees``.
    """

    name: str
    head: bytes | None
    index: bytes | None
    place: bytes | None = None
    branch: bytes | None = None
    linked: bytes | None = None
    operations: list[str] = field(default_factory=list)


@dataclass(slots=True)
class GitFiles:
    """What was found. ``tips`` are names and object ids.

    ``unknown`` says what was not looked at; ``whole`` that the rest was understood, so that git can be asked about it.
    """

    tips: dict[bytes, bytes] = field(default_factory=dict)
    checkouts: list[Checkout] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    shallow: list[bytes] = field(default_factory=list)
    whole: bool = False


def read_git_directory(clone: Path) -> GitFiles:
    """Look at the ``.git`` directory of a clone, which should be an ordinary one. Never raises for what is found there.

    Blocking: run it in a thread.
    """
    found = GitFiles()
    try:
        with open_directory(clone) as here, open_directory(".git", at=here) as git:
            if _is_there(git, "modules"):
                found.unknown.append("the repositories of its submodules")
            _Reader(git, found).read()
        found.whole = True
    except UnclearError as error:
        found.unknown.append(str(error))
    except OSError as error:
        found.unknown.append(f"its git directory cannot be read: {error.strerror}")
    return found


def read_open_git_directory(git: int) -> GitFiles:
    """Look at a git directory that is open, of whatever form, but not at the repositories of its submodules.

    Raises:
        UnclearError: Something in it is not what git makes there.
        OSError: It cannot be read.
    """
    found = GitFiles()
    _Reader(git, found).read()
    found.whole = True
    return found


class _Reader:
    def __init__(self, git: int, found: GitFiles) -> None:
        self._git = git
        self._found = found
        self._entries = 0
        self._index_bytes = INDEX_BYTES

    def read(self) -> None:
        for elsewhere, words in _UNREADABLE:
            if _is_there(self._git, elsewhere):
                raise UnclearError(words)
        self._require_plain_objects()
        self._packed()
        self._loose(self._git, "refs", b"refs")
        self._stash()
        self._shallow()
        own = self._checkout(self._git, "the clone")
        self._found.operations += own.operations
        self._found.checkouts.append(own)
        if _is_there(self._git, "worktrees"):
            with open_directory("worktrees", at=self._git) as linked:
                for name in _names(linked, WORKTREES, "linked worktrees"):
                    with open_directory(name, at=linked) as one:
                        self._linked(one, os.fsdecode(name))

    def _linked(self, directory: int, name: str) -> None:
        if _is_there(directory, "refs"):
            self._loose(directory, "refs", os.fsencode(f"worktrees/{name}/refs"))
        checkout = self._checkout(directory, f"worktree {name}")
        self._found.operations += [f"{operation} in worktree {name}" for operation in checkout.operations]
        checkout.linked = os.fsencode(name)
        checkout.place = (read_regular(directory, "gitdir", REFERENCE_BYTES) or b"").removesuffix(b"\n")
        self._found.checkouts.append(checkout)

    def _checkout(self, directory: int, name: str) -> Checkout:
        head = read_regular(directory, "HEAD", REFERENCE_BYTES)
        if head is None:
            raise UnclearError(f"{name} has no HEAD")
        commit: bytes | None
        branch: bytes | None = None
        if symbolic := _SYMBOLIC.fullmatch(head):
            branch = symbolic[1]
            commit = self._found.tips.get(branch)
        else:
            commit = _object_id(head, f"HEAD of {name}")
            self._found.tips[os.fsencode(f"HEAD of {name}")] = commit
        index = read_regular(directory, "index", min(FILE_BYTES, self._index_bytes))
        self._index_bytes -= len(index or b"")
        return Checkout(name, commit, index, branch=branch, operations=_operations(directory))

    def _loose(self, parent: int, name: str | bytes, prefix: bytes, depth: int = 0) -> None:
        """Read a directory of references and what is below it."""
        if depth > DEPTH:
            raise UnclearError("its references are nested too deeply")
        with open_directory(name, at=parent) as here:
            for entry in _names(here, REFERENCES, "references"):
                self._entries += 1
                if self._entries > REFERENCES:
                    raise UnclearError(f"it has more than {REFERENCES} references")
                called = prefix + b"/" + entry
                if stat.S_ISDIR(os.lstat(entry, dir_fd=here).st_mode):
                    self._loose(here, entry, called, depth + 1)
                elif not entry.endswith(b".lock"):
                    self._reference(here, entry, called)

    def _reference(self, directory: int, entry: bytes, called: bytes) -> None:
        content = read_regular(directory, entry, REFERENCE_BYTES) or b""
        if not _SYMBOLIC.fullmatch(content):  # what a symbolic one names is itself a reference
            self._found.tips[called] = _object_id(content, called.decode(errors="backslashreplace"))

    def _packed(self) -> None:
        for line in _lines(self._git, "packed-refs", f"it has more than {REFERENCES} references"):
            if not line.startswith((b"#", b"^")):
                value, _, name = line.partition(b" ")
                self._found.tips[name] = _object_id(value, "a packed reference")

    def _stash(self) -> None:
        """Every entry of the stash: the reference alone names the newest."""
        if not _is_there(self._git, "logs"):
            return
        with open_directory("logs", at=self._git) as logs:
            if not _is_there(logs, "refs"):
                return
            with open_directory("refs", at=logs) as references:
                for number, line in enumerate(_lines(references, "stash", "its stash has too many entries")):
                    self._found.tips[b"stash@%d" % number] = _object_id(b" ".join(line.split(b" ")[1:2]), "a stash entry")

    def _shallow(self) -> None:
        for line in _lines(self._git, "shallow", "its shallow boundary has too many entries"):
            self._found.shallow.append(_object_id(line, "the shallow boundary"))

    def _require_plain_objects(self) -> None:
        """Objects are files in directories, all of them here: git would follow a link, wait for a pipe, and read another store."""
        with open_directory("objects", at=self._git) as objects:
            seen = 0
            for name in _names(objects, OBJECTS, "objects"):
                with open_directory(name, at=objects) as below, os.scandir(below) as entries:
                    for entry in entries:
                        seen += 1
                        if seen > OBJECTS:
                            raise UnclearError(f"it has more than {OBJECTS} object files")
                        if entry.name in ("alternates", "http-alternates") and name == b"info":
                            raise UnclearError("its objects lie elsewhere (alternates)")
                        if name == b"info" and entry.name == "commit-graphs":
                            continue  # never read: git is told to use no commit graph
                        if not entry.is_file(follow_symlinks=False):
                            raise UnclearError("its object store holds something that is no file")


def _operations(directory: int) -> list[str]:
    return [words for name, words in _OPERATIONS if _is_there(directory, name)]


def _object_id(text: bytes, what: str) -> bytes:
    value = text.strip()
    if not _HEX.fullmatch(value):
        raise UnclearError(f"{what} is not an object id")
    return value


def _names(directory: int, limit: int, what: str) -> list[bytes]:
    names: list[bytes] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if len(names) >= limit:
                raise UnclearError(f"it has more than {limit} {what}")
            names.append(os.fsencode(entry.name))
    return sorted(names)


def _lines(directory: int, name: str, too_many: str) -> list[bytes]:
    """Return a file's lines, counted before they are divided: millions of short ones would take gigabytes."""
    data = read_regular(directory, name, FILE_BYTES) or b""
    if data.count(b"\n") > REFERENCES:
        raise UnclearError(too_many)
    return data.removesuffix(b"\n").split(b"\n") if data else []


def _is_there(directory: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def open_directory(path: Path | str | bytes, *, at: int | None = None) -> Iterator[int]:
    """Open a directory that is no link, for the block.

    Raises:
        OSError: There is none, or it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_regular(directory: int, name: str | bytes, limit: int) -> bytes | None:
    """Return a regular file's bytes, or ``None`` when there is none.

    Raises:
        UnclearError: It is something else, or larger.
    """
    shown = os.fsencode(name).decode(errors="backslashreplace")
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnclearError(f"{shown} is not a regular file")
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise UnclearError(f"{shown} is larger than {limit} bytes")
    return data
