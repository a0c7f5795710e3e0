"""Local sandboxes when something dies: the daemon, the supervisor, or both at once; and what is refused or found missing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from jamcore.domain.sandboxes import (
    Access,
    CloneSource,
    EngineFailedError,
    ExecSpec,
    HostMount,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.local import bringup, health
from jamcore.engines.local.engine import LocalEngine, open_engine
from jamcore.engines.local.marks import MARK, carriers
from jamcore.engines.local.places import Places
from jamcore.engines.port import EngineContext
from jamcore.engines.supervised.records import SandboxRecords
from jamcore.system.files import Files
from jamcore.system.pipes import PipeReader
from jamcore.system.process import spawned
from jamcore.testing.engines.box import Box, Ran
from jamcore.testing.guards import Process, descendants, settle

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

NAME = "jam-a"
DAEMON = """
import anyio, os, sys
from pathlib import Path
from jamcore.domain.sandboxes import ExecSpec, SandboxSpec
from jamcore.engines.local import LocalEnginePlugin
from jamcore.engines.port import EngineContext

LEAVE = "echo kept > ~/kept; setsid sh -c 'sleep 600 & setsid sleep 601 &' & sleep 602 & echo up; wait"

async def main(root: Path) -> None:
    async with LocalEnginePlugin().open(EngineContext(root=root / "engine", runtime=root / "engine")) as engine:
        await engine.create(SandboxSpec(name=sys.argv[2], guest_disk=str(root / "disk")))
        process = await engine.exec(sys.argv[2], ExecSpec(argv=("sh", "-c", LEAVE), cwd="/"))
        await process.stdout.receive()
        os.write(1, b"ready")
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]))
"""


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    return SandboxSpec(name=NAME, guest_disk=str(Files().make_private(tmp_path / "disk")))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LocalEngine]:
    async with opened(tmp_path / "engine") as engine:
        yield engine


def opened(root: Path) -> AbstractAsyncContextManager[LocalEngine]:
    Files().make_private(root)
    return open_engine(EngineContext(root=root, runtime=root))


def mark_of(root: Path, name: str = NAME) -> str:
    record = SandboxRecords(root / "engine", engine="local", files=Files()).read(name)
    assert record is not None
    assert len(record.mark) == 32
    return record.mark


async def run(engine: LocalEngine, *argv: str) -> Ran:
    return await Box(engine=engine, spec=SandboxSpec(name=NAME, guest_disk="/"), work=Path("/")).run(*argv)


def sleepers(processes: frozenset[Process]) -> set[str]:
    return {process.command for process in processes if process.command.startswith("sleep 60")}


async def family_of_a_killed_daemon(root: Path, *, with_supervisor: bool) -> frozenset[Process]:
    """Run a daemon with a busy sandbox, kill it, alone or with its sandbox's supervisor, and return who lived below it."""
    Files().make_private(root / "engine")
    source = str(Path(bringup.__file__).parents[3])
    said, write = os.pipe2(os.O_CLOEXEC)
    reader = PipeReader(said)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": source}
    try:
        async with spawned((sys.executable, "-c", DAEMON, str(root), NAME), env=environment, stdout=write) as daemon:
            os.close(write)
            with anyio.fail_after(30):
                assert await reader.receive() == b"ready"
                while len(sleepers(descendants(daemon.pid))) < 3:  # noqa: ASYNC110 - other processes begin
                    await anyio.sleep(0.002)
            below = descendants(daemon.pid)
            if with_supervisor:
                # Stopped first, so that neither sees the other's end: as if the machine had run out of memory for both.
                above = [process for process in below if "supervised.guest.init" in process.command]
                assert above
                daemon.signal(signal.SIGSTOP)
                for process in above:
                    os.kill(process.pid, signal.SIGSTOP)
                for process in above:
                    os.kill(process.pid, signal.SIGKILL)
            daemon.signal(signal.SIGKILL)
            assert await daemon.wait() == -signal.SIGKILL
    finally:
        reader.close()
    return below


