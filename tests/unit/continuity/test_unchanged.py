"""What is passed on from the generation before without being read, and what is not (CONT-10)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jamcore.continuity.generations.content import EMPTY, Content
from jamcore.continuity.generations.objects import Entry, Growth, Kind, Listing, Witness, encode
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.domain.continuity import CaptureEntry, CaptureKind, CaptureList, CaptureRefusedError
from tests.unit.continuity.test_capture import tree

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = pytest.mark.anyio


async def captured(world: World, name: str) -> Entry:
    """Make a generation and return what it has of a file."""
    return tree(world, await world.capture())[name.encode()]


@pytest.mark.guarantee("CONT-10")
@pytest.mark.parametrize("name", ["home/config/c", "home/sessions/c.jsonl"])
async def test_a_file_that_was_rewritten_with_its_size_and_time_is_read(world: World, name: str) -> None:
    """A program can set the modification time back, but not the change time."""
    path = world.write(name, b"one\n")
    world.log().write_bytes(b"x\n")
    before = path.stat()
    first = await captured(world, name)
    path.write_bytes(b"two\n" if "config" in name else b"one\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = await captured(world, name)
    assert first.witness != second.witness
    assert (first.content != second.content) is ("config" in name)


@pytest.mark.guarantee("CONT-10")
async def test_a_file_that_was_replaced_by_one_with_its_size_and_time_is_read(world: World) -> None:
    """Another file has another inode."""
    path = world.write("home/config/c", b"one")
    other = world.write("home/config/other", b"two")
    before = path.stat()
    first = await captured(world, "home/config/c")
    other.rename(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await captured(world, "home/config/c")).content != first.content


@pytest.mark.guarantee("CONT-10")
async def test_a_mode_that_changed_is_captured(world: World) -> None:
    """The bytes are the same and the mode is not: the entry is made anew."""
    path = world.write("home/config/c", b"one")
    path.chmod(0o600)
    first = await captured(world, "home/config/c")
    path.chmod(0o644)
    second = await captured(world, "home/config/c")
    assert (first.mode, second.mode, first.content) == (0o600, 0o644, second.content)


@pytest.mark.guarantee("CONT-10")
async def test_a_directory_that_was_replaced_is_captured_as_it_is_now(world: World) -> None:
    """By another directory, by a file, and by nothing."""
    world.write("home/config/d/one", b"1")
    world.write("home/config/d/two", b"2")
    await world.capture()
    inside = world.state / "home/config/d"
    inside.rename(world.state / "home/old")
    world.write("home/config/d/two", b"2")
    world.write("home/config/d/three", b"3")
    found = tree(world, await world.capture())
    assert {name for name in found if name.startswith(b"home/config/d/")} == {b"home/config/d/two", b"home/config/d/three"}
    inside.rename(world.state / "home/older")
    world.write("home/config/d", b"a file now")
    assert tree(world, await world.capture())[b"home/config/d"].kind is Kind.FILE
    (world.state / "home/config/d").unlink()
    assert b"home/config/d" not in tree(world, await world.capture())


@pytest.mark.guarantee("CONT-3", "SEC-7")
async def test_an_unchanged_file_is_held_to_the_rules_of_now(make_world: MakeWorld, tmp_path: Path) -> None:
    """A newer plugin may leave out, read as a log, or refuse what the generation before has."""
    async with make_world(tmp_path / "rules") as world:
        world.write("home/config/c", b"one\n")
        first = await captured(world, "home/config/c")
        log = CaptureEntry(pattern="home/config/**", kind=CaptureKind.APPEND_ONLY)
        world.captures = CaptureList(entries=(log,))
        second = await captured(world, "home/config/c")
        assert (first.growth, second.growth, first.content) == (Growth.WHOLE, Growth.APPENDED, second.content)
        world.captures = CaptureList(entries=(log,), credential_patterns=("home/*/c",))
        with pytest.raises(CaptureRefusedError, match="it is a credential"):
            await world.capture()
        world.captures = CaptureList(entries=(CaptureEntry(pattern="home/config/c", kind=CaptureKind.NEVER), log))
        assert b"home/config/c" not in tree(world, await world.capture())


@pytest.mark.guarantee("CONT-4")
async def test_unchanged_files_count_for_the_bounds(world: World) -> None:
    """What is passed on is still so many files and bytes."""
    world.write("home/config/c", b"12345")
    world.write("home/config/d", b"678")
    first, second = await world.capture(), await world.capture()
    assert (first.files, first.bytes_total) == (second.files, second.bytes_total) == (2, 8)


def entry(name: bytes, kind: Kind = Kind.FILE, witness: Witness | None = None) -> Entry:
    return Entry(name, kind, 0o644, 1, Content(5, bytes(32)) if kind is Kind.FILE else EMPTY, Growth.WHOLE, witness)


def status(path: Path) -> os.stat_result:
    path.write_bytes(b"12345")
    path.chmod(0o644)
    os.utime(path, ns=(1, 1))
    return path.stat()


def test_a_listing_gives_back_what_was_stored() -> None:
    """Names, entries, and nothing for a name that is not there."""
    entries = [entry(b"a"), entry(b"b", Kind.DIRECTORY), entry(b"c" * 255, witness=Witness(7, 8))]
    listing = Listing(b"".join(map(encode, entries)))
    assert list(listing) == [one.name for one in entries]
    assert [listing.entry(one.name) for one in entries] == entries
    assert listing.entry(b"d") is None


@pytest.mark.guarantee("CONT-10")
def test_only_a_witnessed_file_is_passed_on(tmp_path: Path) -> None:
    """Of a file that was young there is no witness, and a directory is never taken for a file."""
    now = status(tmp_path / "file")
    witness = Witness(now.st_ctime_ns, now.st_ino)
    data = encode(entry(b"a", witness=witness)) + encode(entry(b"b")) + encode(entry(b"c", Kind.DIRECTORY, witness))
    listing = Listing(data)
    assert listing.record_of(b"a", Growth.WHOLE, now) == encode(entry(b"a", witness=witness))
    assert listing.record_of(b"a", Growth.APPENDED, now) is None
    assert [listing.record_of(name, Growth.WHOLE, now) for name in (b"b", b"c", b"d")] == [None] * 3


def test_a_listing_that_is_cut_short_is_damaged() -> None:
    """At any place but between two entries."""
    one, data = encode(entry(b"a")), encode(entry(b"a")) + encode(entry(b"b"))
    for size in range(1, len(data)):
        if size == len(one):
            assert list(Listing(data[:size])) == [b"a"]
            continue
        with pytest.raises(BlockDamagedError):
            Listing(data[:size])


def test_an_entry_that_has_no_known_form_is_as_if_it_were_not_there() -> None:
    """Then the file is read and stored anew."""
    data = bytearray(encode(entry(b"a")))
    data[0] = 9
    assert Listing(bytes(data)).entry(b"a") is None
