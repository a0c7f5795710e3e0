"""The machine's side of the demo: a small real repository, the daemon as a child, and who descends from it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

GIT = shutil.which("git") or "git"
GIT_TIMEOUT_S = 30.0
_SETTINGS = ("user.name=Demo", "user.email=demo@example.invalid", "commit.gpgSign=false", "core.hooksPath=/dev/null")
_IDENTITY = tuple(part for setting in _SETTINGS for part in ("-c", setting))


class DemoFailedError(Exception):
    """A proof did not hold, or a step did not end within its bound."""


def make_repository(path: Path) -> None:
    """Make a repository with one commit: a module with a spelling mistake."""
    path.mkdir()
    (path / "greeting.py").write_text('def greet():\n    return "helo"\n')
    (path / "README.md").write_text("# Greeting\n")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "A greeting")):
        git(path, *command)


def git(path: Path, *argv: str) -> str:
    """Run git in the demo's repository and return its output."""
    done = subprocess.run(
        (GIT, *_IDENTITY, "-C", str(path), *argv), capture_output=True, check=True, timeout=GIT_TIMEOUT_S, text=True
    )
    return done.stdout


class DaemonChild:
    """The daemon, run in the foreground as a child in its own session, so that the demo can kill it and see what is left."""

    def __init__(self, app: Path, secret: str) -> None:
        self._app = app
        self._secret = secret
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it. The credential reaches the daemon through its environment, and nothing else."""
        environment = {**os.environ, "JAM_CREDENTIAL_DEMO": self._secret}
        self._process = subprocess.Popen(
            (sys.executable, "-m", "jamcore.jamd", "--app-directory", str(self._app)),
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )

    def require_alive(self) -> None:
        """Raise when the daemon has ended by itself.

        Raises:
            DemoFailedError: It has.
        """
        if self._process is not None and self._process.poll() is not None:
            raise DemoFailedError(f"the daemon ended with code {self._process.returncode}")

    def kill(self) -> None:
        """SIGKILL, and reap."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=10)

    def stop(self) -> None:
        """End it in an orderly way; SIGKILL when it does not end within its own backstop."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()


def descendants(root: int) -> dict[int, tuple[str, str]]:
    """Return the living descendants of a process: pid → (start time, command line). Zombies do not live."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(entry)) is not None:
            parents[int(entry.name)] = stat
    found: dict[int, tuple[str, str]] = {}
    for pid, (_, started) in parents.items():
        if pid != root and _descends(pid, root, parents):
            found[pid] = (started, _command(pid))
    return found


def still_alive(before: dict[int, tuple[str, str]]) -> dict[int, str]:
    """Return those of ``before`` that live on, recognised by pid and start time."""
    alive = {}
    for pid, (started, command) in before.items():
        stat = _stat(Path(f"/proc/{pid}"))
        if stat is not None and stat[1] == started:
            alive[pid] = command
    return alive


def wait_until(what: str, condition: Callable[[], bool], *, limit_s: float = 20.0) -> None:
    """Wait for a condition that no event announces (a process is gone), bounded.

    Raises:
        DemoFailedError: It did not come true within ``limit_s`` seconds.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailedError(f"{what}: not within {limit_s:.0f} s")
        time.sleep(0.01)


def shell(app: Path, *argv: str) -> str:
    """Return a command line that a person can paste."""
    return f"JAM_HOME={shlex.quote(str(app))} " + shlex.join((str(Path(sys.executable).with_name("jam")), *argv))


def _stat(entry: Path) -> tuple[int, str] | None:
    try:
        fields = (entry / "stat").read_text().rpartition(") ")[2].split(" ")
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else (int(fields[1]), fields[19])


def _descends(pid: int, root: int, parents: dict[int, tuple[int, str]]) -> bool:
    for _ in range(len(parents)):
        parent = parents.get(pid, (0, ""))[0]
        if parent == root:
            return True
        if parent == 0:
            return False
        pid = parent
    return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
