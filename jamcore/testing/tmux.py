"""A real terminal in tests: a program in tmux, keys typed into it, and the screen as a person sees it.

Each terminal is a tmux server of its own on a socket of its own, so that ending it ends nobody else's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

WAIT_S = 40.0
POLL_S = 0.02
LINES_KEPT = 2000
_NOTED = 'trap : INT; "$@"; echo $? > "$JAM_TEST_ENDED"'
"""The shell notes the status itself: what tmux knows of a program that ended comes late on a busy machine, or not at all."""


class TerminalError(AssertionError):
    """What was waited for did not come; the text has the screen."""


class Tmux:
    """One program on a terminal of a given size.

    Args:
        directory: Where the server's socket lies; short, since a socket's path is.
        argv: The program; its path is absolute.
        environment: Its whole environment, besides what tmux adds (``TERM``).
        columns: Width.
        rows: Height.
    """

    def __init__(
        self, directory: Path, argv: Sequence[str], *, environment: Mapping[str, str], columns: int = 100, rows: int = 30
    ) -> None:
        self._argv = tuple(argv)
        self._environment = dict(environment)
        self._size = (str(columns), str(rows))
        self._socket = directory / "tmux.sock"
        self._ended = directory / "ended"

    def __enter__(self) -> Self:
        """Start it."""
        columns, rows = self._size
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        options = ("set", "-g", "remain-on-exit", "on", ";", "set", "-g", "history-limit", str(LINES_KEPT), ";")
        self._tmux(
            *("start-server", ";", *options, "new-session", "-d", "-x", columns, "-y", rows, "env", "-i"),
            *("TERM=screen-256color", f"JAM_TEST_ENDED={self._ended}", *variables, "/bin/sh", "-c", _NOTED, "sh", *self._argv),
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the server with whatever runs in it."""
        self._tmux("kill-server", check=False)

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names: ``C-c``, ``Enter``, ``Up``."""
        self._tmux("send-keys", *names)

    def type(self, text: str, *, enter: bool = True) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)
        if enter:
            self.keys("Enter")

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; the program is told by the system."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, *, history: bool = True, colours: bool = False) -> str:
        """Return what is on the screen, and with ``history`` what has scrolled off it; lines that were wrapped are joined."""
        return self._tmux("capture-pane", "-p", "-J", *(("-S", f"-{LINES_KEPT}") if history else ()), *(("-e",) if colours else ()))

    def expect(self, text: str, *, times: int = 1, limit_s: float = WAIT_S) -> str:
        """Wait until a text has been shown so many times, and return the screen.

        Raises:
            TerminalError: It did not come.
        """
        deadline = time.monotonic() + limit_s
        while (shown := self.screen()).count(text) < times:
            if time.monotonic() > deadline:
                raise TerminalError(f"{text!r} did not come {times} time(s):\n{shown}")
            time.sleep(POLL_S)
        return shown

    def status(self, *, limit_s: float = WAIT_S) -> int:
        """Wait for the program's end and return its exit status, as a shell has it: 128 and more for a signal.

        Raises:
            TerminalError: It goes on.
        """
        deadline = time.monotonic() + limit_s
        while not (self._ended.exists() and (status := self._ended.read_text().strip())):
            if time.monotonic() > deadline:
                raise TerminalError(f"it goes on:\n{self.screen()}")
            time.sleep(POLL_S)
        return int(status)

    @property
    def pid(self) -> int:
        """The program's process id; 0 before it begins and after it has ended."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        try:
            children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        except OSError:
            return 0
        return int(children[0]) if children else 0

    def _tmux(self, *words: str, check: bool = True) -> str:
        # Not this process's environment: a tmux around the tests is none of ours.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TERM": "screen-256color", "HOME": "/"}
        done = subprocess.run(
            (shutil.which("tmux") or "/usr/bin/tmux", "-u", "-f", os.devnull, "-S", str(self._socket), *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=WAIT_S,
            check=False,
            env=environment,
        )
        if check and done.returncode:
            raise TerminalError(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout
