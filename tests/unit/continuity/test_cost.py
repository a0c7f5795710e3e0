"""A checkpoint costs what changed, not what exists (CONT-10)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from jamcore.continuity.generations.format import BLOCK
from jamcore.domain.secret_shapes import SecretScan

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import World

pytestmark = pytest.mark.anyio

SIZE = 48 << 20


def lines(source: random.Random, size: int) -> bytes:
    """Return text of about ``size`` bytes that compresses as a log does."""
    words = [bytes(source.choices(b"abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 9))) for _ in range(2000)]
    line = b'{"type":"item","text":"%s"}\n'
    return b"".join(line % b" ".join(source.choices(words, k=40)) for _ in range(size // 260))


@pytest.mark.guarantee("CONT-10")
async def test_appending_costs_about_what_was_appended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 48 MiB, ten kilobytes more read two blocks while the host is held, and write less than a block and its index."""
    source = random.Random(1)
    chunk = lines(source, 1 << 20)
    with world.log().open("wb") as stream:
        for number in range(SIZE // len(chunk)):
            stream.write(b"%d\n" % number + chunk)
    scanned: list[int] = []
    find = SecretScan.find

    def counting(self: SecretScan, block: bytes) -> str | None:
        scanned.append(len(block))
        return find(self, block)

    monkeypatch.setattr(SecretScan, "find", counting)
    first = await world.capture()
    assert sum(scanned) == first.bytes_total
    for _ in range(3):
        scanned.clear()
        with world.log().open("ab") as stream:
            stream.write(lines(source, 10_000))
        more = await world.capture()
        assert more.bytes_total > first.bytes_total
        assert sum(scanned) < BLOCK + 10_000
        assert more.bytes_written < BLOCK
    scanned.clear()
    unchanged = await world.capture()
    assert unchanged.bytes_written < 200
    assert scanned == []


@pytest.mark.guarantee("CONT-10")
async def test_one_change_among_many_files_writes_one_file_and_its_directories(world: World) -> None:
    """Ten thousand files in one directory: a change of one rewrites its block, one block of the directory, and the path up."""
    directory = world.state / "home/config/many"
    directory.mkdir(parents=True)
    for number in range(10_000):
        (directory / f"{number:05}").write_bytes(b"%d" % number)
    first = await world.capture()
    (directory / "04321").write_bytes(b"changed")
    second = await world.capture()
    assert first.files == second.files == 10_000
    assert second.bytes_written < first.bytes_written / 10
    assert second.bytes_written < 2 * BLOCK


@pytest.mark.guarantee("CONT-10")
async def test_equal_content_is_stored_once(world: World) -> None:
    """A copy of a file, and a file that moved, cost a name."""
    data = random.Random(2).randbytes(500_000)
    world.write("home/config/one", data)
    first = await world.capture()
    world.write("home/config/two", data)
    (world.state / "home/config/one").rename(world.state / "home/config/moved")
    second = await world.capture()
    assert first.bytes_written > 500_000
    assert second.bytes_written < 2000
