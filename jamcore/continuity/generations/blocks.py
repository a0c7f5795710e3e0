"""The block store of one host: every published pack, indexed by digest (CONT-10).

The index is rebuilt from the packs' entry headers, never stored. Only packs of published generations count, because an exact retry
may overwrite the others, and shared packs: what others need of generations whose payload was removed. A shared pack counts by its name
alone, which it gets when it is whole. The newest copy of a unit wins: a second copy exists only where an older one was found damaged, or
while a payload is being removed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, local
from uuid import UUID

from jamcore.continuity.generations.format import Unit
from jamcore.continuity.generations.packs import BlockDamagedError, EntryReader, PackWriter, scan
from jamcore.system.files import Files

PACK_SUFFIX = ".pack"
SHARED_SUFFIX = ".shared"
"""``<removal>-<number>.shared``: a pack of the units that survived a removal (:mod:`jamcore.continuity.retention.repack`)."""
COMPLETE = "complete.json"
OPEN_PACKS = 16
"""Packs that one reader keeps open in each thread: a generation's units lie mostly in few packs."""
MOVES = 4
"""How often a reader looks where a unit was moved to: removals of payloads come one after the other."""
LOST_NAMED = 3
"""How many lost packs a problem names."""


@dataclass(frozen=True, slots=True, order=True)
class PackName:
    """A pack by the id in its header. ``number`` is that of a shared pack among its removal's; 0 for the pack of a generation."""

    owner: UUID
    number: int = 0

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.owner}-{self.number}{SHARED_SUFFIX}" if self.number else f"{self.owner}{PACK_SUFFIX}"


class BlockStore:
    """Units by digest. The index may be asked from several threads; it changes only under its lock."""

    def __init__(self, packs: Path, checkpoints: Path) -> None:
        self._packs = packs
        self._checkpoints = checkpoints
        self._lock = Lock()
        self._index: dict[bytes, tuple[Path, int]] = {}
        self._loaded: set[UUID] = set()
        self._shared: set[PackName] | None = None
        self._gone: set[PackName] = set()
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
            new = {PackName(checkpoint) for checkpoint in published(self._checkpoints, self._loaded)}
            # Listed once, and after the others: later ones are told by exchange, and a reader that lacks a unit looks again.
            if self._shared is None:
                self._shared = shared_packs(self._packs)
                new |= self._shared
            for name in sorted(new):
                self._load(name)
                if not name.number:
                    self._loaded.add(name.owner)

    def has(self, digest: bytes) -> bool:
        """Say whether a published pack holds the unit, as far as its header tells."""
        return digest in self._index

    def has_whole(self, digest: bytes) -> bool:
        """Say whether a published pack holds the unit, by reading it: once damage is known, no header is proof enough.

        Raises:
            OSError: The pack is there and cannot be read.
        """
        place = self.locate(digest)
        if place is None:
            return False
        try:
            descriptor = open_pack(place[0])
        except FileNotFoundError:
            return False
        try:
            return EntryReader().proves(descriptor, place[1], digest)
        finally:
            os.close(descriptor)

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
        known = self.has_whole if self._damaged else self.has
        return PackWriter(self._packs / PackName(checkpoint).file, checkpoint, known=known, files=files)

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
        return self._index.get(digest)

    def relocate(self, digest: bytes, lost: tuple[Path, int] | None) -> tuple[Path, int] | None:
        """Look for another place of a unit that is not where it was: a removal may have moved it. ``None`` when there is none."""
        with self._lock:
            for name in sorted(shared_packs(self._packs) - (self._shared or set()) - self._gone):
                self._load(name)
                self._shared = (self._shared or set()) | {name}
            found = self._index.get(digest)
        return None if found == lost else found

    def exchange(self, gone: AbstractSet[PackName], new: AbstractSet[PackName]) -> None:
        """Take in shared packs, and forget others for good: what they alone hold is stored anew if it is needed again.

        A pack that is forgotten is never taken in again, though its file may stay for a while: no name is used twice.
        """
        with self._lock:
            self._gone |= gone
            for name in sorted(new - (self._shared or set()) - self._gone):
                self._load(name)
            left = {self._packs / name.file for name in gone}
            self._index = {digest: place for digest, place in self._index.items() if place[0] not in left}
            self._shared = ((self._shared or set()) | new) - gone

    def why_missing(self, digest: bytes) -> str:
        """Return for a person why no place of a unit is known: what was found of it, or which packs are not whole."""
        if found := self._condemned.get(digest):
            return found
        more = f" and {len(self._lost) - LOST_NAMED} more" if len(self._lost) > LOST_NAMED else ""
        lost = ", ".join(self._lost[:LOST_NAMED]) + more
        return f"no published pack holds it; {lost}" if lost else "no published pack holds it"

    def _load(self, name: PackName) -> None:
        pack = self._packs / name.file
        try:
            descriptor = open_pack(pack)
        except FileNotFoundError:
            self._damaged = True  # its units are missing, which whoever needs them will be told
            self._lost.append(f"{pack.name} is not there as a file")
            return
        try:
            for entry in scan(descriptor, name.owner):
                if entry is None:
                    self._damaged = True
                    self._lost.append(f"{pack.name} is not a pack of this generation to its end")
                else:
                    self._index[entry.digest] = (pack, entry.offset)
        finally:
            os.close(descriptor)


