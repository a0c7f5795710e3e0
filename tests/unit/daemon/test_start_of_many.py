"""A start looks closely at what a dead life may have left, and at nothing else: thousands of hosts at rest cost two names each."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from jamcore.continuity.generations.publish import Generations
from jamcore.daemon.sweep import sweep
from jamcore.domain import layout
from jamcore.system.files import Files

HOSTS = [UUID(int=number << 64) for number in range(1, 6)]
KNOWN, STRANGE = UUID(int=1), UUID(int=2)


@pytest.mark.guarantee("START-1", "CONT-4")
def test_only_hosts_with_something_unexplained_are_repaired(tmp_path: Path) -> None:
    """A generation or a pack without a row, a half-written one, and a directory that cannot be read; those that rows explain are left."""
    whole, pack, generation, writing, looping = HOSTS
    for host in (whole, pack, generation, writing):
        (tmp_path / layout.packs(host)).mkdir(parents=True)
        (tmp_path / layout.checkpoint_root(host, KNOWN)).mkdir(parents=True)
        (tmp_path / layout.packs(host) / f"{KNOWN}.pack").touch()
        (tmp_path / layout.packs(host) / f"{STRANGE}-1.shared").touch()
    (tmp_path / layout.packs(pack) / f"{STRANGE}.pack").touch()
    (tmp_path / layout.checkpoint_root(generation, STRANGE)).mkdir()
    (tmp_path / layout.packs(writing) / f".{KNOWN}.pack.0000.tmp").touch()
    loop = tmp_path / layout.packs(looping)
    loop.parent.mkdir(parents=True)
    loop.symlink_to(loop)
    recorded = {host: {KNOWN} for host in HOSTS}
    assert sorted(Generations(tmp_path, files=Files()).unrecorded(recorded)) == sorted([pack, generation, writing, looping])
    assert Generations(tmp_path / "none", files=Files()).unrecorded({}) == ()


def test_leftovers_are_found_in_every_place_and_nowhere_else(tmp_path: Path) -> None:
    """Each directory is read once, whatever the number of rules about it; a link is not followed, and a guest's tree is not looked at."""
    host = HOSTS[0]
    root = f"{layout.HOSTS}/{host}"
    left = ("", "cfg", layout.OWNERS, f"{layout.ENGINES}/local", root, f"{root}/recovery", f"{root}/recovery/checkpoints/{KNOWN}")
    kept = (f"{layout.workspace_root(host)}/sessions/x", f"{root}/provider-state/p", f"{root}/recovery/checkpoints")
    for place in (*left, *kept):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / ".x.00000000.tmp").touch()
    (tmp_path / layout.HOSTS / "link").symlink_to(tmp_path / kept[0])
    assert sweep(tmp_path, Files()) == ()
    assert [place for place in (*left, *kept) if (tmp_path / place / ".x.00000000.tmp").exists()] == list(kept)
