"""The leak guards fail when something leaks, name what leaked, and stay quiet otherwise."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jamcore.testing.guards import Process, Watch, adopting_orphans, descendants, is_alive, kill, mounts_below, settle

pytest_plugins = "pytester"

SLEEP = (sys.executable, "-c", "import time; time.sleep(300)")
# The middle process starts a grandchild in a session of its own, says its pid and ends: only descent by adoption finds it.
DAEMONISE = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=subprocess.DEVNULL).pid)"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as child:
        yield child
        child.kill()


def test_a_living_child_is_a_leak_and_is_killed(sleeper_watch: tuple[Watch, subprocess.Popen[bytes]]) -> None:
    """A child that runs on is named with its pid, and does not survive the verdict."""
    watch, child = sleeper_watch
    leaks = watch.leaks(timeout_s=0)
    assert [leak for leak in leaks if leak.startswith(f"process {child.pid} ")]
    assert child.wait(timeout=10) == -9


@pytest.fixture
def sleeper_watch() -> Iterator[tuple[Watch, subprocess.Popen[bytes]]]:
    watch = Watch()
    with subprocess.Popen(SLEEP) as child:
        yield watch, child
        child.kill()


def test_a_daemonised_grandchild_is_found_by_descent() -> None:
    """A process in its own session whose parent has ended is still found, because it is adopted."""
    with adopting_orphans():
        watch = Watch()
        pid = int(subprocess.run([sys.executable, "-c", DAEMONISE, *SLEEP], stdout=subprocess.PIPE, check=True).stdout)
        leaks = watch.leaks(timeout_s=0)
        watch.reap()
    assert [leak for leak in leaks if leak.startswith(f"process {pid} (session {pid})")]
    assert not Path(f"/proc/{pid}").exists()


def test_a_child_that_is_ending_gets_its_time() -> None:
    """A child that ends by itself within the bound is no leak."""
    watch = Watch()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.close()
        assert watch.leaks(timeout_s=30) == ()


def test_a_process_number_used_again_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    """Identity is pid and start time: the same number with another start time is not alive, and is never killed."""
    (process,) = [p for p in descendants() if p.pid == sleeper.pid]
    impostor = Process(process.pid, process.started + 1, process.session, process.command)
    assert is_alive(process)
    assert not is_alive(impostor)
    kill([impostor])
    assert sleeper.poll() is None
    assert settle([impostor]) == ()


def test_a_mount_is_a_leak(tmp_path: Path) -> None:
    """Mount points below the watched directory are found, also with a space in their name."""
    script = """if True:
        import subprocess, sys
        from pathlib import Path
        from jamcore.testing.guards import Watch
        root = Path(sys.argv[1]); point = root / "a b"; point.mkdir()
        watch = Watch(mount_roots=[root])
        subprocess.run(["mount", "-t", "tmpfs", "none", str(point)], check=True)
        print(*watch.leaks(), sep="\\n")
    """
    # A mount namespace of its own: the mount is real and vanishes with the process.
    unshare = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(unshare, capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"needs mount namespaces: {done.stderr.strip()}")
    assert done.stdout.splitlines() == [f"mount {tmp_path / 'a b'}"]
    assert mounts_below([tmp_path]) == frozenset()


def test_files_and_sockets_are_leaks(tmp_path: Path) -> None:
    """A file and a Unix socket left in the watched directory are named; a removed one is not."""
    watch = Watch(directories=[tmp_path])
    (tmp_path / "left\n").touch()
    (tmp_path / "gone").touch()
    (tmp_path / "gone").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "s"))
    assert watch.leaks() == (f"file {str(tmp_path / 'left')!r}"[:-1] + "\\n'", f"file {str(tmp_path / 's')!r}")


def test_an_open_descriptor_is_a_leak() -> None:
    """A descriptor that stays open is named with what it points to."""
    watch = Watch(descriptors=True)
    descriptor = os.open("/dev/null", os.O_RDONLY)
    try:
        assert watch.leaks() == (f"descriptor {descriptor}: /dev/null",)
    finally:
        os.close(descriptor)
    assert watch.leaks() == ()


def test_a_changed_environment_is_a_leak_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added, changed and removed variables are named; their values, which may be secret, are not."""
    with monkeypatch.context() as patch:
        patch.setenv("JAM_TEST_CHANGED", "old")
        patch.setenv("JAM_TEST_REMOVED", "old")
        watch = Watch()
        patch.setenv("JAM_TEST_CHANGED", "s3cret")
        patch.setenv("JAM_TEST_ADDED", "s3cret")
        patch.delenv("JAM_TEST_REMOVED")
        leaks = watch.leaks()
    names = ("JAM_TEST_ADDED added", "JAM_TEST_CHANGED changed", "JAM_TEST_REMOVED removed")
    assert leaks == tuple(f"environment variable {name}" for name in names)


def test_a_changed_directory_is_a_leak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test that changes the working directory is told so."""
    watch = Watch()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        (leak,) = watch.leaks()
    assert leak.startswith(f"working directory {str(tmp_path)!r}")


def test_the_fixture_fails_the_test_that_leaks(pytester: pytest.Pytester) -> None:
    """Under pytest the leaking test fails at its teardown, and the next one passes."""
    pytester.makepyfile(
        """
        import os, subprocess, sys

        def test_leaks(no_leaks):
            child = subprocess.Popen([sys.executable, "-c", "import os; os.write(1, b'x'); input()"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            child.stdout.read(1)
            sys.leaked = child

        def test_is_clean(no_leaks):
            sys.leaked.stdin.close(), sys.leaked.stdout.close(), sys.leaked.wait()
            del sys.leaked

        def test_leaves_a_file(leak_guard, tmp_path):
            leak_guard(directories=[tmp_path])
            (tmp_path / "left").touch()
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(["*the test left behind:*", "*process * (session *): *", "*file *left*"])
