"""Start-up removes what an interrupted write left, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jamcore.daemon.crash import VARIABLE, Here, crash_points
from jamcore.daemon.sweep import sweep
from jamcore.journal.points import NoCrash
from jamcore.system.files import Files

HOST = "runtime-hosts/01a2285d-83e1-7166-a0fd-6f63348fa195"
REVIEW = f"{HOST}/recovery/review/01a2285d-83e1-7166-a0fd-6f63348fa195.git"
LEFT = (
    ".daemon.json.0123abcd.tmp",
    "cfg/.daemon-id.0123abcd.tmp",
    "cfg/sandbox-owners/.jam-1.json.0123abcd.tmp",
    "cfg/sandbox-owners/pending-cleanups/.jam-1.json.0123abcd.tmp",
    "engines/bubblewrap/.jam-1.json.0123abcd.tmp",
    "change-requests/.01a2285d-83e1-7166-a0fd-6f63348fa195.partial/change.patch",
    "change-requests/removal-x1/objects",
    f"{HOST}/.manifest.json.0123abcd.tmp",
    f"{HOST}/recovery/checkpoints/one/.complete.json.0123abcd.tmp",
    f"{HOST}/recovery/staging/0",
    f"{HOST}/recovery/staging/17",
    f"{REVIEW}/index-abc/index",
    f"{REVIEW}/HEAD.lock",
    f"{REVIEW}/refs/jam/base.lock",
    f"{REVIEW}/objects/ab/tmp_obj_x1",
)
KEPT = (
    "jamd.lock",
    "jam.db",
    "cfg/sandbox-owners/jam-1.json",
    "change-requests/01a2285d-83e1-7166-a0fd-6f63348fa195/change.patch",
    f"{HOST}/recovery/checkpoints/one/complete.json",
    f"{HOST}/recovery/packs/one.pack",
    f"{HOST}/recovery/restoring",
    f"{HOST}/recovery/replaced/01a2285d-83e1-7166-a0fd-6f63348fa195/home/sessions/a.jsonl",
    f"{REVIEW}/index",
    f"{REVIEW}/refs/jam/base",
    f"{REVIEW}/objects/ab/cdef",
    f"{HOST}/workspace-root/sessions/one/.notes.0123abcd.tmp",
    f"{HOST}/workspace-root/sessions/one/poetry.lock",
    f"{HOST}/provider-state/codex/.config.toml.0123abcd.tmp",
    f"{HOST}/guest-disk/home/index-of-things",
)


@pytest.mark.guarantee("START-1")
def test_only_jam_s_own_temporary_names_are_removed(tmp_path: Path) -> None:
    """Every temporary name in Jam's own directories goes; what a guest can write and what was published stays."""
    for name in (*LEFT, *KEPT):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert sweep(tmp_path, Files()) == ()
    assert [name for name in LEFT if (tmp_path / name).exists()] == []
    assert [name for name in KEPT if not (tmp_path / name).exists()] == []


@pytest.mark.guarantee("START-1", "CONT-5")
def test_what_a_cut_restore_staged_goes_without_a_link_being_followed(tmp_path: Path) -> None:
    """Links are staged as links: what they name stays, wherever it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    app = tmp_path / "app"
    staging = app / HOST / "recovery/staging"
    staging.mkdir(parents=True)
    (staging / "0").symlink_to(outside)
    (staging / "1").touch()
    other = app / "runtime-hosts/01a2285d-83e1-7166-a0fd-6f63348fa196/recovery"
    other.mkdir(parents=True)
    (other / "staging").symlink_to(outside)
    assert sweep(app, Files()) == ()
    assert not staging.exists()
    assert not (other / "staging").is_symlink()
    assert (outside / "kept").exists()


class Refusing(Files):
    """A file system that lets one name go and refuses the others."""

    def unlink(self, path: Path) -> None:
        """See :meth:`Files.unlink`."""
        if path.parent.name != "cfg":
            raise PermissionError(13, "Permission denied", str(path))
        super().unlink(path)


@pytest.mark.guarantee("START-1")
def test_one_that_cannot_be_removed_stops_no_other(tmp_path: Path) -> None:
    """What stays is returned by name and typed; the rest is gone."""
    (tmp_path / "cfg").mkdir()
    (tmp_path / LEFT[0]).touch()
    (tmp_path / LEFT[1]).touch()
    assert [(where, error.code) for where, error in sweep(tmp_path, Refusing())] == [(LEFT[0], "startup.sweep_failed")]
    assert not (tmp_path / LEFT[1]).exists()


def test_crash_points_are_for_tests_alone() -> None:
    """Without the variable every boundary is passed."""
    assert isinstance(crash_points({}), NoCrash)
    assert isinstance(crash_points({VARIABLE: "publish.read#2"}), Here)


def test_a_crash_point_is_reached_at_its_own_passing() -> None:
    """Neither another boundary nor an earlier or later passing does anything."""
    reached: list[str] = []
    point = Here("publish.read", 2, lambda: reached.append("here"))
    for name in ("publish.read", "publish.sealed"):
        point.reach(name)
    assert not reached
    point.reach("publish.read")
    point.reach("publish.read")
    assert reached == ["here"]


def test_a_process_that_stands_still_at_a_crash_point_goes_on_when_told() -> None:
    """It stops at the boundary, before what comes after it, until it gets SIGCONT."""
    code = (
        "from jamcore.daemon.crash import crash_points; crash_points({'JAM_CRASH_POINT': 'stop:here'}).reach('here'); print('on')"
    )
    with subprocess.Popen((sys.executable, "-P", "-c", code), stdout=subprocess.PIPE) as child:
        try:
            assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
            child.send_signal(signal.SIGCONT)
            assert child.communicate(timeout=30)[0] == b"on\n"
        finally:
            child.kill()
