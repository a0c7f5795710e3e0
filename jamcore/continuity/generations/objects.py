"""What is in a generation: entries of directories, and the root, in one canonical encoding.

Names are the raw bytes that the file system has. All fields before the name have a fixed width, so that a change of one file shifts
nothing in a large directory and rewrites only the block its entry lies in.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from jamcore.continuity.generations.content import EMPTY, Content, read_stream, write_stream
from jamcore.continuity.generations.format import SCHEMA, SCHEMAS, Sink, Source, Unit
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.domain import limits

NAME_BYTES = 255
"""Longest name of a Linux file."""
MODES = 0o777
"""Mode bits that are kept. Set-id and sticky bits are stripped (SEC-1)."""

_SEEN = struct.Struct(">BBHqqQQ")  # the first fields of an entry: what can be seen of a file without reading it
_FIXED = struct.Struct(">BBHqqQQ32sH")  # kind, growth, mode, mtime, ctime, inode, size, digest, length of the name
_VERSION = struct.Struct(">H")
_ROOT_1 = struct.Struct(">HHqQ32sQQ")  # schema, mode, mtime, size, digest, files, bytes
_ROOT = struct.Struct(">HHqQ32sQQQ32s")  # the same, then size and digest of the table of databases


class Kind(IntEnum):
    """What an entry is."""

    FILE = 1
    DIRECTORY = 2
    LINK = 3


class Growth(IntEnum):
    """How a file was declared: ``APPENDED`` files only grow, so their bytes must be a prefix of what is there later (CONT-10)."""

    WHOLE = 1
    APPENDED = 2


_KINDS, _GROWTHS = frozenset(Kind), frozenset(Growth)


@dataclass(frozen=True, slots=True)
class Witness:
    """What shows, without reading, that a file is the one that was read: change time in ns, and inode."""

    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a directory. ``witness`` is absent where it would prove nothing: directories, links, writes of the same tick."""

    name: bytes
    kind: Kind
    mode: int
    mtime_ns: int
    content: Content
    growth: Growth = Growth.WHOLE
    witness: Witness | None = None


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a generation: its top directory, the table of its databases, and how much both hold."""

    mode: int
    mtime_ns: int
    content: Content
    files: int
    bytes_total: int
    databases: Content = EMPTY


def write_directory(sink: Sink, entries: Iterable[Entry]) -> Content:
    """Store a directory; its entries are put in the order of their names."""
    return write_stream(sink, b"".join(encode(entry) for entry in sorted(entries, key=lambda entry: entry.name)))


def read_directory(source: Source, content: Content) -> tuple[Entry, ...]:
    """Return a directory's entries in order.

    Raises:
        BlockDamagedError: A block is damaged, or the bytes are not the canonical encoding of a directory.
    """
    data = read_stream(source, content)
    entries = tuple(_decode(data, content))
    names = [entry.name for entry in entries]
    if any(left >= right for left, right in pairwise(names)):
        raise _bad(content, "names are not in order")
    return entries


def write_records(sink: Sink, records: Iterable[bytes]) -> Content:
    """Store a directory of entries that are encoded already and in the order of their names."""
    return write_stream(sink, b"".join(records))


class Listing:
    """A stored directory by name. Only names are decoded until an entry is asked for: in a capture most are compared and passed on."""

    def __init__(self, data: bytes = b"", content: Content = EMPTY) -> None:
        """Find the names.

        Raises:
            BlockDamagedError: An entry is cut short.
        """
        self._data = data
        self._content = content
        self._places: dict[bytes, tuple[int, int]] = {}
        at = 0
        while at < len(data):
            begins = at + _FIXED.size
            # The length stands last before the name. Indexing is three times as quick as unpacking, for thousands of names.
            ends = begins + (data[begins - 2] << 8 | data[begins - 1]) if begins <= len(data) else begins
            if ends > len(data):
                raise _bad(content, "an entry is cut short")
            self._places[data[begins:ends]] = (at, ends)
            at = ends

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the names."""
        return iter(self._places)

    def entry(self, name: bytes) -> Entry | None:
        """Return an entry; ``None`` where there is none, or none that can be read."""
        place = self._places.get(name)
        if place is None:
            return None
        try:
            return next(_decode(self._data[place[0] : place[1]], self._content))
        except BlockDamagedError:
            return None

    def record_of(self, name: bytes, growth: Growth, now: os.stat_result) -> bytes | None:
        """Return the encoded entry of a file if size, mode, times and inode show that the file is still that one.

        A file without a witness never is: zeros stand for change time and inode, and no file has inode 0.
        """
        place = self._places.get(name)
        if place is None:
            return None
        seen = _SEEN.pack(
            Kind.FILE, growth, now.st_mode & MODES, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_size
        )  # fmt: skip
        return self._data[place[0] : place[1]] if self._data.startswith(seen, place[0]) else None


