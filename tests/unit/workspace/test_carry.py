"""Copies of trees that an agent could write: what is in them, what stays behind, and that nothing outside is followed (CONT-9, SEC-2)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from jamcore.system.files import Files
from jamcore.workspace import carry as carry_module
from jamcore.workspace.carry import Carried, TreeTooLargeError, carry

pytestmark = pytest.mark.unprivileged


def alive() -> None:
    """Go on."""


def tree(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Return everything below a directory: kind, rights and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        seen = path.lstat()
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (stat.filemode(seen.st_mode), seen.st_mtime_ns, content)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree with everything that an agent can make."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    root = tmp_path / "old"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_bytes(b"x" * 3_000_000)
    (root / "run").write_text("#!/bin/sh")
    (root / "run").chmod(0o755)
    os.link(root / "run", root / "again")
    (root / "link").symlink_to(outside)
    (root / "dangling").symlink_to("/nowhere")
    (root / "a" / "empty").mkdir()
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\nname")).write_text("odd")
    os.utime(root / "run", ns=(1, 1_000_000_007))
    return root


@pytest.mark.guarantee("CONT-9")
def test_a_tree_is_copied_whole_and_the_old_one_stays(source: Path, tmp_path: Path) -> None:
    """Files, rights, times, links as links, names of any bytes; nothing that a link leads to."""
    before, target = tree(source), tmp_path / "new"
    done = carry(source, target, files=Files(), alive=alive)
    assert tree(target) == before == tree(source)
    assert done == Carried(names=len(before) + 1, bytes=done.bytes if done else 0, left=0)
    assert not list(tmp_path.glob(".new.*"))
    assert carry(source, target, files=Files(), alive=alive) is None, "done already"
    assert carry(tmp_path / "absent", tmp_path / "other", files=Files(), alive=alive) is None


@pytest.mark.guarantee("CONT-9", "SEC-1")
def test_what_is_no_file_stays_behind_and_no_special_right_comes_along(tmp_path: Path) -> None:
    """Pipes are counted, never opened; set-id bits are gone; a directory that its owner may not write can be written."""
    source = tmp_path / "old"
    (source / "shut").mkdir(parents=True)
    (source / "shut" / "file").write_text("x")
    (source / "shut").chmod(0o555)
    os.mkfifo(source / "pipe")
    (source / "suid").write_text("x")
    (source / "suid").chmod(0o4755)
    done = carry(source, tmp_path / "new", files=Files(), alive=alive)
    (source / "shut").chmod(0o755)
    assert done is not None
    assert done.left == 1
    assert sorted(tree(tmp_path / "new")) == ["shut", "shut/file", "suid"]
    assert stat.S_IMODE((tmp_path / "new" / "suid").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "new" / "shut").stat().st_mode) == 0o755


@pytest.mark.guarantee("CONT-9")
def test_a_copy_that_was_cut_begins_anew_and_never_has_the_name(source: Path, tmp_path: Path) -> None:
    """At whichever name it is cut."""
    target = tmp_path / "new"
    for cut in range(1, 8):
        left = cut

        def count() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            carry(source, target, files=Files(), alive=count)
        assert not target.exists()
    target.mkdir()
    assert carry(source, target, files=Files(), alive=alive) is not None
    assert tree(target) == tree(source)


@pytest.mark.guarantee("CONT-9")
def test_a_tree_beyond_the_bound_is_not_copied_at_all(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of somebody's work would be taken for the whole."""
    monkeypatch.setattr(carry_module, "MOST_NAMES", 5)
    with pytest.raises(TreeTooLargeError):
        carry(source, tmp_path / "new", files=Files(), alive=alive)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "outside"]


@pytest.mark.guarantee("CONT-9")
def test_one_file_beyond_the_bound_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of holes takes nothing of its guest's disk, and would take all of the person's."""
    monkeypatch.setattr(carry_module, "MOST_BYTES", 4 << 20)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "holes").touch()
    os.truncate(tmp_path / "old" / "holes", 64 << 20)
    with pytest.raises(TreeTooLargeError):
        carry(tmp_path / "old", tmp_path / "new", files=Files(), alive=alive)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