@pytest.mark.crash
@pytest.mark.guarantee("OWN-8", "ENG-2")
async def test_a_killed_daemon_takes_every_process_with_it(tmp_path: Path, spec: SandboxSpec) -> None:
    """The supervisor sees its end and ends the whole tree, daemonised or not; the next engine says stopped and starts it as it was."""
    below = await family_of_a_killed_daemon(tmp_path, with_supervisor=False)
    assert settle(below, 15.0) == ()
    async with opened(tmp_path / "engine") as engine:
        assert await engine.presence(spec.name) is Presence.STOPPED
        with pytest.raises(SandboxGoneError):
            await engine.exec(spec.name, ExecSpec(argv=("true",), cwd="/"))
        await engine.start(spec.name)
        assert (await run(engine, "sh", "-c", "cat ~/kept")).text == "kept"


@pytest.mark.crash
@pytest.mark.guarantee("SHARE-4", "ENG-2")
@pytest.mark.parametrize("then", ["stop", "start", "remove"])
async def test_what_outlived_daemon_and_supervisor_is_running_until_it_is_stopped(
    tmp_path: Path, spec: SandboxSpec, then: str
) -> None:
    """Killed together they leave programs with nobody above: presence says running, nothing starts in it, and a stop ends them all."""
    await family_of_a_killed_daemon(tmp_path, with_supervisor=True)
    mark = mark_of(tmp_path)
    assert len(carriers(mark)) >= 3
    async with opened(tmp_path / "engine") as engine:
        assert await engine.presence(spec.name) is Presence.RUNNING
        assert [item.presence for item in await engine.inventory()] == [Presence.RUNNING]
        with pytest.raises(SandboxGoneError):
            await engine.exec(spec.name, ExecSpec(argv=("true",), cwd="/"))
        before = carriers(mark)
        await getattr(engine, then)(spec.name)
        assert not before & carriers(mark)
        wanted = {"stop": Presence.STOPPED, "start": Presence.RUNNING, "remove": Presence.ABSENT}[then]
        assert await engine.presence(spec.name) is wanted


@pytest.mark.crash
@pytest.mark.guarantee("OWN-8")
async def test_a_program_that_kills_its_supervisor_is_a_stopped_sandbox(
    engine: LocalEngine, spec: SandboxSpec, tmp_path: Path
) -> None:
    """As the same user it can; its own end follows, and so does that of all that it left behind."""
    await engine.create(spec)
    code = """
import os, signal, subprocess, sys, time
subprocess.Popen(["setsid", "sleep", "605"])
above = os.getppid()
while b"supervised.guest.init" not in open(f"/proc/{above}/cmdline", "rb").read(): raise SystemExit("who is above?")
parent = int(open(f"/proc/{above}/stat").read().rpartition(") ")[2].split()[1])
os.kill(parent if b"supervised.guest.init" in open(f"/proc/{parent}/cmdline", "rb").read() else above, signal.SIGKILL)
time.sleep(600)
"""
    process = await engine.exec(spec.name, ExecSpec(argv=(sys.executable, "-I", "-S", "-c", code), cwd="/"))
    with pytest.raises(SandboxGoneError), anyio.fail_after(30):
        await process.wait()
    await process.aclose()
    assert await engine.presence(spec.name) is Presence.STOPPED
    assert carriers(mark_of(tmp_path)) == frozenset()
    await engine.start(spec.name)
    assert (await run(engine, "echo", "on")).text == "on"


