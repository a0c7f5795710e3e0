"""Looks at generations without changing anything: what one holds, whether it is sound, and what lies between two (CONT-4)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from uuid import UUID

from jamcore.continuity.generations.blocks import PackName, open_pack
from jamcore.continuity.generations.damage import damage_of
from jamcore.continuity.generations.databases import read_databases
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import Entry, Kind, read_root, walk_tree
from jamcore.continuity.generations.packs import EntryReader, scan
from jamcore.continuity.generations.publish import Generation, Generations
from jamcore.continuity.generations.verify import verify
from jamcore.domain.continuity import Checkpoint, CheckpointCorruptError, CheckpointEntry, EntryKind
from jamcore.system.names import show_path

_HOME = b"//"
"""Begins the key of a database, which lies below the guest's home: no path of the state begins so."""
_KINDS: Mapping[Kind, EntryKind] = {Kind.FILE: EntryKind.FILE, Kind.DIRECTORY: EntryKind.DIRECTORY, Kind.LINK: EntryKind.LINK}


class Look:
    """Reads the generations of one app directory with an index of its own, so that what it finds out changes nobody's. Blocking."""

    def __init__(self, generations: Generations) -> None:
        self._generations = generations

    def entries(self, host: UUID, checkpoint: UUID) -> dict[bytes, Entry]:
        """Return everything that a generation holds, by its path.

        Raises:
            CheckpointCorruptError: It is not there, or what lists its files is damaged. The files' own bytes are not read.
            OSError: A pack cannot be read.
        """
        generation = self._need(host, checkpoint)
        try:
            with damage_of(checkpoint), self._generations.blocks(host).reader() as source:
                return dict(_walk(source, generation))
        except ValueError as error:
            raise CheckpointCorruptError(checkpoint=str(checkpoint), detail=f"its root has no digest: {error}") from error

    def verify(self, host: UUID, checkpoint: UUID, recorded: Checkpoint | None = None) -> Generation:
        """Read a generation whole, and hold it against its row where that is given.

        Raises:
            CheckpointCorruptError: Anything of it is missing or damaged, or it is not what was recorded.
            OSError: A pack cannot be read, which proves nothing about it.
        """
        generation = self._need(host, checkpoint)
        if recorded is not None:
            generation.require_recorded(recorded)
        with self._generations.blocks(host).reader() as source:
            verify(source, generation)
        return generation

    def damaged_copies(self, host: UUID, checkpoint: UUID) -> str:
        """Return in words what is damaged in the own pack of a generation that is sound; empty: nothing.

        A resume reads each unit where a sound copy lies, so a generation is sound as long as another pack has what its own one lost.

        Raises:
            OSError: The pack cannot be read.
        """
        blocks = self._generations.blocks(host)
        name = PackName(checkpoint).file
        damaged: list[bytes] = []
        try:
            descriptor = open_pack(self._generations.packs(host) / name)
        except FileNotFoundError:
            return f"{name} is gone; other packs hold all that is needed of it"
        try:
            reader = EntryReader()
            for entry in scan(descriptor, checkpoint):
                if entry is None:
                    return f"{name} is not whole to its end; other packs hold all that is needed of it"
                if not reader.proves(descriptor, entry.offset, entry.digest):
                    damaged.append(entry.digest)
        finally:
            os.close(descriptor)
        if not damaged:
            return ""
        places = {place[0].name for digest in damaged if (place := blocks.locate(digest))} - {name}
        return f"damaged units in {name}: {len(damaged)}; sound copies of them lie in {', '.join(sorted(places))}"

    def _need(self, host: UUID, checkpoint: UUID) -> Generation:
        generation = self._generations.read(host, checkpoint)
        if generation is None:
            raise CheckpointCorruptError(checkpoint=str(checkpoint), detail="its complete.json is gone")
        return generation


def differing(older: Mapping[bytes, Entry], newer: Mapping[bytes, Entry]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the paths that were added, changed and removed, each in order. A directory changes only by coming, going or its mode."""
    added = sorted(newer.keys() - older.keys())
    removed = sorted(older.keys() - newer.keys())
    changed = sorted(path for path in older.keys() & newer.keys() if _differs(older[path], newer[path]))
    return added, changed, removed


def shown(path: bytes, entry: Entry) -> CheckpointEntry:
    """Return an entry as people see it: every byte of its name is visible."""
    size = 0 if entry.kind is Kind.DIRECTORY else entry.content.size
    if path.startswith(_HOME):
        below = show_path(path.removeprefix(_HOME))
        return CheckpointEntry(path=f"~/{below}", kind=EntryKind.DATABASE, mode=f"{entry.mode:04o}", bytes=size)
    return CheckpointEntry(path=show_path(path), kind=_KINDS[entry.kind], mode=f"{entry.mode:04o}", bytes=size)


def _walk(source: Source, generation: Generation) -> Iterator[tuple[bytes, Entry]]:
    root = read_root(source, bytes.fromhex(generation.root_digest))
    for path, entry in walk_tree(source, root):
        yield b"/".join(path), entry
    for one in read_databases(source, root.databases):
        yield _HOME + b"/".join(one.path), Entry(one.path[-1], Kind.FILE, one.mode, 0, one.content)


def _differs(older: Entry, newer: Entry) -> bool:
    if (older.kind, older.mode) != (newer.kind, newer.mode):
        return True
    return older.kind is not Kind.DIRECTORY and older.content != newer.content
