"""Trees that somebody else made are removed whole, and nothing else (WS-13)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.system.files import Files
from jamcore.system.removal import remove_tree
from jamcore.system.trees import open_root, owned
from jamcore.testing.nasty_trees import plant, plant_left_out

pytestmark = pytest.mark.unprivileged


def remove(parent: Path, name: str) -> tuple[bool, list[int]]:
    """Remove, and say whether it was there and what was synced."""
    synced: list[int] = []
    with owned(open_root(parent)) as descriptor:
        done = remove_tree(descriptor, os.fsencode(name), sync=synced.append)
        assert set(synced) <= {descriptor}
    return done, synced


@pytest.mark.guarantee("WS-13")
def test_a_nasty_tree_is_removed_whole_and_nothing_that_its_links_name(tmp_path: Path) -> None:
    """Also read-only directories, sockets and FIFOs; the removal is durable, and done again it finds nothing."""
    tree = tmp_path / "tree"
    tree.mkdir()
    plant(tree)
    plant_left_out(tree)
    done, synced = remove(tmp_path, "tree")
    assert (done, len(synced)) == (True, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert (tmp_path / "outside" / "secret").exists()
    assert remove(tmp_path, "tree") == (False, [])


@pytest.mark.guarantee("WS-13")
@pytest.mark.parametrize("mode", [0, 0o100, 0o400, 0o500, 0o600])
def test_what_its_owner_may_not_enter_or_write_is_removed(tmp_path: Path, mode: int) -> None:
    """At the top, and below: moved directories have to be writable themselves."""
    inner = tmp_path / "top" / "middle" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    for directory in (inner, inner.parent, inner.parent.parent):
        directory.chmod(mode)
    assert remove(tmp_path, "top")[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.guarantee("WS-13")
def test_a_tree_of_any_depth_is_removed(tmp_path: Path) -> None:
    """Neither the stack nor the open descriptors grow with it."""
    with owned(open_root(tmp_path)) as top:
        directory = os.dup(top)
        for _ in range(1200):
            os.mkdir(b"d", dir_fd=directory)
            below = os.open(b"d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = below
        os.close(directory)
    assert remove(tmp_path, "d")[0]
    assert list(tmp_path.iterdir()) == []


def test_a_link_or_a_file_goes_itself(tmp_path: Path) -> None:
    """Not what it names."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "link").symlink_to("kept")
    assert remove(tmp_path, "link")[0]
    assert (tmp_path / "kept" / "file").exists()
    (tmp_path / "file").touch()
    assert remove(tmp_path, "file")[0]


def test_files_remove_trees_in_the_same_way(tmp_path: Path) -> None:
    """One mechanism: a read-only tree is no trouble, and a link is refused."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a").chmod(0o500)
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(NotADirectoryError):
        Files().remove_tree(tmp_path / "link")
    Files().remove_tree(tmp_path / "a")
    Files().remove_tree(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
