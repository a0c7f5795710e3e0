"""The block store of one host: every published pack, indexed by digest (CONT-10).

The index is rebuilt from the packs' entry headers, never stored. Only packs of published generations count, because an exact retry
may overwrite the others. The newest copy of a unit wins: a second copy exists only where an older one was found damaged.
"""

from __future__ import annotations

import errno
import os
import stat
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
LOST_NAMED = 3
"""How many lost packs a problem names."""


class BlockStore:
    """Units by digest. The index may be asked from several threads; it changes only under its lock."""

    def __init__(self, packs: Path, checkpoints: Path) -> None:
        self._packs = packs
        self._checkpoints = checkpoints
        self._lock = Lock()
        self._index: dict[bytes, tuple[UUID, int]] = {}
        self._loaded: set[UUID] = set()
        self._damaged = False
        self._lost: list[str] = []
        self._condemned: dict[bytes, str] = {}

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

    def condemn(self, digest: bytes, problem: str) -> None:
        """Forget where a unit that was found damaged lies, so that the next checkpoint stores it anew; until then ``problem`` is told."""
        with self._lock:
            self._index.pop(digest, None)
            self._condemned[digest] = problem
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

    def why_missing(self, digest: bytes) -> str:
        """Return for a person why no place of a unit is known: what was found of it, or which packs are not whole."""
        if found := self._condemned.get(digest):
            return found
        more = f" and {len(self._lost) - LOST_NAMED} more" if len(self._lost) > LOST_NAMED else ""
        lost = ", ".join(self._lost[:LOST_NAMED]) + more
        return f"no published pack holds it; {lost}" if lost else "no published pack holds it"

    def _pack(self, checkpoint: UUID) -> Path:
        return self._packs / f"{checkpoint}{PACK_SUFFIX}"

    def _load(self, checkpoint: UUID) -> None:
        pack = self._pack(checkpoint)
        try:
            descriptor = _open(pack)
        except FileNotFoundError:
            self._damaged = True  # its units are missing, which whoever needs them will be told
            self._lost.append(f"{pack.name} is not there as a file")
            return
        try:
            for entry in scan(descriptor, checkpoint):
                if entry is None:
                    self._damaged = True
                    self._lost.append(f"{pack.name} is not a pack of this generation to its end")
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
            raise BlockDamagedError(digest=digest.hex(), problem=self._store.why_missing(digest))
        try:
            return read_unit(self._descriptor(place[0]), place[1], unit, digest)
        except BlockDamagedError as error:
            found = error.at(f"a {unit.name.lower()} in {place[0].name}")
            self._store.condemn(digest, found.problem)
            raise found from error
        except FileNotFoundError as error:  # any other failure to read says nothing about the bytes, and goes up as it is
            problem = f"its pack {place[0].name} is gone"
            self._store.condemn(digest, problem)
            raise BlockDamagedError(digest=digest.hex(), problem=problem) from error

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
        self._open[pack] = _open(pack)
        return self._open[pack]


def is_regular(path: Path) -> bool:
    """Say whether a file stands there: a link, a FIFO or a directory under its name is none, and opening one may never end.

    Raises:
        OSError: That cannot be found out, which proves nothing.
    """
    mode = mode_of(path)
    return mode is not None and stat.S_ISREG(mode)


def mode_of(path: Path) -> int | None:
    """Return type and mode of what stands under a name, without following it; ``None`` when nothing does.

    Unlike ``Path.exists``, which in newer Pythons takes every failure for absence.

    Raises:
        OSError: That cannot be found out, which proves nothing.
    """
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _open(pack: Path) -> int:
    """Open a pack.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be opened, which proves nothing about it.
    """
    if not is_regular(pack):
        raise FileNotFoundError(errno.ENOENT, "no file of this name", str(pack))
    return os.open(pack, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def published(checkpoints: Path, known: AbstractSet[UUID] = frozenset()) -> set[UUID]:
    """Return the generations that have their ``complete.json`` and are not ``known``. Nothing else below the directory is one."""
    found: set[UUID] = set()
    try:
        names = [entry.name for entry in os.scandir(checkpoints)]
    except FileNotFoundError:
        return found
    for name in names:
        identifier = generation_of(name)
        if identifier is not None and identifier not in known and is_regular(checkpoints / name / COMPLETE):
            found.add(identifier)
    return found


def generation_of(name: str) -> UUID | None:
    """Return the generation that a directory or pack is named after; ``None`` for any other name, which Jam did not give."""
    try:
        identifier = UUID(name)
    except ValueError:
        return None
    return identifier if str(identifier) == name else None