def read_listing(source: Source, content: Content) -> Listing:
    """Return a directory by name.

    Raises:
        BlockDamagedError: A block is damaged, or an entry cut short.
    """
    return Listing(read_stream(source, content), content)


def write_root(sink: Sink, root: Root) -> bytes:
    """Store the root and return its digest."""
    tree, table = root.content, root.databases
    fields = (root.mode, root.mtime_ns, tree.size, tree.digest, root.files, root.bytes_total, table.size, table.digest)
    return sink.put(Unit.ROOT, _ROOT.pack(SCHEMA, *fields))


def read_root(source: Source, digest: bytes) -> Root:
    """Return the root of a generation.

    Raises:
        BlockDamagedError: It is missing, damaged, or of another schema.
    """
    data = source.get(Unit.ROOT, digest)
    schema = _VERSION.unpack_from(data)[0] if len(data) >= _VERSION.size else 0
    if schema not in SCHEMAS:
        raise BlockDamagedError(digest=digest.hex(), problem=f"schema {schema} is not known")
    form = _ROOT if schema == SCHEMA else _ROOT_1
    if len(data) != form.size:
        raise BlockDamagedError(digest=digest.hex(), problem="a root has the wrong length")
    _, mode, mtime_ns, size, top, files, bytes_total, *table = form.unpack(data)
    return Root(mode, mtime_ns, Content(size, top), files, bytes_total, Content(*table) if table else EMPTY)


def walk_tree(source: Source, root: Root) -> Iterator[tuple[tuple[bytes, ...], Entry]]:
    """Yield every entry of a generation with its path, directories before what is in them.

    Raises:
        BlockDamagedError: A directory is damaged, or lies deeper than any capture goes.
    """
    pending: list[tuple[tuple[bytes, ...], Content]] = [((), root.content)]
    while pending:
        path, content = pending.pop()
        if len(path) > limits.CAPTURE_DEPTH:
            raise _bad(content, "deeper than any capture")
        try:
            entries = read_directory(source, content)
        except BlockDamagedError as error:
            raise error.at(f"of the directory {b'/'.join(path).decode('utf-8', 'backslashreplace') or '.'}") from error
        for entry in entries:
            below = (*path, entry.name)
            yield below, entry
            if entry.kind is Kind.DIRECTORY:
                pending.append((below, entry.content))


def encode(entry: Entry) -> bytes:
    """Return the bytes that stand for an entry in its directory."""
    witness = entry.witness or Witness(0, 0)
    fixed = (entry.kind, entry.growth, entry.mode & MODES, entry.mtime_ns, witness.ctime_ns, witness.inode)
    return _FIXED.pack(*fixed, entry.content.size, entry.content.digest, len(entry.name)) + entry.name


def _decode(data: bytes, content: Content) -> Iterator[Entry]:
    at = 0
    while at < len(data):
        if len(data) - at < _FIXED.size:
            raise _bad(content, "an entry is cut short")
        kind, growth, mode, mtime_ns, ctime_ns, inode, size, digest, length = _FIXED.unpack_from(data, at)
        name = data[at + _FIXED.size : at + _FIXED.size + length]
        at += _FIXED.size + length
        if kind not in _KINDS or growth not in _GROWTHS or mode & ~MODES:
            raise _bad(content, "an entry has no known form")
        if len(name) != length or not is_name(name):
            raise _bad(content, "a name is not one")
        witness = Witness(ctime_ns, inode) if ctime_ns or inode else None
        yield Entry(name, Kind(kind), mode, mtime_ns, Content(size, digest), Growth(growth), witness)


def is_name(name: bytes) -> bool:
    """Say whether ``name`` can stand in a directory: no separator, no NUL, not empty, not ``.`` or ``..``."""
    return 0 < len(name) <= NAME_BYTES and b"/" not in name and b"\0" not in name and name not in (b".", b"..")


def _bad(content: Content, problem: str) -> BlockDamagedError:
    return BlockDamagedError(digest=content.digest.hex(), problem=f"a directory is not readable: {problem}")
