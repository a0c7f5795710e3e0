"""Packs and blocks: what is stored is verified when it is read, and nothing is stored twice (CONT-4, CONT-10)."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jamcore.continuity.generations.blocks import BlockStore
from jamcore.continuity.generations.content import EMPTY, Content, read_stream, write_stream
from jamcore.continuity.generations.format import BLOCK, FANOUT, Unit, digest_of
from jamcore.continuity.generations.objects import Entry, Growth, Kind, Witness, read_directory, write_directory
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.system.files import Files


class Store:
    """A block store in a directory, and a way to publish packs."""

    def __init__(self, root: Path) -> None:
        self.packs, self.checkpoints = root / "packs", root / "checkpoints"
        self.packs.mkdir()
        self.checkpoints.mkdir()
        self.blocks = self.reopen()

    def reopen(self) -> BlockStore:
        """Open it as a new process does."""
        self.blocks = BlockStore(self.packs, self.checkpoints)
        self.blocks.refresh()
        return self.blocks

    def publish(self, *units: bytes, checkpoint: UUID | None = None) -> tuple[Path, int]:
        """Publish a pack that holds the units."""
        checkpoint = checkpoint or uuid4()
        writer = self.blocks.writer(checkpoint, Files())
        for data in units:
            writer.put(Unit.LEAF, data)
        writer.seal()
        self.mark(checkpoint)
        return self.packs / f"{checkpoint}.pack", writer.bytes_written

    def mark(self, checkpoint: UUID) -> None:
        """Publish what was sealed."""
        (self.checkpoints / str(checkpoint)).mkdir()
        (self.checkpoints / str(checkpoint) / "complete.json").touch()
        self.blocks.refresh()

    def get(self, data: bytes) -> bytes:
        """Read a unit."""
        with self.blocks.reader() as reader:
            return reader.get(Unit.LEAF, digest_of(Unit.LEAF, data))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_unit_is_stored_once(store: Store) -> None:
    """A second generation that holds the same bytes writes no block, and its pack is a header."""
    store.publish(b"x" * 9000, b"x" * 9000)
    _, written = store.publish(b"x" * 9000)
    _, empty = store.publish()
    assert written == empty
    assert store.get(b"x" * 9000) == b"x" * 9000


def test_packs_are_private(store: Store) -> None:
    """Nobody else may read what a provider wrote (CONT-4)."""
    path, _ = store.publish(b"secret")
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_index_is_rebuilt_from_the_packs(store: Store) -> None:
    """A new process finds every unit of every published pack, also beyond the packs that are kept open."""
    units = [os.urandom(300) + bytes([number]) for number in range(40)]
    for unit in units:
        store.publish(unit)
    store.reopen()
    with store.blocks.reader() as reader:
        assert [reader.get(Unit.LEAF, digest_of(Unit.LEAF, unit)) for unit in units] == units
    assert not store.blocks.damaged


def test_an_unpublished_pack_does_not_count_and_may_be_overwritten(store: Store) -> None:
    """What has no ``complete.json`` is neither found nor reused, and an exact retry writes it again."""
    checkpoint = uuid4()
    first = store.blocks.writer(checkpoint, Files())
    first.put(Unit.LEAF, b"lost")
    first.seal()
    store.reopen()
    assert not store.blocks.has(digest_of(Unit.LEAF, b"lost"))
    store.publish(b"kept", checkpoint=checkpoint)
    assert store.get(b"kept") == b"kept"
    with pytest.raises(ValueError, match="is published"):
        store.blocks.writer(checkpoint, Files())


def test_a_unit_of_another_kind_is_another_unit(store: Store) -> None:
    """A file whose bytes are those of an index node does not pass for one."""
    writer = store.blocks.writer(checkpoint := uuid4(), Files())
    node = writer.put(Unit.NODE, b"n" * 64)
    writer.seal()
    store.mark(checkpoint)
    with store.blocks.reader() as reader, pytest.raises(BlockDamagedError):
        reader.get(Unit.LEAF, node)


@pytest.mark.parametrize("cut", [1, 20, 60, 400])
def test_a_torn_tail_is_noticed_and_what_is_before_it_is_read(store: Store, cut: int) -> None:
    """A pack that lost its end keeps its beginning; the missing unit is said to be missing."""
    whole, last = os.urandom(500), os.urandom(500)
    path, size = store.publish(whole, last)
    os.truncate(path, size - cut)
    store.reopen()
    assert store.blocks.damaged
    assert store.get(whole) == whole
    with pytest.raises(BlockDamagedError):
        store.get(last)


def test_a_missing_pack_is_damage(store: Store) -> None:
    """A published generation without its pack is noticed at once."""
    path, _ = store.publish(b"gone")
    path.unlink()
    store.reopen()
    assert store.blocks.damaged


def test_a_condemned_unit_is_stored_anew_and_the_new_copy_wins(store: Store) -> None:
    """Damage heals: what was found damaged is written again, and a new process reads the good copy."""
    unit = os.urandom(5000)
    path, size = store.publish(unit)
    with path.open("r+b") as stream:
        stream.seek(size - 10)
        byte = stream.read(1)
        stream.seek(size - 10)
        stream.write(bytes([byte[0] ^ 1]))
    with pytest.raises(BlockDamagedError):
        store.get(unit)
    assert store.blocks.damaged
    # Later in time, as a UUIDv7 is: the newest copy wins.
    store.publish(unit, checkpoint=UUID(int=(1 << 128) - 1))
    assert store.get(unit) == unit
    store.reopen()
    assert store.get(unit) == unit


class MemoryUnits:
    """Units in memory."""

    def __init__(self) -> None:
        self.units: dict[tuple[Unit, bytes], bytes] = {}

    def put(self, unit: Unit, data: bytes) -> bytes:
        """Keep a unit."""
        digest = digest_of(unit, data)
        self.units[unit, digest] = data
        return digest

    def get(self, unit: Unit, digest: bytes) -> bytes:
        """Return a unit."""
        if (unit, digest) not in self.units:
            raise BlockDamagedError(digest=digest.hex(), problem="absent")
        return self.units[unit, digest]


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, FANOUT * BLOCK, FANOUT * BLOCK + 1, FANOUT * BLOCK * 2 + 7])
def test_streams_of_every_height_come_back(size: int) -> None:
    """No blocks, one, a full node, and more than one level of nodes."""
    units, data = MemoryUnits(), os.urandom(size)
    content = write_stream(units, data)
    assert content.size == size
    assert read_stream(units, content) == data
    assert (content == EMPTY) is (size == 0)


@pytest.mark.parametrize("size", [1, BLOCK + 1, FANOUT * BLOCK + 1])
def test_a_stream_with_another_size_is_damaged(size: int) -> None:
    """The size is part of the name: one byte more or less, or a block more, is refused."""
    units = MemoryUnits()
    content = write_stream(units, os.urandom(size))
    for wrong in (size - 1, size + 1, size + BLOCK, size * 3):
        with pytest.raises(BlockDamagedError):
            read_stream(units, Content(wrong, content.digest))


raw_names = st.binary(min_size=1, max_size=255).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)
entries = st.builds(
    Entry,
    name=raw_names,
    kind=st.sampled_from(Kind),
    mode=st.integers(0, 0o777),
    mtime_ns=st.integers(-(2**63), 2**63 - 1),
    content=st.builds(Content, st.integers(0, 2**64 - 1), st.binary(min_size=32, max_size=32)),
    growth=st.sampled_from(Growth),
    witness=st.none() | st.builds(Witness, st.integers(1, 2**63 - 1), st.integers(0, 2**64 - 1)),
)


@settings(max_examples=60)
@given(st.lists(entries, unique_by=lambda entry: entry.name, max_size=8))
def test_directories_are_canonical(found: list[Entry]) -> None:
    """Any names in any order give one encoding, and it comes back as it was."""
    units = MemoryUnits()
    content = write_directory(units, found)
    assert content == write_directory(units, reversed(found))
    assert read_directory(units, content) == tuple(sorted(found, key=lambda entry: entry.name))


@given(st.binary(max_size=400))
def test_bytes_that_are_no_directory_are_refused(data: bytes) -> None:
    """Whatever a block holds, reading it as a directory either gives entries with proper names or says that it is damaged."""
    units = MemoryUnits()
    content = write_stream(units, data)
    try:
        found = read_directory(units, content)
    except BlockDamagedError:
        return
    assert write_directory(units, found) == content
