"""Programs on the host: exact bytes, bounds, and nothing left behind."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import anyio
import pytest

from jamcore.system.process import Finished, run_bounded, spawn, spawned

pytestmark = pytest.mark.anyio

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(code: str, *arguments: str, limit: int = 1 << 20, time_s: float = 20, stdin: bytes = b"") -> Finished:
    return await run_bounded(
        [sys.executable, "-I", "-S", "-c", code, *arguments], cwd="/", env=ENV, limit_bytes=limit, timeout_s=time_s, stdin=stdin
    )


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


async def gone(*pids: int) -> bool:
    """Whether all of these are dead; a killed process takes a moment, and a zombie counts as dead."""
    with anyio.move_on_after(5):
        while any(map(running, pids)):  # noqa: ASYNC110 - other processes end
            await anyio.sleep(0.005)
        return True
    return False


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except FileNotFoundError:
        return False


async def test_bytes_go_in_and_come_out_exactly() -> None:
    """Any byte passes, also NUL and what is no text, in both directions."""
    data = bytes(range(256)) * 4096
    done = await run(
        "import sys,shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer); sys.stderr.write('e')", stdin=data
    )
    assert done == Finished(0, data, b"e")
    assert done.ok


async def test_without_input_the_program_reads_an_end() -> None:
    """No program waits for a terminal that is not there."""
    assert (await run("import sys; print(len(sys.stdin.read()))")).stdout == b"0\n"


async def test_output_beyond_the_limit_is_dropped_and_said() -> None:
    """A program that talks too much cannot fill the memory, and nobody takes the rest for the whole."""
    done = await run("import sys; sys.stdout.write('x' * 5_000_000)", limit=1000)
    assert (done.returncode, len(done.stdout), done.truncated, done.ok) == (0, 1000, True, False)


async def test_a_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    """A program that ignores TERM is killed, with the child that it started."""
    code = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid = os.fork()
if pid: open(sys.argv[1], "w").write(f"{os.getpid()} {pid}")
time.sleep(60)
"""
    done = await run(code, str(tmp_path / "pids"), time_s=0.5)
    assert (done.returncode, done.timed_out) == (-signal.SIGKILL, True)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert await gone(*pids)


async def test_what_a_program_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    """A background child that holds the output open neither delays the answer nor survives."""
    code = "import os,sys,time\npid=os.fork()\nif not pid: time.sleep(60)\nopen(sys.argv[1],'w').write(str(pid)); print('done')"
    with anyio.fail_after(10):
        done = await run(code, str(tmp_path / "pid"))
    assert (done.returncode, done.timed_out) == (0, False)
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_cancellation_ends_the_program(tmp_path: Path) -> None:
    """Nobody who stops waiting leaves a program running."""
    mark = tmp_path / "pid"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, "import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(60)", str(mark))
        while not (mark.exists() and mark.read_text()):  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert await gone(int(mark.read_text()))


async def test_a_program_that_is_not_there_is_an_os_error() -> None:
    """The caller sees why, and no descriptor is left open."""
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        await run_bounded(["/nowhere/x"], cwd="/", env=ENV, limit_bytes=1, timeout_s=1)
    assert descriptors() == before


async def test_no_descriptor_is_left_after_a_run() -> None:
    """A daemon that runs a program a second for a year has as many descriptors as at the start."""
    await run("pass")
    before = descriptors()
    for _ in range(3):
        await run("pass", stdin=b"x")
    assert descriptors() == before


async def test_the_environment_is_exactly_what_was_given() -> None:
    """Nothing of the daemon's own environment passes."""
    done = await run("import os; print(sorted(k for k in os.environ if k != 'LC_CTYPE'))")
    assert done.stdout == b"['PATH']\n"


async def test_several_may_wait_and_a_signal_to_the_dead_is_nothing() -> None:
    """Waiters all get the one status."""
    child = spawn([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], env=ENV)
    codes: list[int] = []

    async def wait() -> None:
        codes.append(await child.wait())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        tasks.start_soon(wait)
        await anyio.lowlevel.checkpoint()
        child.signal(signal.SIGUSR1)
    assert codes == [-signal.SIGUSR1] * 2
    child.signal(signal.SIGKILL)
    child.signal_group(signal.SIGKILL)
    assert await child.end() == -signal.SIGUSR1


async def test_a_spawned_program_ends_with_its_block() -> None:
    """The block's end, by an error too, is the program's end."""
    with pytest.raises(KeyError):
        async with spawned([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"], env=ENV) as child:
            raise KeyError
    assert child.returncode is not None
