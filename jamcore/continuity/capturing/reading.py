"""Reads one live file into the pack: whole, or a large log from its last whole block on (CONT-10)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from jamcore.continuity.capturing.growth import Live
from jamcore.continuity.capturing.logs import still_holds
from jamcore.continuity.generations.content import read_leaves, write_index
from jamcore.continuity.generations.format import BLOCK, Sink, Source, Unit, digest_of
from jamcore.continuity.generations.objects import MODES, Entry, Growth, Kind, Listing, Root, Witness, read_root
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.domain.continuity import CaptureRefusedError, Checkpoint, SecretInStateError
from jamcore.domain.secret_shapes import OVERLAP, SecretScan
from jamcore.system.crew import spread
from jamcore.system.trees import Names, Seen, SwappedError, reading, shown

TICK_NS = 2_000_000_000
"""Two writes within this time may leave the same change time on the coarsest file systems, so a file this young proves nothing."""
TAIL_FROM = 1 << 20
"""Bytes from which a log is read by its tail alone: below, reading all of it costs about a millisecond."""
TAILS = 64
"""Logs whose beginning may wait for its check: each keeps a descriptor open."""
_PART = 32
"""Blocks (1 MiB) that one thread reads and compares in one go."""


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier generations give: where their units are, whether all of them are, and which inodes are to be read whole all the same."""

    source: Source
    intact: bool
    distrusted: frozenset[int] = frozenset()


def root_before(before: Before, previous: Checkpoint | None) -> Root | None:
    """Return the root of the generation before; ``None`` where there is none, or none that can be read."""
    if previous is None:
        return None
    try:
        return read_root(before.source, bytes.fromhex(previous.root_digest))
    except (BlockDamagedError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Deferred:
    """A log of which the beginning is still to be compared: an open descriptor and the digests of its first blocks."""

    path: Names
    inode: int
    descriptor: int
    leaves: Sequence[bytes]

    def holds(self, alive: Callable[[], None] = lambda: None) -> bool:
        """Read the beginning and say whether it is the stored one."""
        parts = range(0, len(self.leaves), _PART)
        return all(spread(self._part_holds, parts, alive))

    def _part_holds(self, first: int, alive: Callable[[], None]) -> bool:
        alive()
        part = self.leaves[first : first + _PART]
        data = memoryview(os.pread(self.descriptor, len(part) * BLOCK, first * BLOCK))
        return all(digest_of(Unit.LEAF, data[at * BLOCK : (at + 1) * BLOCK]) == leaf for at, leaf in enumerate(part))


class FileReader:
    """Reads the files of one capture."""

    def __init__(self, sink: Sink, before: Before, *, now_ns: int, stack: ExitStack, alive: Callable[[], None]) -> None:
        self._sink = sink
        self._before = before
        self._now_ns = now_ns
        self._stack = stack
        self._alive = alive
        self.deferred: list[Deferred] = []

    def record_of(self, stored: Listing, name: bytes, growth: Growth, now: os.stat_result) -> bytes | None:
        """Return what the generation before has of a file, encoded, if the file is that one as far as it can be seen."""
        if not self._before.intact or now.st_ino in self._before.distrusted:
            return None
        return stored.record_of(name, growth, now)

    def read(self, descriptor: int, seen: Seen, growth: Growth, stored: Entry | None) -> Entry:
        """Store an open file and return its entry. ``stored`` is what the generation before has under this name.

        Raises:
            SwappedError: It changed meanwhile.
            SecretInStateError, CaptureRefusedError: It holds a credential, or is a log that lost stored bytes.
        """
        now = os.fstat(descriptor)
        log = stored if stored and stored.kind is Kind.FILE and stored.growth is growth is Growth.APPENDED else None
        kept = self._kept_leaves(now, log)
        leaves = [*kept, *self._read_blocks(descriptor, seen, len(kept) * BLOCK, now.st_size)]
        after = os.fstat(descriptor)
        if growth is Growth.WHOLE and _times(after) != _times(now):
            raise SwappedError("it was written to while it was read")
        if log is not None:
            live = Live(now.st_size, lambda index, digest: leaves[index] == digest, reading(descriptor))
            if not still_holds(self._before.source, log.content, live):
                raise CaptureRefusedError(path=shown(seen.path), reason="the log lost bytes that the last checkpoint holds")
        if kept:
            held = os.dup(descriptor)
            self._stack.callback(os.close, held)
            self.deferred.append(Deferred(seen.path, now.st_ino, held, kept))
        content = write_index(self._sink, leaves, now.st_size)
        return Entry(seen.name, Kind.FILE, now.st_mode & MODES, now.st_mtime_ns, content, growth, self._witness(now))

    def _kept_leaves(self, now: os.stat_result, log: Entry | None) -> list[bytes]:
        """Return the digests of the stored blocks that need no reading now, because the log only grew."""
        if log is None or not self._before.intact or log.content.size < TAIL_FROM or len(self.deferred) >= TAILS:
            return []
        if now.st_ino in self._before.distrusted or now.st_size < log.content.size:
            return []
        try:
            return read_leaves(self._before.source, log.content)[: log.content.size // BLOCK]
        except BlockDamagedError:
            return []

    def _read_blocks(self, descriptor: int, seen: Seen, offset: int, size: int) -> list[bytes]:
        start = max(0, offset - OVERLAP)
        scan = SecretScan(os.pread(descriptor, offset - start, start))
        leaves: list[bytes] = []
        while offset < size:
            self._alive()
            wanted = min(BLOCK, size - offset)
            block = os.pread(descriptor, wanted, offset)
            if len(block) != wanted:
                raise SwappedError("it was cut while it was read")
            if secret := scan.find(block):
                raise SecretInStateError(path=shown(seen.path), reason=f"it holds {secret}")
            leaves.append(self._sink.put(Unit.LEAF, block))
            offset += wanted
        return leaves

    def _witness(self, now: os.stat_result) -> Witness | None:
        young = max(now.st_ctime_ns, now.st_mtime_ns) >= self._now_ns - TICK_NS
        return None if young else Witness(now.st_ctime_ns, now.st_ino)


def _times(now: os.stat_result) -> tuple[int, int, int]:
    return now.st_size, now.st_mtime_ns, now.st_ctime_ns
