"""How bubblewrap holds limits: what the doctor says on each kind of machine, what a kill leaves, and a kernel that refuses."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from jamcore.domain.resources import Limit, LimitNotHeldError, Means
from jamcore.domain.sandboxes import Resources, SandboxSpec
from jamcore.engines.bubblewrap import bringup
from jamcore.engines.bubblewrap.engine import open_engine
from jamcore.engines.bubblewrap.limits import OUTSIDE, SandboxLimits, entering, finding, group_remedy, holdings
from jamcore.engines.port import EngineContext
from jamcore.system.cgroups import Controller, Ground, Group, Place, look
from jamcore.system.files import Files
from jamcore.system.pipes import PipeReader
from jamcore.system.process import run_bounded, spawned
from jamcore.testing.engines.box import Box
from jamcore.testing.guards import descendants, settle

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("PLAN-1")]

FULL = Ground({controller: Place(2, Path("/groups")) for controller in Controller}, {})
BARE = Ground({}, dict.fromkeys(Controller, "/groups may not be written"))
DAEMON = """
import anyio, os, sys
from pathlib import Path
from jamcore.domain.sandboxes import Resources, SandboxSpec
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.port import EngineContext

async def main(root: Path) -> None:
    async with BubblewrapEnginePlugin().open(EngineContext(root=root / "engine", runtime=root / "engine")) as engine:
        for name in ("jam-a", "jam-b"):
            await engine.create(SandboxSpec(name=name, guest_disk=str(root / name), resources=Resources(processes=100, cpus=1.0)))
        os.write(1, b"ready")
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]))
"""


def test_with_groups_everything_but_the_disk_is_held() -> None:
    """The doctor's line is no gap: a disk limit never holds in this engine."""
    found = {holding.limit: holding for holding in holdings(FULL)}
    assert [limit for limit, holding in found.items() if not holding.held] == [Limit.DISK]
    assert {found[limit].means for limit in (Limit.CPUS, Limit.MEMORY, Limit.PIDS)} == {Means.CGROUP}
    line = finding(holdings(FULL))
    assert line.ok
    assert line.detail == "cpus: cgroup, memory: cgroup, memory-per-process: rlimit, pids: cgroup, disk: none"


def test_without_groups_the_doctor_names_the_gap_and_the_way_out() -> None:
    """Single processes and their number are still held; what is not says which file was in the way."""
    found = {holding.limit: holding.means for holding in holdings(BARE)}
    assert found == {
        Limit.CPUS: Means.NONE,
        Limit.MEMORY: Means.NONE,
        Limit.MEMORY_PER_PROCESS: Means.RLIMIT,
        Limit.PIDS: Means.RLIMIT,
        Limit.DISK: Means.NONE,
    }
    line = finding(holdings(BARE))
    assert not line.ok
    assert "/groups may not be written" in line.detail
    assert line.hint == group_remedy()
    assert "systemd-run" in group_remedy(root=False)


async def test_the_program_is_entered_and_bounded_by_the_process_that_becomes_it(tmp_path: Path) -> None:
    """Each group hears the program's own number, its address space is bounded, and its arguments arrive as they were."""
    groups = Group((tmp_path / "a b", tmp_path / "c"))
    for directory in groups.directories:
        directory.mkdir()
    code = "import os, resource, sys; print(os.getpid(), resource.getrlimit(resource.RLIMIT_AS), sys.argv[1:])"
    argv = (*entering(groups, 2 << 30), sys.executable, "-c", code, "--", "a b", "$HOME", "")
    done = await run_bounded(argv, cwd="/", env={}, limit_bytes=4096, timeout_s=20)
    pid, _, rest = done.stdout.decode().strip().partition(" ")
    assert rest == f"({2 << 30}, {2 << 30}) ['--', 'a b', '$HOME', '']"
    assert {(directory / "cgroup.procs").read_text().strip() for directory in groups.directories} == {pid}
    assert entering(None, None) == ()


async def test_a_group_that_cannot_be_entered_starts_nothing(tmp_path: Path) -> None:
    """Never a sandbox without its limit: the program does not run, and the words name the file."""
    argv = (*entering(Group((tmp_path / "gone",)), None), sys.executable, "-c", "print('ran')")
    done = await run_bounded(argv, cwd="/", env={}, limit_bytes=4096, timeout_s=20)
    assert (done.returncode, done.stdout) == (71, b"")
    assert str(tmp_path / "gone").encode() in done.stderr


