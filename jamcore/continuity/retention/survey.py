"""What a host's packs hold and what its generations need: the ground of every removal of payload (WS-9).

The pack of a generation that goes is given up whole, and so is a shared pack in which anything is needed no longer. What the generations
that stay need of these packs is moved first. Nothing is changed here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from jamcore.continuity.generations.blocks import COMPLETE, BlockReader, BlockStore, PackName, is_regular, shared_packs
from jamcore.continuity.generations.damage import damage_of
from jamcore.continuity.generations.format import Unit
from jamcore.continuity.generations.marking import Marks, mark
from jamcore.continuity.generations.packs import ENTRY_BYTES, HEADER_BYTES, PackEntry, scan
from jamcore.continuity.generations.publish import Generations
from jamcore.domain.continuity import Checkpoint, CheckpointCorruptError
from jamcore.domain.retention import Blocker, Retention

SHARED_BYTES = 64 << 20
"""Where a shared pack ends and the next begins: a later removal rewrites those alone in which something is needed no longer."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack as its headers tell."""

    name: PackName
    size: int
    entries: tuple[PackEntry, ...]


@dataclass(frozen=True, slots=True)
class Moves:
    """What a removal does to packs: which it gives up, and which entries it copies before."""

    doomed: tuple[Pack, ...]
    entries: tuple[PackEntry, ...]

    @property
    def bytes_copied(self) -> int:
        """The size of the shared packs that are written."""
        return sum(HEADER_BYTES + sum(map(entry_bytes, batch)) for batch in batches(self.entries))

    @property
    def bytes_freed(self) -> int:
        """By how much all packs become smaller together."""
        return sum(pack.size for pack in self.doomed) - self.bytes_copied


