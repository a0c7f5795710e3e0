"""The process above a program: it starts it, adopts whatever the program orphans, reaps, and reports. Standard library only.

An adopter waits for a request, serves it until nothing is left below it, and waits for the next one, so that starting a program costs
one ``vfork`` and no copy of an interpreter. It is not dumpable, as process 1: the guest can kill it, not look into it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import termios
from collections.abc import Callable, Iterable
from typing import NoReturn

from jamcore.engines.supervised.guest.frames import REQUEST_BYTES, Request, receive

STARTED, FAILED, EXITED, FINISHED, GONE = b"P", b"E", b"X", b"Z", b"D"
"""What an adopter tells process 1, with a number: pid, errno, wait status, wait status and nothing is left, nothing is left."""

SIGNALS = tuple(sorted(set(range(1, signal.NSIG)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}))
"""Every signal that can be set to its default; 32 and 33 belong to the C library."""


def serve(channel: socket.socket) -> NoReturn:
    """Serve requests until process 1 closes the channel."""
    os.umask(0o022)
    while True:
        data, descriptors = receive(channel, 1)
        if not data:
            os._exit(0)
        leader = 0
        try:
            leader = start(_read(descriptors[0]), descriptors[1:])
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            channel.send(FAILED + b"%d" % (number or errno.EINVAL))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            os.chdir("/")
        if leader:
            channel.send(STARTED + b"%d" % leader)
            reap(channel, leader)


def reap(channel: socket.socket, leader: int) -> None:
    """Reap until nothing is left below, and say when the program itself ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            channel.send(GONE + b"0")
            return
        if pid != leader:
            continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            channel.send(FINISHED + b"%d" % status)
            return
        channel.send(EXITED + b"%d" % status)


def start(request: Request, streams: list[int]) -> int:
    """Start a program and return its pid.

    Raises:
        OSError: Why it could not be started.
    """
    os.chdir(request.cwd)
    env = dict(entry.split(b"=", 1) for entry in request.env)
    launch = _on_terminal if request.terminal else _on_pipes
    return _first(_places(request.argv[0], env.get(b"PATH", b"")), lambda path: launch(path, request.argv, env, streams))


def _read(descriptor: int) -> Request:
    size = os.fstat(descriptor).st_size
    if size > REQUEST_BYTES:
        raise OSError(errno.E2BIG, "")
    return Request.decode(os.pread(descriptor, size, 0))


def _places(program: bytes, path: bytes) -> Iterable[bytes]:
    if b"/" in program:
        return (program,)
    candidates = (directory + b"/" + program for directory in path.split(b":") if directory)
    return (candidate for candidate in candidates if os.path.exists(candidate))


def _first(paths: Iterable[bytes], launch: Callable[[bytes], int]) -> int:
    """Start the first that can be started, as ``execvp`` does: a forbidden one is remembered, an absent one is not."""
    refused = OSError(errno.ENOENT, "")
    for path in paths:
        try:
            return launch(path)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            if refused.errno == errno.ENOENT:
                refused = error
    raise refused


def _on_pipes(path: bytes, argv: list[bytes], env: dict[bytes, bytes], streams: list[int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, descriptor, target) for target, descriptor in enumerate(streams)]
    return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigdef=SIGNALS)


def _on_terminal(path: bytes, argv: list[bytes], env: dict[bytes, bytes], streams: list[int]) -> int:
    """Start a program whose controlling terminal is its one stream; only a child itself can ask for that."""
    failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
            for target in range(3):
                os.dup2(streams[0], target)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.execve(path, argv, env)
        except OSError as error:
            os.write(failed_write, b"%d" % (error.errno or errno.EINVAL))
        finally:
            os._exit(127)
    os.close(failed_write)
    failure = os.read(failed_read, 16)
    os.close(failed_read)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), "")
    return pid
