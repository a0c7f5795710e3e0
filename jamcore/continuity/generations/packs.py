"""One pack per generation: a header, then entries one after the other; written once, synced once (CONT-4).

An entry's header carries a check over itself and over the stored bytes, so that one flipped bit anywhere is found even where the
decompressed bytes would come out the same. Reading stops at the first entry that is cut short: that is all a crash can leave.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar
from uuid import UUID

import zstandard

from jamcore.continuity.generations.format import ALGORITHM_ID, BLOCK, PACK_SCHEMA, Unit, digest_of
from jamcore.domain.errors import FaultError
from jamcore.system.files import PRIVATE_FILE, Files

_MAGIC = b"JAMPACK\x00"
_HEADER = struct.Struct(">8sHB16s")  # magic, schema, algorithm, checkpoint; then the check
_ENTRY = struct.Struct(">BBIII32s")  # unit, codec, plain bytes, stored bytes, check of the stored bytes, digest; then the check
_CHECK = struct.Struct(">I")
_RAW, _ZSTD = 0, 1
_UNITS = frozenset(Unit)

HEADER_BYTES = _HEADER.size + _CHECK.size
ENTRY_BYTES = _ENTRY.size + _CHECK.size
COMPRESSION_LEVEL = 3
"""The library's default: logs shrink about fivefold, faster than a disk writes."""


@dataclass(eq=False)
class BlockDamagedError(FaultError):
    """A stored unit is missing, or its bytes are not the ones that were stored."""

    code: ClassVar[str] = "continuity.block_damaged"
    hint: ClassVar[str] = "The pack is kept for inspection; the next checkpoint stores the unit anew from the live state."

    digest: str
    problem: str

    def at(self, place: str) -> BlockDamagedError:
        """Return this error with one more word on where the unit lies or belongs."""
        return BlockDamagedError(digest=self.digest, problem=f"{self.problem}, {place}")

    def told(self) -> str:
        """Return what is wrong in one line for a person."""
        return f"{self.problem} (unit {self.digest})"


@dataclass(frozen=True, slots=True)
class PackEntry:
    """Where a unit lies: ``offset`` is that of the entry's header."""

    unit: Unit
    digest: bytes
    offset: int
    stored: int


class PackWriter:
    """Writes one pack. A file of this name that an earlier attempt left is overwritten: no published generation refers to it."""

    def __init__(self, path: Path, checkpoint: UUID, *, known: Callable[[bytes], bool], files: Files) -> None:
        self._path = path
        self._known = known
        self._files = files
        self._written: set[bytes] = set()
        self._codec = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._stream: BinaryIO = os.fdopen(os.open(path, flags, PRIVATE_FILE), "wb", buffering=1 << 20)
        header = _HEADER.pack(_MAGIC, PACK_SCHEMA, ALGORITHM_ID, checkpoint.bytes)
        self._stream.write(header + _check(header))
        self.bytes_written = HEADER_BYTES

    def put(self, unit: Unit, data: bytes) -> bytes:
        """See :meth:`~jamcore.continuity.generations.format.Sink.put`. A unit that an earlier published pack holds is not written again."""
        digest = digest_of(unit, data)
        if digest not in self._written and not self._known(digest):
            self._append(unit, digest, data)
        return digest

    def copy(self, entry: bytes) -> None:
        """Append an entry as another pack holds it, byte for byte; see :meth:`EntryReader.entry`."""
        self._stream.write(entry)
        self.bytes_written += len(entry)

    def seal(self) -> None:
        """Make the pack durable: one sync of the file, one of the directory."""
        self._stream.flush()
        self._files.sync(self._stream.fileno())
        self._stream.close()
        self._files.sync_directory(self._path.parent)

    def close(self) -> None:
        """Close the file. Bytes that were not sealed may be lost; on a full disk they cannot be written anyway."""
        with suppress(OSError):
            self._stream.close()

    def discard(self) -> None:
        """Close and remove the pack. What it holds is referred to by nobody."""
        self.close()
        self._path.unlink(missing_ok=True)

    def _append(self, unit: Unit, digest: bytes, data: bytes) -> None:
        packed = self._codec.compress(data)
        codec, stored = (_ZSTD, packed) if len(packed) < len(data) else (_RAW, data)
        header = _ENTRY.pack(unit, codec, len(data), len(stored), zlib.crc32(stored), digest)
        self._stream.write(header + _check(header))
        self._stream.write(stored)
        self.bytes_written += ENTRY_BYTES + len(stored)
        self._written.add(digest)