@pytest.mark.guarantee("CAP-4")
async def test_a_kernel_that_refuses_is_a_refused_limit(tmp_path: Path) -> None:
    """What looked possible and is not ends as the same typed refusal, and nothing was started."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "cg").mkdir()
    for name in ("cgroup.procs", "cgroup.controllers", "cgroup.subtree_control"):
        (tmp_path / "cg" / name).write_text("cpu memory pids\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "proc/self/mountinfo").write_text(f"30 22 0:26 / {tmp_path}/cg rw - cgroup2 cgroup2 rw\n")
    limits = SandboxLimits(tmp_path, proc=tmp_path / "proc")
    limits.require(Resources(cpus=1.0))
    with pytest.raises(LimitNotHeldError) as caught:  # a directory of files is no kernel: the new group has no files
        async with limits.applied("jam-a", Resources(cpus=1.0, processes=50)):
            raise AssertionError
    assert "jam-a" in caught.value.tried
    assert caught.value.limit == "cpu, pids"
    assert caught.value.remedy


@pytest.mark.crash
@pytest.mark.needs("bubblewrap")
async def test_a_killed_daemon_leaves_no_groups_to_the_next(tmp_path: Path) -> None:
    """Its sandboxes die, their groups are removed by the next engine, and each starts again within its limits."""
    ground = look()
    if Controller.PIDS not in ground.places or Controller.CPU not in ground.places:
        pytest.skip(f"no control groups for this user here: {dict(ground.refused)}")
    root = Files().make_private(tmp_path / "engine")
    for name in ("jam-a", "jam-b"):
        Files().make_private(tmp_path / name)
    said, write = os.pipe2(os.O_CLOEXEC)
    reader = PipeReader(said)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(bringup.__file__).parents[3])}

    def groups() -> set[str]:
        owner = SandboxLimits(root).owner
        return {path.name for place in ground.places.values() for path in (place.directory / owner).glob("jam-*")}

    try:
        async with spawned((sys.executable, "-c", DAEMON, str(tmp_path)), env=environment, stdout=write) as daemon:
            os.close(write)
            with anyio.fail_after(30):
                assert await reader.receive() == b"ready"
            assert groups() == {"jam-a", "jam-b"}
            below = descendants(daemon.pid)
            daemon.signal(signal.SIGKILL)
            assert settle(below, 5.0) == ()
            await daemon.wait()
    finally:
        reader.close()
    assert groups() == {"jam-a", "jam-b"}
    async with open_engine(EngineContext(root=root, runtime=root)) as engine:
        assert groups() == set()
        await engine.start("jam-a")
        assert groups() == {"jam-a"}
        (bound,) = (ground.places[Controller.PIDS].directory / SandboxLimits(root).owner).glob("jam-a/pids.max")
        assert bound.read_text().strip() == str(100 + OUTSIDE)
        await engine.stop("jam-a")
        assert groups() == set()


@pytest.mark.needs("bubblewrap")
async def test_a_sandbox_without_limits_makes_no_group(tmp_path: Path) -> None:
    """Nothing of the machine is touched for those who ask for nothing."""
    root = Files().make_private(tmp_path / "engine")
    Files().make_private(tmp_path / "jam-a")
    async with open_engine(EngineContext(root=root, runtime=root)) as engine:
        await engine.create(SandboxSpec(name="jam-a", guest_disk=str(tmp_path / "jam-a")))
        owner = SandboxLimits(root).owner
        assert [place for place in look().places.values() if (place.directory / owner).exists()] == []


@pytest.mark.needs("bubblewrap")
async def test_full_file_systems_in_memory_leave_some_for_the_programs(tmp_path: Path) -> None:
    """A guest that fills them gets "no space left"; the sandbox goes on, since what lies there is never ended to make room."""
    if Controller.MEMORY not in look().places:
        pytest.skip("no control groups for this user here")
    root = Files().make_private(tmp_path / "engine")
    Files().make_private(tmp_path / "jam-a")
    spec = SandboxSpec(name="jam-a", guest_disk=str(tmp_path / "jam-a"), resources=Resources(memory_bytes=128 << 20))
    async with open_engine(EngineContext(root=root, runtime=root)) as engine:
        await engine.create(spec)
        box = Box(engine=engine, spec=spec, work=tmp_path)
        fill = (
            "for place in /tmp /dev/shm /run; do dd if=/dev/zero of=$place/x bs=1M count=400 2>&1 | grep -c 'No space left'; done"
        )
        assert (await box.run("sh", "-c", fill)).text.split()[:2] == ["1", "1"]
        assert (await box.run("sh", "-c", "echo on")).text == "on"
