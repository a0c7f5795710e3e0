"""What a tree takes on the disk: what its removal frees, whatever is in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jamcore.system.removal import remove_tree
from jamcore.system.trees import open_root, owned
from jamcore.system.usage import Usage, mounts_below, usage_of

pytestmark = pytest.mark.unprivileged


def look(root: Path, name: str = "tree", **bound: int) -> Usage:
    """Measure a name of a directory that is there."""
    with owned(open_root(root)) as parent:
        found = usage_of(parent, name.encode(), at_most=bound.get("at_most"))
    assert found is not None
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with files of several sizes, a hole, links and directories."""
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "large").write_bytes(os.urandom(300_000))
    (tree / "small").write_bytes(b"1")
    with (tree / "hole").open("wb") as stream:
        stream.truncate(1 << 30)
    (tree / "away").symlink_to("/")
    return tree


def test_it_is_what_du_counts_and_what_a_removal_frees(tmp_path: Path, tree: Path) -> None:
    """Holes take nothing, and a link is not what it names."""
    os.link(tree / "small", tree / "a" / "same")
    counted = subprocess.run(["du", "-s", "--block-size=1", str(tree)], capture_output=True, check=True, text=True).stdout.split()[
        0
    ]
    assert look(tmp_path).bytes == int(counted)
    with owned(open_root(tmp_path)) as parent:
        remove_tree(parent, b"tree")
        assert usage_of(parent, b"tree") is None


def test_a_file_that_has_a_name_elsewhere_frees_nothing(tmp_path: Path, tree: Path) -> None:
    """Its bytes stay when the tree goes."""
    before = look(tmp_path)
    os.link(tree / "a" / "b" / "large", tmp_path / "elsewhere")
    after = look(tmp_path)
    assert after.entries == before.entries
    assert before.bytes - after.bytes == (tmp_path / "elsewhere").stat().st_blocks * 512


def test_equal_trees_have_equal_states_and_any_change_shows(tmp_path: Path, tree: Path) -> None:
    """A name, a byte of the same size, a mode: each gives another state; looking gives none."""
    states = [look(tmp_path).state]
    assert look(tmp_path).state == states[0]
    (tree / "small").write_bytes(b"2")
    states.append(look(tmp_path).state)
    (tree / "small").chmod(0o600)
    states.append(look(tmp_path).state)
    (tree / "small").rename(tree / "a" / "small")
    states.append(look(tmp_path).state)
    (tree / "empty").mkdir()
    states.append(look(tmp_path).state)
    assert len(set(states)) == len(states)


def test_no_depth_uses_up_descriptors(tmp_path: Path) -> None:
    """Deeper than a path may be long, and than descriptors may be open."""
    depth = 3000
    directory = os.open(tmp_path, os.O_RDONLY)
    for name in [b"tree"] + [b"d"] * depth:
        os.mkdir(name, dir_fd=directory)
        below = os.open(name, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    os.close(directory)
    assert look(tmp_path).entries == depth + 1
    with owned(open_root(tmp_path)) as parent:
        remove_tree(parent, b"tree")


def test_a_bound_makes_a_lower_figure_and_says_so(tmp_path: Path, tree: Path) -> None:
    """As many entries as were allowed, and not whole."""
    whole, part = look(tmp_path), look(tmp_path, at_most=3)
    assert (whole.whole, part.whole, part.entries) == (True, False, 3)
    assert part.bytes <= whole.bytes


def test_mounts_at_and_below_a_directory_are_found(tmp_path: Path) -> None:
    """By the kernel's own table, its escapes undone; a neighbour whose name begins alike is none."""
    root = tmp_path / "a b"
    table = tmp_path / "mountinfo"
    points = (f"{tmp_path}/a\\040b", f"{tmp_path}/a\\040b/in", f"{tmp_path}/a\\040bc", "/")
    table.write_text("".join(f"36 35 98:0 / {point} rw - ext4 /dev/x rw\n" for point in points))
    assert mounts_below(root, table=table) == (str(root), f"{root}/in")
    assert mounts_below(tmp_path / "none", table=table) == ()