def scan(descriptor: int, checkpoint: UUID) -> Iterator[PackEntry | None]:
    """Yield the entries of a pack in order, from their headers alone; ``None`` last when something is wrong behind them.

    Wrong is: no header of this checkpoint, a damaged entry header, or an entry that ends behind the end of the file.
    """
    size = os.fstat(descriptor).st_size
    expected = _HEADER.pack(_MAGIC, PACK_SCHEMA, ALGORITHM_ID, checkpoint.bytes)
    if os.pread(descriptor, HEADER_BYTES, 0) != expected + _check(expected):
        yield None
        return
    offset = HEADER_BYTES
    while offset < size:
        fields = _entry_header(os.pread(descriptor, ENTRY_BYTES, offset))
        if fields is None or offset + ENTRY_BYTES + fields[3] > size:
            yield None
            return
        yield PackEntry(Unit(fields[0]), fields[5], offset, fields[3])
        offset += ENTRY_BYTES + fields[3]


class EntryReader:
    """Reads entries of any pack, in one thread: what decompresses is made once, which is a third of the time of a small entry."""

    def __init__(self) -> None:
        self._codec = zstandard.ZstdDecompressor()

    def unit(self, descriptor: int, offset: int, unit: Unit, digest: bytes) -> bytes:
        """Return the plain bytes of the entry at ``offset``.

        Raises:
            BlockDamagedError: Anything about it is not as it was stored.
        """
        fields = _entry_header(os.pread(descriptor, ENTRY_BYTES, offset))
        if fields is None or fields[0] != unit or fields[5] != digest:
            raise BlockDamagedError(digest=digest.hex(), problem="its entry header is damaged")
        _, codec, plain, stored, check, _ = fields
        data = os.pread(descriptor, stored, offset + ENTRY_BYTES)
        if len(data) != stored or zlib.crc32(data) != check:
            raise BlockDamagedError(digest=digest.hex(), problem="its stored bytes are damaged")
        if codec == _ZSTD:
            try:
                data = self._codec.decompress(data, max_output_size=plain)
            except zstandard.ZstdError as error:
                raise BlockDamagedError(digest=digest.hex(), problem="it cannot be decompressed") from error
        if len(data) != plain or digest_of(unit, data) != digest:
            raise BlockDamagedError(digest=digest.hex(), problem="its bytes have another digest")
        return data

    def entry(self, descriptor: int, offset: int, unit: Unit, digest: bytes) -> bytes:
        """Return the entry at ``offset`` as it is stored, with its header, after proving it.

        Raises:
            BlockDamagedError: Anything about it is not as it was stored.
        """
        self.unit(descriptor, offset, unit, digest)
        fields = _entry_header(os.pread(descriptor, ENTRY_BYTES, offset))
        entry = os.pread(descriptor, ENTRY_BYTES + fields[3], offset) if fields else b""
        if fields is None or len(entry) != ENTRY_BYTES + fields[3]:
            raise BlockDamagedError(digest=digest.hex(), problem="it changed while it was read")
        return entry

    def proves(self, descriptor: int, offset: int, digest: bytes) -> bool:
        """Say whether the entry at ``offset`` holds the bytes of this digest, whatever its unit is."""
        fields = _entry_header(os.pread(descriptor, ENTRY_BYTES, offset))
        if fields is None:
            return False
        try:
            self.unit(descriptor, offset, Unit(fields[0]), digest)
        except BlockDamagedError:
            return False
        return True


def _check(header: bytes) -> bytes:
    return _CHECK.pack(zlib.crc32(header))


def _entry_header(raw: bytes) -> tuple[int, int, int, int, int, bytes] | None:
    """Return the fields of an entry header, or ``None`` when it is cut short or damaged."""
    if len(raw) != ENTRY_BYTES or raw[_ENTRY.size :] != _check(raw[: _ENTRY.size]):
        return None
    fields: tuple[int, int, int, int, int, bytes] = _ENTRY.unpack_from(raw)
    unit, codec, plain, _, _, _ = fields
    if unit not in _UNITS or codec not in (_RAW, _ZSTD) or plain > BLOCK:
        return None
    return fields
