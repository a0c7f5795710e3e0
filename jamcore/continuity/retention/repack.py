"""Puts what is still needed into shared packs, and takes what is not off the disk (WS-9).

The order is what makes it safe: a shared pack gets its name when it is whole, durable and read back; then a generation stops being one by
one durable rename of its ``complete.json``; then packs are removed. At every moment everything that is needed lies in a pack that counts.
No name of a shared pack is ever used again, so whoever has one open, or knows an offset in it, is right about it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from uuid import UUID

from jamcore.continuity.generations.blocks import PackName, mode_of
from jamcore.continuity.generations.damage import damage_of
from jamcore.continuity.generations.packs import BlockDamagedError, EntryReader, PackEntry, PackWriter, scan
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.retention.survey import Moves, batches

MOVED, EXCHANGED, RETIRED, UNLINKED = "removal.moved", "removal.exchanged", "removal.retired", "removal.unlinked"
REPACK_POINTS = (MOVED, EXCHANGED, RETIRED, UNLINKED)
"""Boundaries inside the steps of a removal, in order; each is passed once for every pack, generation or file."""

_UNFINISHED = ".00000000.tmp"
"""How a shared pack is called while it is written: a temporary name like any other, which start-up sweeps."""
_GONE = ".gone"


class Repacker:
    """Changes the packs of one host for one removal. Blocking; every part may be repeated.

    Args:
        generations: The host's generations and their blocks.
        host: Whose.
        removal: Names the shared packs, and sorts after every pack that is there.
        reach: Told of boundaries.
        alive: Called often while entries are copied; raises to end the work.
    """

    def __init__(
        self, generations: Generations, host: UUID, removal: UUID, *, reach: Callable[[str], None], alive: Callable[[], None]
    ) -> None:
        self._generations = generations
        self._host = host
        self._removal = removal
        self._reach = reach
        self._alive = alive
        self._directory = generations.packs(host)
        self._gone = f".{removal}{_GONE}"

    def copy(self, entries: Sequence[PackEntry]) -> None:
        """Copy entries into shared packs, which count from then on.

        Raises:
            CheckpointCorruptError: One is damaged.
            OSError: The disk is full, or fails. Nothing was removed.
        """
        for batch in batches(entries):
            name = PackName(self._removal, 1 + max(self._numbers(), default=0))
            self._write(name, batch)
            self._generations.blocks(self._host).exchange(frozenset(), frozenset({name}))
            self._reach(MOVED)

    def forget(self, moves: Moves, selected: Sequence[UUID]) -> None:
        """Take the packs that go out of the index, so that no capture relies on them. The caller lets nobody publish meanwhile."""
        gone = {PackName(each) for each in selected} | {pack.name for pack in moves.doomed}
        self._generations.blocks(self._host).exchange(gone, frozenset())
        self._reach(EXCHANGED)

    def retire(self, moves: Moves, selected: Sequence[UUID]) -> None:
        """End generations, and the shared packs that were copied from. The index has forgotten them: nothing new needs them."""
        for checkpoint in selected:
            if self._generations.retire(self._host, checkpoint):
                self._reach(RETIRED)
        for name in (pack.name for pack in moves.doomed if pack.name.number):
            path = self._directory / name.file
            self._generations.files.rename(path, path.with_name(f"{name.file}{self._gone}"))
            self._reach(RETIRED)

    def unlink(self, selected: Sequence[UUID]) -> None:
        """Remove the packs that count no longer, and the generations' directories."""
        for path in self._left(selected):
            path.unlink(missing_ok=True)
            self._reach(UNLINKED)
        for checkpoint in selected:
            if self._generations.is_retired(self._host, checkpoint):
                self._generations.bury(self._host, checkpoint)
        self._generations.files.sync_directory(self._directory)

    def balance(self, selected: Iterable[UUID]) -> int:
        """Return by how much the packs become smaller when what counts no longer is removed; to be asked before it is."""
        gone = sum(path.stat().st_size for path in self._left(selected))
        shared = (PackName(self._removal, number).file for number in self._numbers())
        return gone - sum(path.stat().st_size for name in shared if mode_of(path := self._directory / name) is not None)

    def _left(self, selected: Iterable[UUID]) -> list[Path]:
        ended = (each for each in selected if self._generations.is_retired(self._host, each))
        packs = [path for each in sorted(ended) if mode_of(path := self._directory / PackName(each).file) is not None]
        return packs + sorted(self._directory.glob(f"*{self._gone}"))

    def _numbers(self) -> list[int]:
        """Return the numbers of this removal's shared packs, also of those that another removal has given up since."""
        form = re.compile(rf"{self._removal}-([1-9][0-9]*)\.")
        return [int(found[1]) for path in self._directory.iterdir() if (found := form.match(path.name))]

    def _write(self, name: PackName, batch: Sequence[PackEntry]) -> None:
        temporary = self._directory / f".{name.file}{_UNFINISHED}"
        writer = PackWriter(temporary, name.owner, known=lambda _: False, files=self._generations.files)
        try:
            with self._generations.blocks(self._host).reader() as source, damage_of(None):
                for entry in batch:
                    self._alive()
                    writer.copy(source.entry(entry.unit, entry.digest))
                writer.seal()
                self._read_back(temporary, name, batch)
        except BaseException:
            writer.discard()
            raise
        self._generations.files.rename(temporary, self._directory / name.file)

    def _read_back(self, path: Path, name: PackName, batch: Sequence[PackEntry]) -> None:
        """Prove that the pack holds exactly the entries of the batch, each with its bytes."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            found = list(scan(descriptor, name.owner))
            if [entry and (entry.unit, entry.digest) for entry in found] != [(entry.unit, entry.digest) for entry in batch]:
                raise BlockDamagedError(digest="", problem=f"{name.file} does not hold what was written to it")
            reader = EntryReader()
            for entry in found:
                if entry is not None:
                    self._alive()
                    reader.unit(descriptor, entry.offset, entry.unit, entry.digest)
        finally:
            os.close(descriptor)
