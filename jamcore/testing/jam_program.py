"""``jam`` as a program, with pipes or on a terminal, and the fake daemon that it may speak with."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from jamcore.cli.main import main
from jamcore.testing.crash import Lives

FAKE = (sys.executable, "-P", "-m", "jamcore.testing.fake_daemon")
WAIT_S = 20.0


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the command prints
        """The one document on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Each line of standard output as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


@contextmanager
def fake_running(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the fake daemon as a program until the block ends."""
    process = subprocess.Popen([*FAKE, "--app-directory", str(directory)], stdin=subprocess.DEVNULL)
    try:
        _until((directory / "daemon.json").exists)
        yield process
    finally:
        process.terminate()
        process.wait(WAIT_S)


def program(
    home: Path,
    *words: str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    lives: Lives | None = None,
    limit_s: float = WAIT_S,
) -> Done:
    """Run ``jam`` as a program with pipes, or, forked by ``lives``, without input and with files."""
    environment = {**os.environ, "JAM_HOME": str(home), **(env or {})}
    if lives is not None:
        return _forked(lives, words, environment, limit_s)
    done = subprocess.run(
        [sys.executable, "-m", "jamcore.cli.main", *words],
        input=stdin,
        capture_output=True,
        timeout=limit_s,
        check=False,
        env=environment,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def _forked(lives: Lives, words: tuple[str, ...], environment: Mapping[str, str], limit_s: float) -> Done:
    with TemporaryDirectory() as place:
        said, errors = Path(place, "out"), Path(place, "err")
        status = lives.begin(_jam, *words, environment=environment, said=said, errors=errors).wait(limit_s)
        return Done(status, said.read_text(), errors.read_text())


def _jam(*words: str) -> None:
    """What ``python -m jamcore.cli.main`` does."""
    sys.argv = ["jam", *words]
    main()


class Terminal:
    """``jam`` on a pseudo terminal: what it shows, and keys to press."""

    def __init__(self, home: Path, words: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.shown = ""
        self._pid, self._master = pty.fork()
        if self._pid == 0:
            variables = {**os.environ, "JAM_HOME": str(home), "TERM": "xterm", **env}
            os.execve(sys.executable, [sys.executable, "-m", "jamcore.cli.main", *words], variables)  # noqa: S606 - this process

    def expect(self, text: str) -> None:
        """Wait until a text is shown after what was expected before."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} not in {self.shown!r}"
            assert self._read(), f"{text!r} not in {self.shown!r}"
        self.shown = self.shown.partition(text)[2]

    def press(self, keys: str) -> None:
        """Type something; the character 3 is Ctrl-C, which the terminal turns into the signal."""
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """Read to the end and return the exit status."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def close(self) -> None:
        """End it whatever it does."""
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._master)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], WAIT_S)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
