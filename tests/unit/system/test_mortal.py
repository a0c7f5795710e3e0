"""Programs of the host end with the daemon, also when it is killed: nothing of a long clone or snapshot goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jamcore.system.mortal import SETPRIV, mortal
from jamcore.testing.guards import descendants, settle

pytestmark = pytest.mark.unprivileged

ENV = {"PATH": "/usr/bin:/bin"}
WAYS = {"setpriv": SETPRIV, "interpreter": ()}
PARENT = """
import sys
from pathlib import Path
import anyio
import jamcore.system.process as process
from jamcore.system import mortal

ways, argv = sys.argv[1], tuple(sys.argv[2:])
if ways == "interpreter":
    process.mortal = lambda argv, *, env: mortal.mortal(argv, env=env, setpriv=())

async def main() -> None:
    await process.run_bounded(argv, cwd="/", env={"PATH": "/usr/bin:/bin"}, limit_bytes=1 << 20, timeout_s=60)

anyio.run(main)
"""


@pytest.fixture
def parent() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process that runs a program as the daemon does."""
    started: list[subprocess.Popen[bytes]] = []

    def start(way: str, *argv: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen((sys.executable, "-c", PARENT, way, *argv), stdin=subprocess.DEVNULL)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("way", WAYS)
def test_a_program_ends_with_a_parent_that_is_killed(
    tmp_path: Path, parent: Callable[..., subprocess.Popen[bytes]], way: str
) -> None:
    """SIGKILL of the parent, in the middle: the program is gone, although it ignores every signal that can be ignored."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = parent(way, "/bin/sh", "-c", f"trap '' TERM HUP INT; echo up > {fifo}; while :; do sleep 1; done")
    assert fifo.read_text() == "up\n"
    family = descendants(process.pid)
    programs = [each for each in family if each.command.startswith("/bin/sh")]
    assert programs, family
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not settle(programs)
    settle(family)  # what the shell itself had started ends by itself within its second


@pytest.mark.parametrize("way", WAYS)
def test_a_clone_ends_with_a_parent_that_is_killed(
    tmp_path: Path, parent: Callable[..., subprocess.Popen[bytes]], way: str
) -> None:
    """Git with all that it started: each of them reads or writes what another of them was to write or read."""
    source, fifo = tmp_path / "source", tmp_path / "fifo"
    subprocess.run(("git", "init", "-q", str(source)), check=True, env=ENV | {"HOME": str(tmp_path)})
    os.mkfifo(fifo)
    serve = f"echo up > {fifo}; exec cat"  # what serves the clone says that it was started, and then serves nothing
    process = parent(
        way, "git", "-c", "protocol.allow=always", "clone", "-q", "-u", f"sh -c '{serve}'", str(source), str(tmp_path / "clone")
    )
    assert fifo.read_text() == "up\n"
    family = descendants(process.pid)
    assert any("clone" in each.command for each in family), family
    process.kill()
    process.wait()
    assert not settle(family)


@pytest.mark.parametrize("way", WAYS)
def test_the_program_gets_what_it_was_given(way: str) -> None:
    """Its arguments and its environment are exact, and its code is the child's."""
    code = "import os, sys; print(sys.argv[1:], sorted(set(os.environ) - {'LC_CTYPE'})); sys.exit(7)"
    argv = mortal((sys.executable, "-I", "-S", "-c", code, "--", "a b", ""), env=ENV, setpriv=WAYS[way])
    done = subprocess.run(argv, env=ENV, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"['--', 'a b', ''] ['PATH']\n", b"")


def test_a_program_that_is_not_there_is_said_before_anything_is_started(tmp_path: Path) -> None:
    """As without the small program in between."""
    plain = tmp_path / "plain"
    plain.write_text("no program\n")
    with pytest.raises(FileNotFoundError):
        mortal(("nowhere-at-all",), env=ENV)
    with pytest.raises(FileNotFoundError):
        mortal(("/nowhere/at-all",), env=ENV)
    with pytest.raises(PermissionError):
        mortal((str(plain),), env=ENV)


def test_another_programs_setpriv_is_not_used(tmp_path: Path) -> None:
    """Busybox has one that does not know the option."""
    other = tmp_path / "busybox"
    other.write_text("")
    (tmp_path / "setpriv").symlink_to(other)
    assert mortal(("sh",), env=ENV, setpriv=(tmp_path / "setpriv",))[0] == sys.executable


def test_the_programs_parent_is_a_thread_that_lasts() -> None:
    """Why nothing is started in a worker thread: the kernel takes the end of the thread for the end of the parent."""
    started: list[subprocess.Popen[bytes]] = []
    argv = mortal(("sh", "-c", "echo up; exec sleep 60"), env=ENV)

    def start() -> None:
        child = subprocess.Popen(argv, env=ENV, stdout=subprocess.PIPE)
        started.append(child)
        assert child.stdout is not None
        child.stdout.readline()

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with started[0] as child:
        assert child.wait(timeout=20) == -signal.SIGKILL