class Survey:
    """One look at a host, for a removal of ``selected``. Blocking; belongs to one thread at a time.

    Args:
        generations: The host's generations and their blocks.
        host: Whose.
        rows: Every recorded generation.
        selected: Those that are to go.
        alive: Called often; raises to end the work.
    """

    def __init__(
        self,
        generations: Generations,
        host: UUID,
        rows: Iterable[Checkpoint],
        selected: frozenset[UUID],
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._generations = generations
        self._host = host
        self._rows = {row.id: row for row in rows}
        self._selected = selected
        self._alive = alive
        self._directory = generations.packs(host)
        self._blocks: BlockStore = generations.blocks(host)
        self._packs: dict[PackName, Pack] = {}
        self._entries: dict[bytes, PackEntry] = {}
        self._seen: set[UUID] = set()
        self._proven: set[bytes] = set()
        self.needed = Marks()

    def look(self) -> None:
        """Read what was published since the last look, and add what it needs.

        Raises:
            CheckpointCorruptError: A generation that stays is damaged or lacks its ``complete.json``, so what it needs cannot be told.
            OSError: A pack cannot be read.
        """
        new = self._generations.published(self._host, frozenset(self._seen))
        self._require_roots(self._seen | new)
        shared = shared_packs(self._directory)
        self._blocks.refresh()
        self._blocks.exchange(frozenset(), shared)
        for name in sorted({PackName(each) for each in new} | (shared - self._packs.keys())):
            if (pack := read_pack(self._directory, name)) is not None:
                self._packs[name] = pack
                self._entries.update((entry.digest, entry) for entry in pack.entries)
        with self._blocks.reader() as source:
            for each in sorted(new - self._selected):
                with damage_of(each):
                    mark(source, self._unit, self._root(each), self.needed, self._alive)
        self._seen |= new

    def moves(self) -> Moves:
        """Return what goes and what is copied before; asked again, it reads only what is new.

        Raises:
            CheckpointCorruptError: A unit that others need is damaged.
        """
        needed = self.needed.units
        doomed = tuple(pack for name, pack in sorted(self._packs.items()) if self._goes(name, pack))
        places = {self._directory / pack.name.file: pack for pack in doomed}
        entries = []
        with self._blocks.reader() as source:
            for path, pack in places.items():
                for entry in pack.entries:
                    if entry.digest not in needed:
                        continue
                    place = self._blocks.locate(entry.digest)
                    if place == (path, entry.offset):
                        entries.append(entry)
                    elif place is None or place[0] not in places:
                        self._prove(source, entry.unit, entry.digest)  # another copy of it stays, and must be sound
        return Moves(doomed, tuple(entries))

    def retention(self, moves: Moves) -> tuple[Retention, ...]:
        """Read everything of what is to go, and return for each generation what it frees, oldest first.

        A unit that several of them hold counts for the newest. What lies in the packs besides counts for the oldest, so that the figures
        add up.

        Raises:
            CheckpointCorruptError: The newest is damaged, so that what is to go may be the last that is sound.
        """
        owner: dict[bytes, UUID] = {}
        found: dict[UUID, Retention] = {}
        marks = Marks()
        with self._blocks.reader() as source:
            for each in sorted(self._selected, key=lambda one: -self._rows[one].generation):
                found[each] = self._look_at(source, each, marks, owner)
            if not any(item.blocker for item in found.values()):
                for entry in moves.entries:
                    self._prove(source, entry.unit, entry.digest)
                self._prove_newest(source)
        items = sorted(found.values(), key=lambda item: item.generation)
        return tuple(items if any(item.blocker for item in items) else self._shared_out(items, moves, owner))

    def _look_at(self, source: BlockReader, each: UUID, marks: Marks, owner: dict[bytes, UUID]) -> Retention:
        row = self._rows[each]
        item = Retention(checkpoint_id=each, generation=row.generation)
        begin = len(marks.order)
        try:
            generation = self._generations.read(self._host, each)
            if generation is None:
                return item.model_copy(update={"blocker": Blocker.MISSING, "detail": "its complete.json is gone"})
            generation.require_recorded(row)
            with damage_of(each):
                mark(source, self._unit, bytes.fromhex(row.root_digest), marks, self._alive)
            for digest in marks.order[begin:]:
                self._prove(source, self._entries[digest].unit, digest, each)
        except CheckpointCorruptError as error:
            return item.model_copy(update={"blocker": Blocker.CORRUPT, "detail": error.detail})
        new = marks.order[begin:]
        owner.update(dict.fromkeys(new, each))
        stays = sum(entry_bytes(self._entries[digest]) for digest in new if digest in self.needed.units)
        return item.model_copy(update={"bytes_stay": stays})

    def _prove_newest(self, source: BlockReader) -> None:
        """Read whole what the rooms come back from; it shares most with what is to go, which was read just now."""
        newest = max(self._rows.values(), key=lambda row: row.generation, default=None)
        if newest is None or newest.id not in self._seen:
            return
        marks = Marks()
        with damage_of(newest.id):
            mark(source, self._unit, self._root(newest.id), marks, self._alive)
        for digest in marks.order:
            self._prove(source, self._entries[digest].unit, digest, newest.id)

    def _shared_out(self, items: list[Retention], moves: Moves, owner: Mapping[bytes, UUID]) -> list[Retention]:
        shares = {item.checkpoint_id: 0 for item in items}
        for pack in moves.doomed:
            for entry in pack.entries:
                if entry.digest not in self.needed.units and entry.digest in owner:
                    shares[owner[entry.digest]] += entry_bytes(entry)
        shares[items[0].checkpoint_id] += moves.bytes_freed - sum(shares.values())
        return [item.model_copy(update={"bytes_freed": shares[item.checkpoint_id]}) for item in items]

    def _require_roots(self, published: AbstractSet[UUID]) -> None:
        """Require that every recorded generation that stays is one still, unless its payload was removed."""
        for each in sorted(self._rows.keys() - published - self._selected):
            if not self._generations.is_retired(self._host, each):
                raise CheckpointCorruptError(
                    checkpoint=str(each), detail=f"its {COMPLETE} is gone, so what it needs cannot be told"
                )

    def _unit(self, digest: bytes) -> Unit | None:
        entry = self._entries.get(digest)
        return entry.unit if entry else None

    def _goes(self, name: PackName, pack: Pack) -> bool:
        if not name.number:
            return name.owner in self._selected
        return any(entry.digest not in self.needed.units for entry in pack.entries)

    def _prove(self, source: BlockReader, unit: Unit, digest: bytes, of: UUID | None = None) -> None:
        if digest in self._proven:
            return
        self._alive()
        with damage_of(of):
            source.get(unit, digest)
        self._proven.add(digest)

    def _root(self, each: UUID) -> bytes:
        row = self._rows.get(each)
        if row is not None:
            return bytes.fromhex(row.root_digest)
        generation = self._generations.read(self._host, each)
        if generation is None:
            raise CheckpointCorruptError(checkpoint=str(each), detail="its complete.json went away")
        return bytes.fromhex(generation.root_digest)


def read_pack(directory: Path, name: PackName) -> Pack | None:
    """Return a pack as far as it is whole; ``None`` when it is not there.

    Raises:
        OSError: It cannot be read.
    """
    path = directory / name.file
    if not is_regular(path):
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        entries = tuple(entry for entry in scan(descriptor, name.owner) if entry is not None)
        return Pack(name, os.fstat(descriptor).st_size, entries)
    finally:
        os.close(descriptor)


def entry_bytes(entry: PackEntry) -> int:
    """Return the bytes that an entry takes in its pack."""
    return ENTRY_BYTES + entry.stored


def batches(entries: Iterable[PackEntry]) -> Iterator[list[PackEntry]]:
    """Cut entries into what one shared pack each holds."""
    batch: list[PackEntry] = []
    size = 0
    for entry in entries:
        if batch and size + entry_bytes(entry) > SHARED_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry_bytes(entry)
    if batch:
        yield batch
