"""Control groups: where they may be made is read from /proc alone, and what is made is removed. Machines of both versions are shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jamcore.system.cgroups import Bounds, Controller, Group, Place, look, make, sweep

pytestmark = pytest.mark.guarantee("PLAN-1")


class Machine:
    """Another machine's /proc and group file systems, as files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc"
        (self.proc / "self").mkdir(parents=True)

    def say(self, own: str, mounts: str) -> None:
        """Write what the kernel says about this process."""
        (self.proc / "self/cgroup").write_text(own)
        (self.proc / "self/mountinfo").write_text(mounts)

    def group(self, path: str, *, controllers: str = "", shares: str = "", root: bool = False) -> Path:
        """Make a version 2 group as the kernel would show it."""
        directory = self.root / path
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in (("cgroup.procs", ""), ("cgroup.controllers", controllers), ("cgroup.subtree_control", shares)):
            (directory / name).write_text(text)
        if not root:
            (directory / "cgroup.type").write_text("domain\n")
        return directory


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def unified(machine: Machine, root: str = "/") -> str:
    return f"22 1 0:20 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 {root} {machine.root}/cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"


def test_version_two_shares_out_beside_the_own_group(machine: Machine) -> None:
    """A group with processes of its own cannot share out; the one above it can, with the controllers that it has."""
    machine.group("cg/user/app.slice", controllers="memory pids\n", shares="memory pids\n")
    machine.group("cg/user/app.slice/run.scope", controllers="memory pids\n")
    machine.say("0::/user/app.slice/run.scope\n", unified(machine))
    ground = look(machine.proc)
    base = machine.root / "cg/user/app.slice"
    assert dict(ground.places) == {Controller.MEMORY: Place(2, base), Controller.PIDS: Place(2, base)}
    assert set(ground.refused) == {Controller.CPU}
    assert "not available" in ground.refused[Controller.CPU]


def test_version_two_limits_are_the_kernels_words(machine: Machine) -> None:
    """Memory without swap beside it, a quota in each period, and a number of processes; what is shared out already is not written again."""
    base = machine.group("cg/app", controllers="cpu memory pids\n", shares="memory\n")
    machine.group("cg/app/run", controllers="cpu memory pids\n")
    machine.group("cg/app/jam-owner", controllers="memory\n")  # as the kernel fills a new one
    machine.say("0::/app/run\n", unified(machine))
    group = make(look(machine.proc), "jam-owner", "one", Bounds(cpus=1.5, memory_bytes=1 << 30, pids=70))
    assert group == Group((base / "jam-owner/one",))
    (made,) = group.directories
    assert (made / "memory.max").read_text() == str(1 << 30)
    assert (made / "cpu.max").read_text() == "150000 100000"
    assert (made / "pids.max").read_text() == "70"
    assert (base / "cgroup.subtree_control").read_text() == "+cpu +pids"
    assert (base / "jam-owner/cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_the_kernels_own_root_may_do_both(machine: Machine) -> None:
    """Only there a process may live in the group that shares out."""
    machine.group("cg", controllers="cpu memory pids\n", shares="", root=True)
    machine.say("0::/\n", unified(machine))
    assert {place.directory for place in look(machine.proc).places.values()} == {machine.root / "cg"}


def test_a_container_that_sees_its_own_group_alone_has_no_ground(machine: Machine) -> None:
    """It looks like a root and is none: the kernel would refuse, so it is said before."""
    machine.group("cg", controllers="cpu memory pids\n")
    machine.say("0::/\n", unified(machine, "/container"))
    assert set(look(machine.proc).refused) == set(Controller)


def test_version_one_in_a_container_is_below_what_is_mounted(machine: Machine) -> None:
    """A mount that shows a part of a hierarchy is walked from that part; co-mounted controllers share a directory."""
    (machine.root / "cpu/me").mkdir(parents=True)
    (machine.root / "cpu/me/cgroup.procs").write_text("")
    mounts = f"40 22 0:30 /docker/abc {machine.root}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    machine.say("3:cpu,cpuacct:/docker/abc/me\n", mounts)
    ground = look(machine.proc)
    assert dict(ground.places) == {Controller.CPU: Place(1, machine.root / "cpu/me")}
    assert ground.refused[Controller.MEMORY] == "no control groups are mounted"


@pytest.mark.unprivileged
def test_what_may_not_be_written_is_refused_by_path(machine: Machine) -> None:
    """A read-only or foreign group is named, and nothing is tried."""
    base = machine.group("cg/app", controllers="memory\n", shares="memory\n")
    machine.group("cg/app/run")
    (base / "cgroup.procs").unlink()
    machine.say("0::/app/run\n", unified(machine))
    assert look(machine.proc).refused[Controller.MEMORY] == f"{base}/cgroup.procs is not there"
    if os.geteuid() != 0:
        (base / "cgroup.procs").write_text("")
        base.chmod(0o500)
        assert look(machine.proc).refused[Controller.MEMORY] == f"{base} may not be written"


@pytest.mark.parametrize("text", ["", "nonsense\n", "0:\n"])
def test_a_proc_that_says_nothing_is_an_answer(machine: Machine, text: str) -> None:
    """Looking never raises: without groups every controller is refused with a reason."""
    machine.say(text, "nonsense\n" if text else "")
    assert set(look(machine.proc).refused) == set(Controller)
    assert set(look(machine.root / "absent").refused) == set(Controller)


@pytest.fixture
def here() -> Controller:
    """A controller of this machine; skipped by name where this user may make no groups."""
    ground = look()
    if Controller.PIDS not in ground.places:
        pytest.skip(f"no control groups for this user here: {ground.refused[Controller.PIDS]}")
    return Controller.PIDS


async def test_a_group_is_made_entered_and_removed(here: Controller) -> None:
    """The real kernel: who enters is counted and bounded, and when it has ended nothing is left."""
    ground, owner = look(), f"jam-test-{os.getpid()}"
    group = make(ground, owner, "one", Bounds(pids=7))
    try:
        (directory,) = group.directories
        assert (directory / "pids.max").read_text().strip() == "7"
        enter = f"import sys; open({str(directory / 'cgroup.procs')!r}, 'w').write('0'); print('in', flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", enter], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # noqa: ASYNC220 - waits for one line
            assert child.stdout is not None
            assert child.stdout.readline() == b"in\n"
            assert (directory / "cgroup.procs").read_text().split() == [str(child.pid)]
            assert sweep(ground, owner) == ("one",)
            with pytest.raises(FileExistsError):
                make(ground, owner, "one", Bounds(pids=7))
    finally:
        assert await group.remove() == ()
    assert sweep(ground, owner) == ()
    assert not directory.parent.exists()
    assert here in ground.places


async def test_a_group_that_cannot_be_made_leaves_nothing(here: Controller) -> None:
    """A value that the kernel refuses is an error, and no directory."""
    ground, owner = look(), f"jam-test-{os.getpid()}"
    with pytest.raises(OSError, match="Invalid argument"):
        make(ground, owner, "bad", Bounds(pids=-5))
    assert sweep(ground, owner) == ()
    assert here in ground.places
