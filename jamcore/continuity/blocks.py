"""The block store of one host: every published pack, indexed by digest (CONT-10).

The index is rebuilt from the packs' entry headers, never stored. Only packs of published generations count, because an exact retry
may overwrite the others. The newest copy of a unit wins: a second copy exists only where an older one was found damaged.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from uuid import UUID

from jamcore.continuity.format import Unit
from jamcore.continuity.packs import BlockDamagedError, PackWriter, read_unit, scan
from jamcore.system.files import Files

PACK_SUFFIX = ".pack"
COMPLETE = "complete.json"
OPEN_PACKS = 16
"""Packs that one reader keeps open: a generation's units lie mostly in few packs."""


class BlockStore:
    """Units by digest. The index may be asked from several threads; it changes only under its lock."""

    def __init__(self, packs: Path, checkpoints: Path) -> None:
        self._packs = packs
        self._checkpoints = checkpoints
        self._lock = Lock()
        self._index: dict[bytes, tuple[UUID, int]] = {}
        self._loaded: set[UUID] = set()
        self._damaged = False

    @property
    def damaged(self) -> bool:
        """Whether anything that was published is known to be missing or damaged: then nothing may be reused unread."""
        return self._damaged

    def refresh(self) -> None:
        """Index the packs of generations that were published since the last call."""
        with self._lock:
            for checkpoint in sorted(published(self._checkpoints, self._loaded)):
                self._load(checkpoint)
                self._loaded.add(checkpoint)

    def has(self, digest: bytes) -> bool:
        """Say whether a published pack holds the unit, as far as its header tells."""
        return digest in self._index

    def condemn(self, digest: bytes) -> None:
        """Forget a unit that was found damaged, so that the next checkpoint stores it anew."""
        with self._lock:
            self._index.pop(digest, None)
            self._damaged = True

    def writer(self, checkpoint: UUID, files: Files) -> PackWriter:
        """Begin the pack of a generation that is not published yet."""
        if checkpoint in self._loaded:
            raise ValueError(f"generation {checkpoint} is published")
        return PackWriter(self._pack(checkpoint), checkpoint, known=self.has, files=files)

    @contextmanager
    def reader(self) -> Iterator[BlockReader]:
        """Read units; packs that were opened on the way are closed at the end."""
        reader = BlockReader(self)
        try:
            yield reader
        finally:
            reader.close()

    def locate(self, digest: bytes) -> tuple[Path, int] | None:
        """Return the pack and the offset of a unit's entry."""
        found = self._index.get(digest)
        return (self._pack(found[0]), found[1]) if found else None

    def _pack(self, checkpoint: UUID) -> Path:
        return self._packs / f"{checkpoint}{PACK_SUFFIX}"

    def _load(self, checkpoint: UUID) -> None:
        try:
            descriptor = os.open(self._pack(checkpoint), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            self._damaged = True  # its units are missing, which whoever needs them will be told
            return
        try:
            for entry in scan(descriptor, checkpoint):
                if entry is None:
                    self._damaged = True
                else:
                    self._index[entry.digest] = (checkpoint, entry.offset)
        finally:
            os.close(descriptor)


class BlockReader:
    """Reads verified units for one piece of work, in one thread."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._open: OrderedDict[Path, int] = OrderedDict()

    def get(self, unit: Unit, digest: bytes) -> bytes:
        """See :meth:`~jamcore.continuity.format.Source.get`.

        Raises:
            OSError: The pack is there and cannot be read, which proves nothing about it.
        """
        place = self._store.locate(digest)
        if place is None:
            raise BlockDamagedError(digest=digest.hex(), problem="no published pack holds it")
        try:
            return read_unit(self._descriptor(place[0]), place[1], unit, digest)
        except BlockDamagedError:
            self._store.condemn(digest)
            raise
        except FileNotFoundError as error:  # any other failure to read says nothing about the bytes, and goes up as it is
            self._store.condemn(digest)
            raise BlockDamagedError(digest=digest.hex(), problem="its pack is gone") from error

    def close(self) -> None:
        """Close the packs."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _descriptor(self, pack: Path) -> int:
        if pack in self._open:
            self._open.move_to_end(pack)
            return self._open[pack]
        if len(self._open) >= OPEN_PACKS:
            os.close(self._open.popitem(last=False)[1])
        self._open[pack] = os.open(pack, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        return self._open[pack]


def published(checkpoints: Path, known: AbstractSet[UUID] = frozenset()) -> set[UUID]:
    """Return the generations that have their ``complete.json`` and are not ``known``. Nothing else below the directory is one."""
    found: set[UUID] = set()
    try:
        names = [entry.name for entry in os.scandir(checkpoints)]
    except FileNotFoundError:
        return found
    for name in names:
        try:
            identifier = UUID(name)
        except ValueError:
            continue
        if identifier not in known and str(identifier) == name and (checkpoints / name / COMPLETE).is_file():
            found.add(identifier)
    return found
