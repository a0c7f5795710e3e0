"""A restore stays within its roots whatever a guest left there, and is repeated until it is whole (CONT-5, CONT-11, WS-13)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from jamcore.continuity.generations.restoring import is_half_restored
from jamcore.continuity.resuming.replaced import KEPT
from jamcore.continuity.resuming.restore import RESTORE_POINTS
from jamcore.continuity.resuming.staging import SYNC_EACH
from jamcore.domain.continuity import CaptureRefusedError, CheckpointCorruptError, ResumeSource
from jamcore.domain.errors import InvalidInputError
from jamcore.system.removal import empty_directory
from jamcore.system.trees import open_root, owned

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import World

pytestmark = pytest.mark.anyio


class KilledError(Exception):
    """Ends a restore at a boundary, as a crash would."""


class KillAt:
    """Raises at one boundary, every time."""

    def __init__(self, point: str) -> None:
        self._point = point

    def reach(self, point: str) -> None:
        """Raise at the boundary."""
        if point == self._point:
            raise KilledError(point)


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return everything below a directory: mode and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        content = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (path.lstat().st_mode, content)
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What no restore may touch."""
    outside = tmp_path / "outside"
    (outside / "sessions").mkdir(parents=True)
    for name in ("a.jsonl", "sessions/a.jsonl", "x.sqlite", "deep.jsonl"):
        (outside / name).write_bytes(b"precious")
    return outside


def replace(path: Path, target: Path) -> None:
    """Put a link in the place of whatever is there."""
    path.rename(path.with_name(f"was-{path.name}"))
    path.symlink_to(target)


def _lose_the_log(world: World) -> None:
    """Make a restore necessary."""
    world.log().unlink()


def _sessions(world: World, outside: Path) -> None:
    replace(world.state / "home/sessions", outside)


def _home(world: World, outside: Path) -> None:
    replace(world.state / "home", outside)


def _log(world: World, outside: Path) -> None:
    replace(world.log(), outside / "a.jsonl")


def _deep(world: World, outside: Path) -> None:
    replace(world.state / "home/sessions/1", outside)


def _database(world: World, outside: Path) -> None:
    _lose_the_log(world)
    (world.state / "home/x.sqlite").symlink_to(outside / "x.sqlite")


def _database_directory(world: World, outside: Path) -> None:
    _lose_the_log(world)
    (world.state / "home/d.sqlite").symlink_to(outside)


def _above_scratch(world: World, outside: Path) -> None:
    _lose_the_log(world)
    replace(world.home / ".cache", outside)


def _scratch(world: World, outside: Path) -> None:
    _lose_the_log(world)
    replace(world.home / ".cache/db", outside)


def _foreign_link(world: World, outside: Path) -> None:
    _lose_the_log(world)
    world.log("extra.jsonl").symlink_to(outside / "a.jsonl")


def _hard_link(world: World, outside: Path) -> None:
    _lose_the_log(world)
    world.log("hard.jsonl").hardlink_to(outside / "a.jsonl")


HOSTILE: dict[str, Callable[[World, Path], None]] = {
    "a link for the log's directory": _sessions,
    "a link for the directory above": _home,
    "a link for the log": _log,
    "a link for a deeper directory": _deep,
    "a database that is a link to a file": _database,
    "a database that is a link to a directory": _database_directory,
    "a link above the scratch directory": _above_scratch,
    "a link for the scratch directory": _scratch,
    "a foreign log that is a link": _foreign_link,
    "a foreign log that is a hard link": _hard_link,
}


@pytest.mark.unprivileged
@pytest.mark.guarantee("WS-13", "CONT-5")
@pytest.mark.parametrize("hostile", sorted(HOSTILE))
async def test_no_link_leads_a_restore_out(world: World, outside: Path, hostile: str) -> None:
    """Links in the place of directories, logs, databases and scratch: what they name is untouched, and the state is whole."""
    world.log().write_bytes(b"one\n")
    world.write("home/sessions/1/deep.jsonl", b"deep\n")
    (world.home / ".cache/db").mkdir(parents=True)
    await world.capture()
    HOSTILE[hostile](world, outside)
    before = snapshot(outside)
    placed = await world.place()
    assert placed.source is ResumeSource.GENERATION
    assert snapshot(outside) == before
    assert world.log().read_bytes() == b"one\n"
    assert (world.state / "home/sessions/1/deep.jsonl").read_bytes() == b"deep\n"
    assert not any(path.is_symlink() for path in (world.log(), world.log().parent, world.state / "home"))
    assert (world.state / "home/sessions/1/deep.jsonl").is_file()


