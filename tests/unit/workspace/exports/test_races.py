"""A tree that changes under an export is never presented as whole, and no swap leads out of it or makes it wait (WS-13)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jamcore.domain.exports import TreeChangedError
from jamcore.system.tree_calls import TreeCalls
from tests.unit.workspace.exports.conftest import World

pytestmark = pytest.mark.unprivileged


class Swapping(TreeCalls):
    """Does something once, right before the n-th call of one name."""

    def __init__(self, call: str, name: bytes, act: Callable[[], object], nth: int = 1) -> None:
        self._at = (call, name)
        self._act = act
        self._left = nth

    def _now(self, call: str, name: bytes) -> None:
        if (call, name) == self._at:
            self._left -= 1
            if self._left == 0:
                self._act()

    @property
    def done(self) -> bool:
        """Whether it was done."""
        return self._left <= 0

    def status(self, parent: int, name: bytes) -> os.stat_result:
        """See :meth:`TreeCalls.status`."""
        self._now("status", name)
        return super().status(parent, name)

    def open_directory(self, parent: int, name: bytes) -> int:
        """See :meth:`TreeCalls.open_directory`."""
        self._now("open_directory", name)
        return super().open_directory(parent, name)

    def open_file(self, parent: int, name: bytes) -> int:
        """See :meth:`TreeCalls.open_file`."""
        self._now("open_file", name)
        return super().open_file(parent, name)

    def create(self, parent: int, name: bytes) -> int:
        """See :meth:`TreeCalls.create`."""
        self._now("create", name)
        return super().create(parent, name)

    def target(self, parent: int, name: bytes) -> bytes:
        """See :meth:`TreeCalls.target`."""
        self._now("target", name)
        return super().target(parent, name)

    def make_link(self, target: bytes, parent: int, name: bytes) -> None:
        """See :meth:`TreeCalls.make_link`: by then all files are copied."""
        self._now("make_link", name)
        super().make_link(target, parent, name)

    def pass_tick(self) -> None:
        """See :meth:`TreeCalls.pass_tick`: by then all was looked at once."""
        super().pass_tick()
        self._now("pass_tick", b"")


def instead(path: Path, make: Callable[[Path], object]) -> None:
    """Put something else in the place of a file or a directory."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    make(path)


def rewrite(path: Path) -> None:
    """Change bytes, and set the time back: size and modification time say nothing."""
    seen = path.stat()
    path.write_bytes(b"y" * seen.st_size)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def links_out(path: Path) -> None:
    """Make a link out of the tree."""
    path.symlink_to(path.parents[4] / "outside")


RACES: Mapping[str, tuple[str, bytes, int, Callable[[Path], object], str]] = {
    "file to FIFO before it is opened": ("open_file", b"file", 1, lambda t: instead(t / "d/file", os.mkfifo), "d/file"),
    "file to link before it is opened": ("open_file", b"file", 1, lambda t: instead(t / "d/file", links_out), "d/file"),
    "file to directory before it is opened": ("open_file", b"file", 1, lambda t: instead(t / "d/file", Path.mkdir), "d/file"),
    "file gone before it is opened": ("open_file", b"file", 1, lambda t: (t / "d/file").unlink(), "d/file"),
    "another file before it is opened": ("open_file", b"file", 1, lambda t: instead(t / "d/file", Path.touch), "d/file"),
    "file gone before it is looked at": ("status", b"file", 1, lambda t: (t / "d/file").unlink(), "d/file"),
    "directory to link when looked into": ("open_directory", b"d", 1, lambda t: instead(t / "d", links_out), "d"),
    "another directory when looked into": ("open_directory", b"d", 1, lambda t: instead(t / "d", Path.mkdir), "d"),
    "directory to link when copied": ("pass_tick", b"", 1, lambda t: instead(t / "d", links_out), "d/file"),
    "directory moved away when copied": ("pass_tick", b"", 1, lambda t: (t / "d").rename(t.parent / "moved"), "d/file"),
    "cut when it is read": ("create", b"file", 1, lambda t: os.truncate(t / "d/file", 3), "d/file"),
    "written when it is read": ("create", b"file", 1, lambda t: rewrite(t / "d/file"), "d/file"),
    "appended after it was read": ("make_link", b"link", 1, lambda t: (t / "d/file").write_bytes(b"z" * 70_000), "d/file"),
    "rewritten after it was read": ("make_link", b"link", 1, lambda t: rewrite(t / "d/file"), "d/file"),
    "mode after it was read": ("make_link", b"link", 1, lambda t: (t / "d/file").chmod(0o640), "d/file"),
    "a new name at the end": ("make_link", b"link", 1, lambda t: (t / "d/new").touch(), "d"),
    "renamed at the end": ("make_link", b"link", 1, lambda t: (t / "d/file").rename(t / "d/g"), "d"),
    "link led elsewhere": ("target", b"link", 1, lambda t: instead(t / "link", lambda p: p.symlink_to("/etc")), "link"),
    "link to file": ("target", b"link", 1, lambda t: instead(t / "link", Path.touch), "link"),
}