@pytest.mark.guarantee("ENV-1")
async def test_a_program_finds_directories_of_its_own_and_nothing_of_the_daemons(
    engine: LocalEngine, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Home, temporary files and XDG places are the sandbox's; the daemon's own environment is not there at all."""
    monkeypatch.setenv("JAM_TEST_AMBIENT", "secret")
    await engine.create(spec)
    found = dict(line.partition("=")[::2] for line in (await run(engine, "env")).text.splitlines())
    private = {name for name, value in found.items() if value.startswith(spec.guest_disk)}
    assert private == {"HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}
    assert set(found) - private <= {"PATH", "LANG", "USER", "LOGNAME", "SHELL", "TERM", MARK, "PWD", "SHLVL", "_"}


async def test_temporary_files_do_not_outlive_a_start(engine: LocalEngine, spec: SandboxSpec) -> None:
    """The home stays."""
    await engine.create(spec)
    await run(engine, "sh", "-c", "echo gone > $TMPDIR/file; echo kept > ~/file")
    await engine.stop(spec.name)
    await engine.start(spec.name)
    assert (await run(engine, "sh", "-c", "ls $TMPDIR; cat ~/file")).text == "kept"


@pytest.mark.guarantee("ENG-6")
async def test_what_a_host_process_cannot_have_is_refused(engine: LocalEngine, spec: SandboxSpec, tmp_path: Path) -> None:
    """A guest path of its own, a loopback port of its own, a clone elsewhere, a directory that is a link or not there."""
    real = Files().make_private(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    source = CloneSource(host_path=str(real), commit="0" * 40, guest_path=str(tmp_path / "elsewhere"))

    def mount(host: Path, guest: Path | str) -> tuple[HostMount, ...]:
        return (HostMount(host_path=str(host), guest_path=str(guest), access=Access.READ_WRITE),)

    for change in (
        {"name": "../x"},
        {"mounts": mount(real, "/jam/work")},
        {"mounts": mount(tmp_path / "link", tmp_path / "link")},
        {"mounts": mount(tmp_path / "none", tmp_path / "none")},
        {"reach_ports": (8790,)},
        {"clone": source},
    ):
        with pytest.raises((EngineFailedError, ValueError)):
            await engine.create(spec.model_copy(update=change))
    assert await engine.inventory() == ()


@pytest.mark.guarantee("ENG-1")
async def test_a_supervisor_that_never_speaks_is_a_failed_start(engine: LocalEngine, spec: SandboxSpec) -> None:
    """The time limit is a typed failure, and nothing of the attempt is left."""
    mark = "f" * 32
    with pytest.raises(EngineFailedError, match="no answer within 0 s"):
        async with bringup.running(spec, Places.of(spec), mark, limit_s=0):
            pytest.fail("it was ready at once")
    assert carriers(mark) == frozenset()
    assert await engine.presence(spec.name) is Presence.ABSENT


@pytest.mark.guarantee("PLAN-4")
async def test_a_moved_root_takes_its_sandboxes_along(tmp_path: Path) -> None:
    """Records name Jam's own directories relative to themselves, and what a guest sees moves with them."""
    old = Files().make_private(tmp_path / "old")
    work = Files().make_private(old / "work")
    mount = HostMount(host_path=str(work), guest_path=str(work), access=Access.READ_WRITE)
    spec = SandboxSpec(name=NAME, guest_disk=str(Files().make_private(old / "disk")), mounts=(mount,))
    async with opened(old / "engine") as engine:
        await engine.create(spec)
        await run(engine, "sh", "-c", "echo kept > ~/kept")
    new = tmp_path / "new"
    shutil.move(old, new)
    async with opened(new / "engine") as engine:
        await engine.start(NAME)
        assert (await run(engine, "sh", "-c", "cat ~/kept; pwd; echo $HOME")).text.split() == ["kept", "/", str(new / "disk/home")]
        assert engine.host_path(NAME, str(new / "work")) == new / "work"


@pytest.mark.guarantee("CAP-1")
async def test_a_machine_without_what_it_needs_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never an exception: what is missing and what to do."""
    monkeypatch.setattr(sys, "platform", "plan9")
    found = await health.probe()
    assert not found.usable
    assert found.findings[0].hint
