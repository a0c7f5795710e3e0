"""Reads files of a tree: below open directories, and each once for its digest, its copy and what looks like a credential in it."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from jamcore.domain.exports import ExportedKind
from jamcore.domain.secret_shapes import LOGIN_FILES, SecretScan
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, SwappedError, open_root, owned
from jamcore.workspace.exports.survey import Item

BUFFER = 256 << 10
"""Bytes read at once: they are still in the processor's cache when they are hashed and written."""
PIECE_FILES = 128
PIECE_BYTES = 32 << 20
"""What one thread takes at once: little enough that no thread waits long for another at the end."""
TEXT_FROM = 8000
"""A file with a zero byte in its first so many bytes is binary, as git decides it. Binary files are not searched for credentials: chance
would find some, and the search takes as long as the digest."""
SWAPPED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL})
"""What opening a name says when it became something else; the last is ``readlink``'s word."""
_ZEROS = bytes(1 << 20)


class Chain:
    """Directories below a root, opened name by name; those on the way to the last one asked for stay open."""

    def __init__(self, calls: TreeCalls, root: int) -> None:
        self._calls = calls
        self._root = root
        self._open: list[tuple[bytes, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close_from(0)

    def at(self, path: Names) -> int:
        """Return the directory with this path; it is open until the next one is asked for.

        Raises:
            OSError: A directory on the way is a link, something else, or gone.
        """
        same = 0
        while same < min(len(path), len(self._open)) and self._open[same][0] == path[same]:
            same += 1
        self._close_from(same)
        for name in path[same:]:
            self._open.append((name, self._calls.open_directory(self._last(), name)))
        return self._last()

    def _last(self) -> int:
        return self._open[-1][1] if self._open else self._root

    def _close_from(self, count: int) -> None:
        while len(self._open) > count:
            self._calls.close(self._open.pop()[1])


@contextmanager
def opened_below(root: Path, relative: str, calls: TreeCalls) -> Iterator[int]:
    """Open a directory below Jam's own one, name by name: a guest may have put a link in the place of one on the way.

    Raises:
        OSError: One of them is a link, something else, or not there.
    """
    with owned(open_root(root)) as top, Chain(calls, top) as chain:
        yield chain.at(tuple(os.fsencode(name) for name in relative.split("/")))


@dataclass(frozen=True, slots=True)
class Stream:
    """What was learned from a file's bytes."""

    sha256: str
    secret: str | None = None


class FileReader:
    """Reads one file after another in one thread."""

    def __init__(self, calls: TreeCalls, alive: Callable[[], None]) -> None:
        self._calls = calls
        self._alive = alive
        self._buffer = memoryview(bytearray(BUFFER))

    def digest(self, descriptor: int, item: Item) -> Stream:
        """Read a file for its digest alone.

        Raises:
            SwappedError: It was cut meanwhile.
        """
        return self._read(descriptor, item, None, lambda data, offset: None)

    def copy(self, descriptor: int, item: Item, target: int, *, scan: bool) -> Stream:
        """Copy a file's bytes to an empty one; its holes stay holes.

        Raises:
            SwappedError: It was cut meanwhile.
        """
        stream = self._read(
            descriptor, item, SecretScan() if scan else None, lambda data, offset: self._calls.write(target, data, offset)
        )
        if item.has_holes:
            self._calls.set_size(target, item.size)
        if scan and item.path[-1] in LOGIN_FILES:
            return Stream(stream.sha256, "a login by its name")
        return stream

    def _read(self, descriptor: int, item: Item, scan: SecretScan | None, take: Callable[[memoryview, int], None]) -> Stream:
        digest = hashlib.sha256()
        secret: str | None = None
        position = 0
        for start, end in self._calls.extents(descriptor, item.size) if item.has_holes else ((0, item.size),):
            self._zeros(digest.update, start - position)
            position = start
            while position < end:
                self._alive()
                count = self._calls.read(descriptor, self._buffer[: end - position], position)
                if not count:
                    raise SwappedError("it was cut while it was read")
                data = self._buffer[:count]
                digest.update(data)
                if scan is not None and secret is None:
                    block = bytes(data)
                    scan = None if position == 0 and b"\0" in block[:TEXT_FROM] else scan
                    secret = scan.find(block) if scan else None
                take(data, position)
                position += count
        self._zeros(digest.update, item.size - position)
        return Stream(digest.hexdigest(), secret)

    def _zeros(self, update: Callable[[bytes], None], count: int) -> None:
        """Hash a hole."""
        while count > 0:
            self._alive()
            update(_ZEROS[:count])
            count -= len(_ZEROS)


@contextmanager
def noting_changes(changed: list[Names], item: Item) -> Iterator[None]:
    """Note an item as changed when its name turns out to be gone, or to be something else."""
    try:
        yield
    except SwappedError:
        changed.append(item.path)
    except OSError as error:
        if error.errno not in SWAPPED:
            raise
        changed.append(item.path)


def pieces(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Divide files among threads, in their order; later names of a file are nobody's."""
    piece: list[Item] = []
    room = PIECE_BYTES
    for item in items:
        if item.kind is ExportedKind.FILE and item.same_as is None:
            piece.append(item)
            room -= item.size
            if room <= 0 or len(piece) == PIECE_FILES:
                yield piece
                piece, room = [], PIECE_BYTES
    if piece:
        yield piece
