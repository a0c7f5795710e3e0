"""Databases in the format: a second table, blocks of the page size, and generations of before (CONT-4, CONT-10)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jamcore.continuity.generations.blocks import COMPLETE
from jamcore.continuity.generations.content import EMPTY, Content, read_stream, write_stream
from jamcore.continuity.generations.databases import Database, DatabaseWriter, block_of, read_databases, write_databases
from jamcore.continuity.generations.format import BLOCK, Unit, digest_of
from jamcore.continuity.generations.objects import Root, read_root, write_root
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.continuity.generations.publish import Generation
from jamcore.domain.continuity import CheckpointCorruptError, SecretInStateError

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import World

PAGES = [1 << power for power in range(9, 17)]
NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: name not in (b".", b"..") and not set(b"/\0") & set(name))
CONTENTS = st.builds(
    Content,
    size=st.integers(1, 1 << 40),
    digest=st.binary(min_size=32, max_size=32),
    block=st.sampled_from([block_of(page) for page in PAGES]),
)
DATABASES = st.lists(
    st.builds(Database, path=st.lists(NAMES, min_size=1, max_size=4).map(tuple), mode=st.integers(0, 0o777), content=CONTENTS),
    max_size=5,
    unique_by=lambda one: one.path,
)


class Units:
    """Units in memory."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def put(self, unit: Unit, data: bytes) -> bytes:
        """Keep a unit."""
        digest = digest_of(unit, data)
        self.kept[digest] = data
        return digest

    def get(self, unit: Unit, digest: bytes) -> bytes:
        """Return a unit."""
        return self.kept[digest]


def header(page: int) -> bytes:
    """Return how a database of this page size begins."""
    return (b"SQLite format 3\0" + (page % 65536 or 1).to_bytes(2, "big")).ljust(100, b"\0")


@pytest.mark.guarantee("CONT-4")
@given(databases=DATABASES)
def test_a_table_comes_back_in_the_order_of_its_paths(databases: list[Database]) -> None:
    """Whatever the names, modes and sizes."""
    units = Units()
    assert read_databases(units, write_databases(units, databases)) == tuple(sorted(databases, key=lambda one: one.path))


@pytest.mark.guarantee("CONT-4")
@given(databases=DATABASES.filter(bool), data=st.data())
def test_a_table_that_no_writer_makes_is_refused(databases: list[Database], data: st.DataObject) -> None:
    """Cut anywhere, or with its entries twice."""
    units = Units()
    table = read_stream(units, write_databases(units, databases))
    cut = data.draw(st.integers(1, len(table) - 1))
    for wrong in (table[:cut], table + table):
        try:
            found = read_databases(units, write_stream(units, wrong))
        except BlockDamagedError:
            continue
        assert len(found) < len(databases)  # a cut between two entries leaves a table of fewer, whose digest is another


@pytest.mark.guarantee("CONT-10")
@settings(deadline=None)
@given(page=st.sampled_from(PAGES), count=st.integers(1, 40), piece=st.integers(700, 100_000), filler=st.binary(min_size=1))
def test_a_database_is_stored_in_its_pages_however_its_bytes_come(page: int, count: int, piece: int, filler: bytes) -> None:
    """Blocks are pages, from four kilobytes to the largest block; the bytes come back whole."""
    body = (header(page) + filler * (page * count))[: page * count]
    units = Units()
    writer = DatabaseWriter(units, (b"a.db",), page)
    for at in range(0, len(body), piece):
        writer.take(body[at : at + piece])
    stored = writer.finish(0o640)
    assert (stored.content.size, stored.content.block) == (len(body), min(max(page, 4096), BLOCK))
    assert read_stream(units, stored.content) == body


def _all(writer: DatabaseWriter, body: bytes) -> Database:
    writer.take(body)
    return writer.finish(0o600)


@pytest.mark.guarantee("CONT-5")
def test_a_page_size_that_the_header_does_not_say_is_refused() -> None:
    """Also when the database is smaller than a block."""
    for pages in (1, 20):
        writer = DatabaseWriter(Units(), (b"a.db",), 1024)
        with pytest.raises(ValueError, match="another page size"):
            _all(writer, header(512).ljust(1024 * pages, b"-"))


@pytest.mark.guarantee("SEC-7")
def test_a_credential_across_two_pieces_is_found() -> None:
    """As the pages lie beside each other."""
    writer = DatabaseWriter(Units(), (b"a.db",), 4096)
    writer.take(header(4096).ljust(4000, b" ") + b" ghp_A1b2A1b2")
    with pytest.raises(SecretInStateError, match=r"~/a\.db"):
        writer.take(b"A1b2" * 20)


TOKENS = (b"ghp_" + b"A1b2" * 9, b"gho_" + b"A1b2" * 9, b"github_pat_" + b"A1_b" * 20, b"sk-proj-" + b"aB3-" * 11)


@pytest.mark.guarantee("SEC-7")
@pytest.mark.parametrize("token", TOKENS)
def test_a_credential_right_behind_another_value_is_found(token: bytes) -> None:
    """A database puts nothing between two values; in the middle of long base64 text the short prefixes mean nothing."""
    with pytest.raises(SecretInStateError):
        _all(DatabaseWriter(Units(), (b"a.db",), 4096), header(4096) + b"0f8fad5b-d9cb-469f-a165-70867728950e" * 2 + token)
    if len(token) < 50:
        _all(DatabaseWriter(Units(), (b"a.db",), 4096), header(4096) + b"Zm9v" * 60 + token)


@pytest.mark.guarantee("CONT-4")
def test_a_root_without_databases_and_one_of_before_are_read_the_same() -> None:
    """A person's checkpoints survive an upgrade; a version that is not known is refused by its number."""
    units = Units()
    root = Root(0o700, 7, Content(5, b"d" * 32), 1, 5)
    old = struct.Struct(">HHqQ32sQQ")
    before = units.put(Unit.ROOT, old.pack(1, 0o700, 7, 5, b"d" * 32, 1, 5))
    assert read_root(units, before) == read_root(units, write_root(units, root)) == root
    assert root.databases == EMPTY
    with pytest.raises(BlockDamagedError, match="schema 3 is not known"):
        read_root(units, units.put(Unit.ROOT, old.pack(3, 0o700, 7, 5, b"d" * 32, 1, 5)))
    with pytest.raises(BlockDamagedError, match="wrong length"):
        read_root(units, units.put(Unit.ROOT, old.pack(2, 0o700, 7, 5, b"d" * 32, 1, 5)))


@pytest.mark.guarantee("CONT-4", "CONT-7")
async def test_a_generation_of_the_first_schema_is_still_one(world: World) -> None:
    """It is verified, decided on and gone on from; one of a later schema is refused by name."""
    world.log().write_bytes(b"{}\n")
    made = await world.capture()
    path = world.complete(made)
    written = Generation.model_validate_json(path.read_bytes())
    path.write_bytes(written.model_copy(update={"schema_version": 1}).sealed().canonical_json())
    world.restart()
    assert (await world.inspect()).evidence.generation_state == "verified"
    assert (await world.capture()).generation == made.generation + 1
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":3'))
    with pytest.raises(CheckpointCorruptError, match="schema_version"):
        world.generations.read(world.host.id, made.id)
    assert Path(path).name == COMPLETE
