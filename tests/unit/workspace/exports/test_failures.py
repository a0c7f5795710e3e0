"""What a failing machine leaves of an export or a restore: nothing that has its name (WS-5, WS-6)."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jamcore.system.files import Files
from jamcore.system.tree_calls import TreeCalls
from jamcore.testing.nasty_trees import facts_of
from tests.unit.workspace.exports.conftest import World

pytestmark = pytest.mark.unprivileged

FAILING = tuple(sorted(name for name in vars(TreeCalls) if not name.startswith("_") and name not in ("close", "pass_tick")))


class Failing(TreeCalls):
    """Fails the last time that a call was made in an undisturbed run; with no call to fail, it counts."""

    def __init__(self, call: str = "", nth: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self._at = (call, nth)

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - as the original
        if name in FAILING:
            self.counts[name] += 1
            if (name, self.counts[name]) == self._at:
                raise OSError(errno.EIO, "the disk is broken")
        return super().__getattribute__(name)


class NoSyncfs(Files):
    """A system that has no call to flush a file system; counts what is flushed one by one."""

    def __init__(self) -> None:
        self.synced: list[tuple[int, int]] = []

    def sync_filesystem(self, descriptor: int) -> bool:
        """See :meth:`Files.sync_filesystem`."""
        return False

    def sync(self, descriptor: int) -> None:
        """See :meth:`Files.sync`."""
        status = os.fstat(descriptor)
        self.synced.append((status.st_dev, status.st_ino))
        super().sync(descriptor)


@pytest.fixture
def small(world: World) -> World:
    """A workspace with one of each."""
    (world.tree / "d").mkdir()
    (world.tree / "d" / "file").write_text("x" * 1000)
    os.setxattr(world.tree / "d" / "file", "user.x", b"1")
    os.link(world.tree / "d" / "file", world.tree / "again")
    (world.tree / "link").symlink_to("d")
    with (world.tree / "hole").open("wb") as stream:
        stream.truncate(1 << 20)
    return world


@pytest.mark.guarantee("WS-5")
@pytest.mark.parametrize("call", FAILING)
def test_a_failed_call_publishes_nothing_and_the_next_attempt_is_whole(
    small: World, call: str, open_descriptors: Callable[[], int]
) -> None:
    """Whichever call of an export fails, and none of them is left open."""
    small.calls = counting = Failing()
    small.write()
    small.files.remove_tree(small.export)
    times = counting.counts[call]
    for nth in {1, times} if times else ():
        small.calls = Failing(call, nth)
        descriptors = open_descriptors()
        with pytest.raises(OSError, match="the disk is broken"):
            small.write()
        assert small.published == []
        assert open_descriptors() == descriptors
    small.calls = TreeCalls()
    done = small.write()
    assert small.verify(done.digest) == done


@pytest.mark.guarantee("WS-6")
@pytest.mark.parametrize("call", FAILING)
def test_a_failed_call_restores_nothing_and_the_next_attempt_is_whole(small: World, call: str) -> None:
    """Whichever call of a restore fails; the export is as it was."""
    done = small.write()
    small.calls = counting = Failing()
    small.files.remove_tree(small.restore(done.digest))
    times = counting.counts[call]
    for nth in {1, times} if times else ():
        small.calls = Failing(call, nth)
        with pytest.raises(OSError, match="the disk is broken"):
            small.restore(done.digest)
        assert [path.name for path in small.app.iterdir() if "restored" in path.name] == []
    small.calls = TreeCalls()
    assert facts_of(small.restore(done.digest)) == facts_of(small.tree)


@pytest.mark.guarantee("WS-5")
def test_all_is_durable_before_the_name_is_there(small: World) -> None:
    """Where the system cannot flush a whole file system, each file and directory is flushed; the rename's own directory last."""
    small.files = files = NoSyncfs()
    small.write()
    wanted = {
        (s.st_dev, s.st_ino) for path in (small.export, *small.export.rglob("*")) if not path.is_symlink() for s in (path.stat(),)
    }
    assert wanted <= set(files.synced)
    assert files.synced[-1][1] == small.exports.stat().st_ino
    assert small.reached == ["export.begun", "export.copied", "export.described", "export.durable", "export.published"]


class NotDurable(NoSyncfs):
    """Fails the flush of one directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._inode = directory.stat().st_ino

    def sync(self, descriptor: int) -> None:
        """See :meth:`Files.sync`."""
        super().sync(descriptor)
        if os.fstat(descriptor).st_ino == self._inode and self.synced.count(self.synced[-1]) == 1:
            raise OSError(errno.EIO, "the name is not durable")


@pytest.mark.guarantee("WS-5")
def test_a_name_that_is_not_durable_is_taken_back(small: World) -> None:
    """The rename was made and its flush failed: nothing is published, and the next attempt is whole."""
    small.exports.mkdir(exist_ok=True)
    small.files = NotDurable(small.exports)
    with pytest.raises(OSError, match="not durable"):
        small.write()
    assert small.published == []
    assert list(small.exports.iterdir()) == []
    done = small.write()
    assert small.verify(done.digest) == done


@pytest.mark.guarantee("WS-5")
def test_the_system_flushes_a_whole_file_system(tmp_path: Path) -> None:
    """Linux can; and an error of it is raised."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert Files().sync_filesystem(descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Files().sync_filesystem(descriptor)


@pytest.mark.guarantee("WS-5")
def test_who_gives_up_leaves_nothing(small: World) -> None:
    """At any moment that is asked for."""

    class GaveUpError(Exception):
        pass

    def give_up() -> None:
        raise GaveUpError

    small.calls = Alive(give_up)
    with pytest.raises(GaveUpError):
        small.write()
    assert small.published == []


@pytest.mark.guarantee("WS-5")
def test_what_got_the_name_meanwhile_is_left_alone(small: World) -> None:
    """An attempt that fails before it gives the export its name removes what is its own."""

    def publish() -> None:
        small.export.mkdir()
        raise OSError(errno.EIO, "the disk is broken")

    small.calls = Alive(publish)
    with pytest.raises(OSError, match="the disk is broken"):
        small.write()
    assert small.published == [small.export.name]


class Alive(TreeCalls):
    """Gives up in the middle of the copy."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up

    def make_link(self, target: bytes, parent: int, name: bytes) -> None:
        """See :meth:`TreeCalls.make_link`."""
        self._give_up()