@pytest.mark.guarantee("WS-13", "WS-5")
@pytest.mark.parametrize("race", RACES)
def test_a_change_is_said_by_name_and_nothing_is_published(world: World, race: str, open_descriptors: Callable[[], int]) -> None:
    """Each at the worst moment; what lies outside is never read, and no call waits."""
    outside = world.app / "runtime-hosts" / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret of somebody else")
    (world.tree / "d").mkdir()
    (world.tree / "d" / "file").write_bytes(b"x" * 60_000)
    (world.tree / "link").symlink_to("d")
    call, name, nth, act, path = RACES[race]
    world.calls = swapping = Swapping(call, name, lambda: act(world.tree), nth)
    descriptors = open_descriptors()
    with pytest.raises(TreeChangedError) as changed:
        world.write()
    assert swapping.done
    assert path in changed.value.named
    assert changed.value.total >= len(changed.value.named)
    assert world.published == []
    assert open_descriptors() == descriptors


@pytest.mark.guarantee("WS-13")
def test_of_many_changes_twenty_are_named(world: World) -> None:
    """And counted are all."""
    (world.tree / "d").mkdir()
    for number in range(50):
        (world.tree / "d" / f"{number:02}").touch()
    world.calls = Swapping("pass_tick", b"", lambda: world.files.remove_tree(world.tree / "d"))
    with pytest.raises(TreeChangedError) as changed:
        world.write()
    assert (changed.value.total, len(changed.value.named)) == (50, 20)


@pytest.mark.guarantee("WS-13", "WS-1")
def test_a_link_on_the_way_to_the_workspace_is_not_followed(world: World) -> None:
    """On a shared host a guest can write the directory above its session's one."""
    sessions = world.tree.parent
    sessions.rename(world.app / "elsewhere")
    sessions.symlink_to(world.app / "elsewhere")
    with pytest.raises(NotADirectoryError):
        world.write()
    assert world.published == []


@pytest.mark.guarantee("WS-6")
def test_a_restore_does_not_follow_a_link_on_its_way(world: World) -> None:
    """Nor write anything where it leads to."""
    done = world.write()
    (world.app / "target").mkdir()
    (world.app / "link").symlink_to("target")
    with pytest.raises(NotADirectoryError):
        world.restore(done.digest, "link/restored")
    assert list((world.app / "target").iterdir()) == []


@pytest.mark.guarantee("WS-5")
def test_an_export_that_is_damaged_while_it_is_verified_is_not_whole(world: World) -> None:
    """Verification is no way out of the export either."""
    (world.tree / "file").write_text("x")
    done = world.write()
    victim = world.export / "workspace" / "file"
    world.calls = Swapping("open_file", b"file", lambda: instead(victim, links_out))
    with pytest.raises(Exception, match="changed while it was read"):
        world.verify(done.digest)