@pytest.mark.guarantee("CONT-11", "WS-12")
@pytest.mark.parametrize("point", RESTORE_POINTS)
async def test_a_crash_at_every_boundary_is_repeated_to_the_end(world: World, point: str) -> None:
    """While a restore is half done nothing is captured and no live state is used; a repeat ends in the whole generation."""
    world.log().write_bytes(b"one\n")
    world.log("b.jsonl").write_bytes(b"bee\n")
    await world.capture()
    world.log().write_bytes(b"other\n")
    world.log("b.jsonl").write_bytes(b"bee\nmore\n")
    world.write("home/state.sqlite", b"stale")
    world.restart(KillAt(point))
    with pytest.raises(KilledError):
        await world.place()
    world.restart()
    half = is_half_restored(world.recovery)
    assert half is (point in ("restore.begun", "restore.cleared", "restore.swapped"))
    if half:
        with pytest.raises(CaptureRefusedError):
            await world.capture()
    await world.place()
    assert not is_half_restored(world.recovery)
    assert {path.name: path.read_bytes() for path in world.log().parent.iterdir()} == {"a.jsonl": b"one\n", "b.jsonl": b"bee\n"}
    assert not (world.state / "home/state.sqlite").exists()
    replaced = [path.read_bytes() for path in (world.recovery / "replaced").rglob("*.jsonl")]
    assert sorted(replaced) == [b"bee\nmore\n", b"other\n"]
    await world.capture()


@pytest.mark.guarantee("CONT-5")
async def test_the_newest_of_what_was_replaced_is_kept(world: World, outside: Path) -> None:
    """The last few restores' files stay, whole; older ones go, whatever a guest made of them; what no restore named is left alone."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    replaced = world.recovery / "replaced"
    replaced.mkdir()
    (replaced / "mine").mkdir()
    made: list[Path] = []
    for number in range(KEPT + 2):
        world.log().write_bytes(b"other %d\n" % number)
        (world.log().parent / "link.jsonl").symlink_to(outside)
        placed = await world.place()
        assert placed.set_aside is not None
        made.append(placed.set_aside)
        deep = placed.set_aside / "a/b/c"
        deep.mkdir(parents=True)
        (deep / "out").symlink_to(outside)
    before = snapshot(outside)
    assert sorted(replaced.iterdir()) == sorted([*made[-KEPT:], replaced / "mine"])
    assert [(path / "home/sessions/a.jsonl").read_bytes() for path in made[-KEPT:]] == [
        b"other %d\n" % number for number in range(2, KEPT + 2)
    ]
    assert snapshot(outside) == before


@pytest.mark.guarantee("CONT-5")
async def test_the_newest_is_kept_though_the_clock_was_set_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which restore came last is told by their order, not by the time that each of them read."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    made: list[Path] = []
    for number in range(KEPT + 2):
        early = UUID(int=(1000 - number) << 80 | 7 << 76 | 2 << 62)
        monkeypatch.setattr(world.ids, "uuid", lambda early=early: early)
        world.log().write_bytes(b"other %d\n" % number)
        placed = await world.place()
        assert placed.set_aside is not None
        made.append(placed.set_aside)
    assert [path for path in made if path.exists()] == made[-KEPT:]


@pytest.mark.guarantee("CONT-5")
async def test_old_replaced_files_that_cannot_be_removed_keep_nobody_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is in place; the next restore tries again."""
    world.log().write_bytes(b"one\n")
    await world.capture()

    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("jamcore.continuity.resuming.replaced.remove_entry", refuse)
        for number in range(KEPT + 1):
            world.log().write_bytes(b"other %d\n" % number)
            assert (await world.place()).source is ResumeSource.GENERATION
    assert len(list((world.recovery / "replaced").iterdir())) == KEPT + 1
    world.log().write_bytes(b"other\n")
    await world.place()
    assert len(list((world.recovery / "replaced").iterdir())) == KEPT


@pytest.mark.guarantee("CONT-1")
async def test_damage_found_while_restoring_changes_nothing(world: World) -> None:
    """A unit that rots between the inspection and the restore is found before anything is exchanged."""
    world.log().write_bytes(os.urandom(200_000))
    await world.capture()
    decision = await world.inspect()
    world.log().write_bytes(b"other\n")
    pack = world.packs[0]
    data = bytearray(pack.read_bytes())
    data[150_000] ^= 1
    pack.write_bytes(data)
    with pytest.raises(CheckpointCorruptError):
        await world.place(decision)
    assert world.log().read_bytes() == b"other\n"
    assert not is_half_restored(world.recovery)


