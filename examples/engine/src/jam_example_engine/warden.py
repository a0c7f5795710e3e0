"""The warden of one program, a process of its own: it starts the program, reaps what that leaves, and ends it all.

    python3 warden.py CONTROL TASK

CONTROL is the descriptor of a socket. The warden says "started" or "refused WHY", then "ended STATUS", and is told "signal N" and
"kill", which it answers with "gone". When the socket closes, which it also does when the daemon dies, everything is killed. TASK is
the descriptor of a file that says what to start, so that the warden's own command line does not look like the program's.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36


def descendants() -> Iterator[int]:
    """Yield every living process below this one: what left its session or lost its parent is below it too."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b") ")[2].split()[:2]
                children.setdefault(int(parent), []).append(int(name) if state not in b"ZX" else -int(name))
    waiting = [os.getpid()]
    while waiting:
        for child in children.get(abs(waiting.pop()), ()):
            waiting.append(child)
            if child > 0:
                yield child


def become(terminal: bool, directory: str, argv: list[str], tell: int) -> None:
    """Become the program, in a session of its own; say why, if that cannot be."""
    try:
        os.setsid()
        if terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.chdir(directory)
        os.execvpe(argv[0], argv, os.environ)
    except (OSError, ValueError) as error:
        os.write(tell, (getattr(error, "strerror", None) or str(error)).encode())
    finally:
        os._exit(127)


class Warden:
    """One program and all that comes of it."""

    def __init__(self, control: socket.socket, pid: int) -> None:
        self.control, self.pid = control, pid
        self.ended = False

    def say(self, words: str) -> None:
        """Tell the engine something."""
        with suppress(OSError):
            self.control.sendall(words.encode() + b"\n")

    def reap(self) -> None:
        """Take the status of everything that has ended."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if found[0] == self.pid:
                    self.ended = True
                    self.say(f"ended {os.waitstatus_to_exitcode(found[1])}")

    def end(self) -> None:
        """Kill everything, until nothing is left."""
        while found := list(descendants()):
            for pid in found:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            time.sleep(0.001)
        self.reap()

    def serve(self, woken: int) -> None:
        """Do what the engine says, until it is gone."""
        pending = b""
        while True:
            ready, _, _ = select.select([self.control.fileno(), woken], [], [])
            if woken in ready:
                os.read(woken, 4096)
                self.reap()
            if self.control.fileno() in ready:
                data = self.control.recv(4096)
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self.obey(line.decode())
                if not data:
                    self.end()
                    return

    def obey(self, line: str) -> None:
        """Do one thing."""
        if line == "kill":
            self.end()
            self.say("gone")
        elif line.startswith("signal ") and not self.ended:
            with suppress(OSError):
                os.killpg(self.pid, int(line.split()[1]))


def main() -> None:
    """Start the program and watch over it."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    with open(int(sys.argv[2]), "rb") as file:
        task = json.load(file)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    back, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(task["terminal"], task["directory"], task["argv"], tell)
    os.close(tell)
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):  # the program alone holds its streams
        os.dup2(nothing, stream)
    warden = Warden(control, pid)
    if why := os.read(back, 4096).decode():
        warden.say(f"refused {why}")
        return
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    warden.say("started")
    warden.reap()
    warden.serve(woken)


if __name__ == "__main__":
    main()
