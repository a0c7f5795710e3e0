"""Files that Jam writes where a guest can write too: what a killed preparation left of them, and what a guest made of its name (PREP-1)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from jamcore.sandbox.specification import UnsafePathError
from jamcore.sandbox.state_files import StateTree, temporary_name
from jamcore.system.files import TEMPORARY, Files

pytestmark = pytest.mark.unprivileged


class CutFiles(Files):
    """The process is killed while a file has its temporary name: nothing tidies up."""

    def sync(self, descriptor: int) -> None:
        """Die in effect."""
        os._exit(7)


@pytest.mark.parametrize("same", [True, False], ids=["unchanged", "changed"])
def test_what_a_killed_preparation_left_goes_with_the_next(tmp_path: Path, same: bool) -> None:
    """Its own temporary file is found by its name, also where nothing is to be written; whatever else a guest named so stays."""
    tree = StateTree(tmp_path, files=Files())
    tree.write_file("home/config.toml", b"first")
    child = os.fork()
    if child == 0:
        try:
            StateTree(tmp_path, files=CutFiles()).write_file("home/config.toml", b"second")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    left = tmp_path / "home" / temporary_name("home/config.toml")
    assert left.read_bytes() == b"second"
    assert re.fullmatch(TEMPORARY, left.name)
    mine = tmp_path / "home/.config.toml.0123abcd.tmp"
    mine.write_text("a guest's")
    tree.write_file("home/config.toml", b"first" if same else b"third")
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == sorted([mine.name, "config.toml"])
    assert (tmp_path / "home/config.toml").read_bytes() == (b"first" if same else b"third")


def test_a_guest_that_takes_the_temporary_name_leads_nobody_out(tmp_path: Path) -> None:
    """A link there is removed, not followed; a directory there is refused by name."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    root = tmp_path / "state"
    root.mkdir()
    tree = StateTree(root, files=Files())
    taken = root / temporary_name("config.toml")
    taken.symlink_to(victim)
    tree.write_file("config.toml", b"x")
    assert [path.name for path in root.iterdir()] == ["config.toml"]
    assert victim.read_text() == "untouched"
    taken.mkdir()
    with pytest.raises(UnsafePathError, match="the name that Jam writes under"):
        tree.write_file("config.toml", b"y")
    assert (root / "config.toml").read_bytes() == b"x"