async def test_only_what_differs_is_written(world: World) -> None:
    """A large file that is as it was captured stays where it is, inode and all."""
    world.log("big.jsonl").write_bytes(b"line\n" * 500_000)
    world.log().write_bytes(b"one\n")
    await world.capture()
    world.log().write_bytes(b"other\n")
    inode = world.log("big.jsonl").stat().st_ino
    placed = await world.place()
    assert placed.source is ResumeSource.GENERATION
    assert world.log("big.jsonl").stat().st_ino == inode


@pytest.mark.parametrize(("count", "whole_machine"), [(SYNC_EACH, 0), (SYNC_EACH + 1, 1)])
async def test_all_that_was_staged_is_synced(world: World, monkeypatch: pytest.MonkeyPatch, count: int, whole_machine: int) -> None:
    """Few files each by itself, many by one sync of the machine; every file is in its place with its own bytes."""
    synced: list[int] = []
    monkeypatch.setattr("jamcore.continuity.resuming.staging.os.sync", lambda: synced.append(1))
    world.log().write_bytes(b"x\n")
    for number in range(count - 1):
        world.write(f"home/config/{number}", b"%d" % number)
    await world.capture()
    shutil.rmtree(world.state / "home")
    before = world.files.syncs
    await world.place()
    assert len(synced) == whole_machine
    assert (world.files.syncs - before > count) is not bool(whole_machine)
    assert all((world.state / f"home/config/{number}").read_bytes() == b"%d" % number for number in range(count - 1))


async def test_what_is_deleted_is_durably_gone_before_the_restore_is_at_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also below directories that no generation holds: what came back after a loss of power would disagree with restored files."""
    world.plan = world.plan.model_copy(update={"delete": ("index/*.sqlite",)})
    world.log().write_bytes(b"one\n")
    await world.capture()
    world.log().write_bytes(b"other\n")
    world.write("index/x.sqlite", b"stale")
    scratch = world.home / ".cache/db"
    scratch.mkdir(parents=True)
    synced: set[int] = set()
    sync, unlink = os.fsync, world.files.unlink

    def noting(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def at_the_end(path: Path) -> None:
        assert {(world.state / "index").stat().st_ino, scratch.stat().st_ino} <= synced
        unlink(path)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(world.files, "unlink", at_the_end)
    assert (await world.place()).source is ResumeSource.GENERATION
    assert not is_half_restored(world.recovery)


async def test_holes_stay_holes(world: World) -> None:
    """A sparse file of a gibibyte is captured in little and restored without filling the disk."""
    path = world.write("home/config/sparse", b"")
    os.truncate(path, 64 << 20)
    world.log().write_bytes(b"x\n")
    row = await world.capture()
    assert row.bytes_written < 200_000
    path.unlink()
    await world.place()
    assert path.stat().st_size == 64 << 20
    assert path.stat().st_blocks * 512 < 1 << 20


@pytest.mark.needs("root")
@pytest.mark.guarantee("SEC-1")
async def test_restored_files_belong_to_the_owner_of_the_state_root(world: World) -> None:
    """The guest runs as an unprivileged user; a daemon that is root gives it back its own files."""
    world.log().write_bytes(b"one\n")
    world.write("home/config/c", b"x")
    (world.state / "home/config/link").symlink_to("c")
    for path in (world.state, *world.state.rglob("*")):
        os.chown(path, 4242, 4242, follow_symlinks=False)
    await world.capture()
    for name in ("sessions", "config"):
        (world.state / "home" / name).rename(world.state / name)
    await world.place()
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in (world.state / "home").rglob("*")} == {(4242, 4242)}


@pytest.mark.parametrize("relative", ["", "../x", "/x", "a//b", "a/../b"])
async def test_scratch_is_below_the_home(world: World, relative: str) -> None:
    """A scratch directory that could lie elsewhere is refused."""
    world.captures = world.captures.model_copy(update={"guest_scratch": (relative,)})
    world.log().write_bytes(b"one\n")
    await world.capture()
    world.log().unlink()
    with pytest.raises(InvalidInputError):
        await world.place()


def test_a_tree_of_any_depth_is_emptied(tmp_path: Path) -> None:
    """Three thousand levels, links and odd names: all gone, with a handful of descriptors, and nothing outside."""
    top, beside = tmp_path / "top", tmp_path / "beside"
    top.mkdir()
    beside.write_bytes(b"kept")
    descriptor = os.open(top, os.O_RDONLY)
    for level in range(3000):
        os.mkdir(b"d\xff", dir_fd=descriptor)
        os.symlink(beside, "link", dir_fd=descriptor)
        os.mkdir(b".jam-emptying-%d" % (level % 7), dir_fd=descriptor)
        child = os.open(b"d\xff", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = child
    os.close(descriptor)
    with owned(open_root(top)) as directory:
        empty_directory(directory)
    assert list(top.iterdir()) == []
    assert beside.read_bytes() == b"kept"