class _OpenPacks:
    """The packs that one thread of a reader has open, the last used ones."""

    def __init__(self) -> None:
        self.entries = EntryReader()
        self._descriptors: OrderedDict[Path, int] = OrderedDict()

    def descriptor(self, pack: Path) -> int:
        if pack in self._descriptors:
            self._descriptors.move_to_end(pack)
            return self._descriptors[pack]
        if len(self._descriptors) >= OPEN_PACKS:
            os.close(self._descriptors.popitem(last=False)[1])
        self._descriptors[pack] = open_pack(pack)
        return self._descriptors[pack]

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


class BlockReader:
    """Reads verified units for one piece of work. Each thread that reads has descriptors of its own, so none is closed under another."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._mine = local()
        self._all: list[_OpenPacks] = []

    def get(self, unit: Unit, digest: bytes) -> bytes:
        """See :meth:`~jamcore.continuity.generations.format.Source.get`.

        Raises:
            OSError: The pack is there and cannot be read, which proves nothing about it.
        """
        return self._read(unit, digest, EntryReader.unit)

    def entry(self, unit: Unit, digest: bytes) -> bytes:
        """Return a unit's entry as it is stored, proven; for a copy of it into another pack.

        Raises:
            BlockDamagedError: It is missing or damaged.
            OSError: As :meth:`get`.
        """
        return self._read(unit, digest, EntryReader.entry)

    def _read(self, unit: Unit, digest: bytes, read: Callable[[EntryReader, int, int, Unit, bytes], bytes]) -> bytes:
        mine = self._opened()
        place = self._store.locate(digest) or self._store.relocate(digest, None)
        found: BlockDamagedError | None = None
        for _ in range(MOVES):
            if place is None:
                break
            try:
                return read(mine.entries, mine.descriptor(place[0]), place[1], unit, digest)
            except BlockDamagedError as error:
                found = error.at(f"a {unit.name.lower()} in {place[0].name}")
            except FileNotFoundError:  # any other failure to read says nothing about the bytes, and goes up as it is
                found = BlockDamagedError(digest=digest.hex(), problem=f"its pack {place[0].name} is gone")
            place = self._store.relocate(digest, place)
        if found is None:
            raise BlockDamagedError(digest=digest.hex(), problem=self._store.why_missing(digest))
        self._store.condemn(digest, found.problem)
        raise found

    def close(self) -> None:
        """Close the packs; no thread reads any more."""
        while self._all:
            self._all.pop().close()

    def _opened(self) -> _OpenPacks:
        opened: _OpenPacks | None = getattr(self._mine, "opened", None)
        if opened is None:
            opened = self._mine.opened = _OpenPacks()
            self._all.append(opened)
        return opened


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


def open_pack(pack: Path) -> int:
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
        names = {entry.name for entry in os.scandir(checkpoints)}
    except FileNotFoundError:
        return found
    # Writing the known ids as names takes a third of the time of reading all names as ids: after a thousand turns that is milliseconds.
    for name in names - {str(one) for one in known}:
        identifier = generation_of(name)
        if identifier is not None and is_regular(checkpoints / name / COMPLETE):
            found.add(identifier)
    return found


def shared_packs(packs: Path) -> set[PackName]:
    """Return the shared packs of a directory."""
    try:
        names = [entry.name for entry in os.scandir(packs) if entry.name.endswith(SHARED_SUFFIX)]
    except FileNotFoundError:
        return set()
    return {found for name in names if (found := shared_pack_of(name)) is not None}


def shared_pack_of(name: str) -> PackName | None:
    """Return the shared pack that a file is by its name; ``None`` for any other name."""
    removal, _, number = name.removesuffix(SHARED_SUFFIX).rpartition("-")
    owner = generation_of(removal)
    if owner is None or not number.isdecimal():
        return None
    found = PackName(owner, int(number))
    return found if found.file == name else None


def generation_of(name: str) -> UUID | None:
    """Return the generation that a directory or pack is named after; ``None`` for any other name, which Jam did not give."""
    try:
        identifier = UUID(name)
    except ValueError:
        return None
    return identifier if str(identifier) == name else None
