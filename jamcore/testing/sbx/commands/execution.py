"""``exec``: the caller's side of a program in a guest."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import termios
import threading
import time
import tty
from contextlib import suppress
from types import FrameType
from typing import Any

from jamcore.testing.sbx.commands.sandboxes import environment
from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure, write
from jamcore.testing.sbx.program.flags import Command, Flag

CHUNK = 1 << 16
REST_S = 0.2
"""After the program's end, how long its streams may be silent before what others hold of them is left."""
FOREVER_S = 3600.0


class Session:
    """One ``exec``."""

    def __init__(self, call: Call, connection: socket.socket) -> None:
        self.call = call
        self.connection = connection
        self.deadline: float | None = None
        self.raw: list[Any] | None = None

    def run(self, how: dict[str, Any]) -> int:
        """Run it to its end; return its exit code.

        Raises:
            Failure: The daemon refuses, or the caller was told to end.
        """
        self.connection.sendall(json.dumps({"method": "exec", "how": how}).encode() + b"\n")
        told, descriptors = self._first()
        if "error" in told:
            if told.get("hang"):
                self.call.console.say(f"ERROR: {told['error']}")
                time.sleep(FOREVER_S)
            raise Failure(told["error"], told["hint"])
        if told["started"]:
            self.call.console.say(f"Sandbox {how['name']} started successfully")
        if "absent" in told:
            self.call.console.say(told["absent"])
            return 127
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._terminated)
        try:
            return self._terminal(descriptors[0]) if how["size"] is not None else self._pipes(descriptors)
        finally:
            if self.raw is not None:
                termios.tcsetattr(0, termios.TCSADRAIN, self.raw)

    def _first(self) -> tuple[dict[str, Any], list[int]]:
        data, descriptors = b"", []
        while not data.endswith(b"\n"):
            more, found, _, _ = socket.recv_fds(self.connection, CHUNK, 4, socket.MSG_CMSG_CLOEXEC)
            descriptors += found
            if not more:
                raise Failure('request failed: Post "http://sandboxd/exec": EOF')
            data += more
        return json.loads(data), descriptors

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        """Go on for a while, and fail (``exec.client-term``)."""
        if self.deadline is None:
            self.deadline = time.monotonic() + self.call.told.term_s

    def _pipes(self, descriptors: list[int]) -> int:
        stdin, stdout, stderr = descriptors
        threading.Thread(target=_feed, args=(0, stdin), daemon=True).start()
        return self._pump({stdout: 1, stderr: 2})

    def _terminal(self, master: int) -> int:
        shown = os.isatty(1)
        if os.isatty(0):
            self.raw = termios.tcgetattr(0)
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, lambda *_: self._size())
        threading.Thread(target=_feed, args=(0, os.dup(master), b"\x04"), daemon=True).start()
        return self._pump({master: 1 if shown else -1})

    def _size(self) -> None:
        with suppress(OSError):
            self.connection.sendall(json.dumps({"size": window(0)}).encode() + b"\n")

    def _pump(self, streams: dict[int, int]) -> int:
        """Carry output until the program and its streams have ended; return its code."""
        poll = select.poll()
        for descriptor in (*streams, self.connection.fileno()):
            poll.register(descriptor, select.POLLIN)
        code: int | None = None
        while code is None or streams:
            if self.deadline is not None and (time.monotonic() >= self.deadline or code is not None):
                raise Failure("inspect exec: context deadline exceeded")
            ready = poll.poll(REST_S * 1000 if code is not None else 50)
            if not ready and code is not None:
                break
            for descriptor, _ in ready:
                if descriptor == self.connection.fileno():
                    code = self._ended()
                    poll.unregister(descriptor)
                elif not _carry(descriptor, streams[descriptor]):
                    poll.unregister(descriptor)
                    del streams[descriptor]
        if self.deadline is not None:
            raise Failure("inspect exec: context deadline exceeded")
        return code

    def _ended(self) -> int:
        data = b""
        while not data.endswith(b"\n"):
            chunk = self.connection.recv(4096)
            if not chunk:
                raise Failure('request failed: Post "http://sandboxd/exec": EOF')
            data += chunk
        return int(json.loads(data)["exit"])


def _carry(descriptor: int, target: int) -> bool:
    try:
        data = os.read(descriptor, CHUNK)
    except OSError:
        return False
    if data and target >= 0:
        write(target, data)
    return bool(data)


def _feed(source: int, target: int, at_end: bytes = b"") -> None:
    """Carry the caller's input, and its end."""
    with suppress(OSError):
        while data := os.read(source, CHUNK):
            write(target, data)
        write(target, at_end)
    os.close(target)


def window(descriptor: int) -> list[int]:
    """Return the size of the caller's terminal, or nothing by nothing."""
    with suppress(OSError):
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8)))
        return [rows, columns]
    return [0, 0]


def execute(call: Call) -> int:
    """Run a program in a sandbox."""
    if call.flag("detach") and call.gates("exec.detach"):
        raise Failure("--detach is not supported")
    if call.flag("user").partition(":")[0] not in ("", "agent", "1000"):
        raise Failure(f"--user {call.flag('user')}: not simulated (the guest has one user)")
    if call.flag("privileged"):
        raise Failure("--privileged: not simulated (the guest has one user)")
    files = [] if call.told.bug("env-file-ignored") else list(call.flag("env-file"))
    how = {
        "name": call.args[0],
        "argv": call.args[1:],
        "env": environment(call, files, list(call.flag("env"))),
        "cwd": call.flag("workdir"),
        "size": window(0) if call.flag("tty") else None,
    }
    with call.daemon.open() as connection:
        call.console.flush()  # what a started daemon says stands before the output of the program
        code = Session(call, connection).run(how)
    os._exit(code)  # a thread may still wait for input


COMMANDS = (
    Command(
        "exec",
        execute,
        (
            Flag("detach", "d", "bool"),
            Flag("detach-keys"),
            Flag("env", "e", "list"),
            Flag("env-file", "", "list"),
            Flag("interactive", "i", "bool"),
            Flag("privileged", "", "bool"),
            Flag("tty", "t", "bool"),
            Flag("user", "u"),
            Flag("workdir", "w"),
        ),
        2,
        None,
        first=True,
    ),
)
