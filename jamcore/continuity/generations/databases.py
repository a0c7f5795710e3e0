"""The second table of a generation: databases that lie below the guest's home (CONT-5).

There are few, so it is flat: one entry for each, in the order of their paths. A database is stored in blocks of its page size, so that a
generation costs the pages that changed (CONT-10). Pages below the smallest block share one, and those above the largest have several.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from jamcore.continuity.generations.content import Content, read_stream, write_index, write_stream
from jamcore.continuity.generations.format import BLOCK, Sink, Source, Unit
from jamcore.continuity.generations.objects import MODES, is_name
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.continuity.tree.patterns import Glob
from jamcore.domain.continuity import CaptureKind, CaptureList, SecretInStateError
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.secret_shapes import SecretScan
from jamcore.system.trees import Names, shown

SMALLEST_BLOCK = 4 << 10
"""A block costs an entry of some 200 bytes in memory, so pages of 512 bytes are not stored one by one."""
PAGES = frozenset(1 << power for power in range(9, 17))
"""The page sizes that SQLite knows."""

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
_PAGE = struct.Struct(">H")
_FIXED = struct.Struct(">HIQ32sH")  # mode, block, size, digest, length of the path


@dataclass(frozen=True, slots=True)
class Database:
    """One captured database: its path below the guest's home, its mode, and its bytes as SQLite's own backup gives them."""

    path: Names
    mode: int
    content: Content


def block_of(page: int) -> int:
    """Return the size of the blocks in which a database of this page size is stored.

    Raises:
        ValueError: SQLite has no such pages.
    """
    if page not in PAGES:
        raise ValueError(f"no database has pages of {page} bytes")
    return min(max(page, SMALLEST_BLOCK), BLOCK)


def page_of(begins: bytes) -> int:
    """Return the page size that a database's header names; 0 for what is no header."""
    if len(begins) < HEADER_BYTES or not begins.startswith(MAGIC):
        return 0
    (page,) = _PAGE.unpack_from(begins, 16)
    return 1 << 16 if page == 1 else int(page)


def write_databases(sink: Sink, databases: Iterable[Database]) -> Content:
    """Store the table."""
    return write_stream(sink, b"".join(_encode(one) for one in sorted(databases, key=lambda one: one.path)))


def read_databases(source: Source, content: Content) -> tuple[Database, ...]:
    """Return the databases of a generation in order.

    Raises:
        BlockDamagedError: A block is damaged, or the bytes are not the canonical encoding of a table.
    """
    found = tuple(_decode(read_stream(source, content), content))
    if any(left.path >= right.path for left, right in pairwise(found)):
        raise _bad(content, "paths are not in order")
    return found


def declared(captures: CaptureList) -> tuple[str, ...]:
    """Return the patterns of the databases that a provider declares.

    Raises:
        InvalidInputError: One has no bound: ``**`` would have the whole home walked while the guest stands still.
    """
    found = tuple(entry.pattern for entry in captures.entries if entry.kind is CaptureKind.DATABASE)
    for pattern in found:
        if "**" in Glob(pattern).pattern.split("/"):
            raise InvalidInputError(
                field="pattern", problem=f"{pattern[:80]!r}: a database lies at a known depth, so ** is refused"
            )
    return found


class DatabaseWriter:
    """Takes the bytes of one copy as they come, looks for credentials, and stores them page by page."""

    def __init__(self, sink: Sink, path: Names, page: int) -> None:
        self._sink = sink
        self._path = path
        self._block = block_of(page)
        self._scan = SecretScan(database=True)
        self._rest = b""
        self._page = page
        self._leaves: list[bytes] = []
        self._size = 0

    def take(self, data: bytes) -> None:
        """Store the next bytes.

        Raises:
            SecretInStateError: They hold a credential (SEC-7).
            ValueError: The header says another page size than was announced, or there is no header.
        """
        if secret := self._scan.find(data):
            raise SecretInStateError(path=f"~/{shown(self._path)}", reason=f"it holds {secret}")
        data, block = self._rest + data, self._block
        whole = len(data) - len(data) % block
        self._require_header(data[:whole])
        self._leaves += [self._sink.put(Unit.LEAF, data[at : at + block]) for at in range(0, whole, block)]
        self._rest = data[whole:]
        self._size += whole

    def finish(self, mode: int) -> Database:
        """Store the index and return what is known of the database now."""
        if self._rest:
            self._require_header(self._rest)
            self._leaves.append(self._sink.put(Unit.LEAF, self._rest))
            self._size += len(self._rest)
            self._rest = b""
        return Database(self._path, mode & MODES, write_index(self._sink, self._leaves, self._size, self._block))

    def _require_header(self, begins: bytes) -> None:
        if begins and not self._leaves and page_of(begins) != self._page:
            raise ValueError("the header says another page size")


def _encode(one: Database) -> bytes:
    path = b"/".join(one.path)
    return _FIXED.pack(one.mode & MODES, one.content.block, one.content.size, one.content.digest, len(path)) + path


def _decode(data: bytes, content: Content) -> Iterator[Database]:
    at = 0
    while at < len(data):
        if len(data) - at < _FIXED.size:
            raise _bad(content, "an entry is cut short")
        mode, block, size, digest, length = _FIXED.unpack_from(data, at)
        path = data[at + _FIXED.size : at + _FIXED.size + length]
        at += _FIXED.size + length
        names = tuple(path.split(b"/"))
        if mode & ~MODES or block not in PAGES or not SMALLEST_BLOCK <= block <= BLOCK:
            raise _bad(content, "an entry has no known form")
        if len(path) != length or not all(is_name(name) for name in names):
            raise _bad(content, "a path is not one")
        yield Database(names, mode, Content(size, digest, block))


def _bad(content: Content, problem: str) -> BlockDamagedError:
    return BlockDamagedError(digest=content.digest.hex(), problem=f"the table of databases is not readable: {problem}")
