"""Process 1 of a simulated sandbox: starts what the daemon asks for, reaps, and lends sockets of the guest's network.

It is run as a file by ``python -I -S`` and imports the standard library only. A request is a descriptor of a memory file with JSON,
followed by the descriptors that it is about; an answer is a small JSON text, with at most one descriptor. When the daemon's end is
closed, it ends, and the kernel ends everything else in the sandbox.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
from typing import Any

PR_SET_DUMPABLE = 4
REQUEST_BYTES = 8 << 20
SIGNALS = tuple(sorted(set(range(1, signal.NSIG)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}))
CONNECT_S = 5.0


class Init:
    """The loop."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.programs: dict[int, int] = {}
        self.wake, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Serve until the daemon is gone."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        self.say({"event": "ready"})
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.wake:
                    self.reap()
                elif not self.request():
                    return

    def request(self) -> bool:
        """Serve one request; no, when there will be none any more."""
        data, descriptors, _, _ = socket.recv_fds(self.control, 16, 8, socket.MSG_CMSG_CLOEXEC)
        if not data or not descriptors:
            return False
        try:
            asked = json.loads(os.pread(descriptors[0], REQUEST_BYTES, 0))
            self.serve(asked, descriptors[1:])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def serve(self, asked: dict[str, Any], descriptors: list[int]) -> None:
        """Do what is asked, and say how it went."""
        number = asked["number"]
        try:
            if asked["ask"] == "exec":
                self.start(asked, descriptors)
            elif asked["ask"] == "listen":
                self.lend(number, self.listener(asked["address"], asked["port"]))
            elif asked["ask"] == "connect":
                self.lend(number, self.connection(asked["address"], asked["port"]))
        except OSError as error:
            self.say({"event": "failed", "number": number, "errno": error.errno or errno.EIO, "text": error.strerror or str(error)})

    def say(self, told: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Answer."""
        socket.send_fds(self.control, [json.dumps(told).encode()], descriptors)

    def lend(self, number: int, lent: socket.socket) -> None:
        """Hand over a socket of this network."""
        with lent:
            self.say({"event": "descriptor", "number": number}, (lent.fileno(),))

    @staticmethod
    def listener(address: str, port: int) -> socket.socket:
        """Return a socket that listens in the guest's network."""
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(128)
        return made

    @staticmethod
    def connection(address: str, port: int) -> socket.socket:
        """Return a connection to a service of the guest."""
        return socket.create_connection((address, port), CONNECT_S)

    def start(self, asked: dict[str, Any], descriptors: list[int]) -> None:
        """Start a program."""
        env = {os.fsencode(key): os.fsencode(value) for key, value in asked["env"].items()}
        argv = [os.fsencode(word) for word in asked["argv"]]
        master = -1
        os.chdir(asked["cwd"])
        try:
            path = found(argv[0], env.get(b"PATH", b""))
            if asked["tty"]:
                pid, master = on_terminal(path, argv, env, asked["size"])
            else:
                actions = [(os.POSIX_SPAWN_DUP2, descriptor, target) for target, descriptor in enumerate(descriptors)]
                pid = os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigdef=SIGNALS)
        finally:
            os.chdir("/")
        self.programs[pid] = asked["number"]
        self.say({"event": "started", "number": asked["number"], "pid": pid}, (master,) if master >= 0 else ())
        if master >= 0:
            os.close(master)

    def reap(self) -> None:
        """Take every child that ended, and tell of those that were asked for."""
        try:
            while os.read(self.wake, 512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if number := self.programs.pop(pid, 0):
                code = os.waitstatus_to_exitcode(status)
                self.say({"event": "exited", "number": number, "code": code if code >= 0 else 128 - code})


def found(program: bytes, path: bytes) -> bytes:
    """Return the file of a program.

    Raises:
        OSError: There is none.
    """
    if b"/" in program:
        return program
    for directory in path.split(b":"):
        candidate = directory + b"/" + program
        if directory and os.access(candidate, os.X_OK):
            return candidate
    raise FileNotFoundError(errno.ENOENT, "executable file not found in $PATH")


def on_terminal(path: bytes, argv: list[bytes], env: dict[bytes, bytes], size: list[int]) -> tuple[int, int]:
    """Start a program on a terminal of its own; return its number and the terminal's other end."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[0], size[1], 0, 0))
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for target in range(3):
                os.dup2(slave, target)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.execve(path, argv, env)  # noqa: S606 - without a shell, as it has to be
        finally:
            os._exit(127)
    os.close(slave)
    return pid, master


def main() -> None:
    """Run from the command line: the descriptor of the daemon's channel."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for number in SIGNALS:
        if number != signal.SIGCHLD:
            signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    Init(control).run()


if __name__ == "__main__":
    main()
