"""What the host and process 1 say to each other: short frames of words, and the request of one program (SEC-5).

A frame is two bytes of length, big-endian, and that many bytes of text: a verb and three decimal numbers. Descriptors go from the host
to the guest only and travel with a frame's first byte; the last number says how many. A request holds a program's arguments and
environment and may be large, so it travels as a memory file that process 1 hands on unread.
"""

from __future__ import annotations

import array
import errno
import socket

VERSION = 2
FRAME_BYTES = 128
"""The longest frame: a verb and three numbers need far less. Anything longer is a fault and ends the sandbox."""
DESCRIPTORS = 4
"""The most descriptors of one frame: a request and three streams."""
REQUEST_BYTES = 4 << 20
"""The longest request: twice what Linux accepts as arguments and environment with the usual stack limit."""

EXEC, SIGNAL, KILL, FREEZE, THAW, PING = "exec", "signal", "kill", "freeze", "thaw", "ping"
"""What the host asks: the number is a signal for SIGNAL, else 0."""
HELLO, STARTED, FAILED, EXITED, GONE, FROZEN, THAWED, PONG = (
    "hello",
    "started",
    "failed",
    "exited",
    "gone",
    "frozen",
    "thawed",
    "pong",
)
"""What process 1 says: a version, a pid, an errno, a wait status, nothing, a count (-1: not still), nothing, a version."""

Frame = tuple[str, int, int, int]
"""Verb, id of the program or question, number, count of descriptors."""


def pack(verb: str, ident: int, number: int = 0, descriptors: int = 0) -> bytes:
    """Return a frame's bytes."""
    data = f"{verb} {ident} {number} {descriptors}".encode()
    return len(data).to_bytes(2, "big") + data


def unpack(pending: bytes) -> tuple[list[Frame], bytes]:
    """Return the whole frames at the beginning of a stream, and the rest.

    Raises:
        ValueError: It is no sequence of frames.
    """
    frames: list[Frame] = []
    while len(pending) >= 2:
        size = int.from_bytes(pending[:2], "big")
        if size > FRAME_BYTES:
            raise ValueError(f"a frame of {size} bytes")
        if len(pending) < 2 + size:
            break
        verb, ident, number, descriptors = pending[2 : 2 + size].decode("ascii").split(" ")
        if not 0 <= int(descriptors) <= DESCRIPTORS:
            raise ValueError(f"{descriptors} descriptors")
        frames.append((verb, int(ident), int(number), int(descriptors)))
        pending = pending[2 + size :]
    return frames, pending


def send_descriptors(end: socket.socket, data: bytes, descriptors: list[int]) -> None:
    """Send a short message with descriptors, without waiting for room.

    Raises:
        OSError: Nobody is there, or there is no room.
    """
    carried = array.array("i", descriptors)
    end.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, carried)], socket.MSG_DONTWAIT)


def receive(end: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive bytes and descriptors, which are closed in every program; the library's own ``recv_fds`` drops that flag.

    Raises:
        OSError: EBADMSG when there were more descriptors than :data:`DESCRIPTORS`; none is kept.
    """
    carried = array.array("i")
    data, ancillary, flags, _ = end.recvmsg(size, socket.CMSG_SPACE(DESCRIPTORS * carried.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            carried.frombytes(content[: len(content) - len(content) % carried.itemsize])
    descriptors = carried.tolist()
    if flags & socket.MSG_CTRUNC or len(descriptors) > DESCRIPTORS:
        for descriptor in descriptors:
            socket.close(descriptor)
        raise OSError(errno.EBADMSG, "descriptors were lost")
    return data, descriptors


class Request:
    """One program: its arguments, directory and environment, and whether its three streams are one terminal."""

    def __init__(self, argv: list[bytes], cwd: bytes, env: list[bytes], *, terminal: bool) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.terminal = terminal

    def encode(self) -> bytes:
        """Return the bytes that travel: fields that end with NUL, which none of them can hold.

        Raises:
            OSError: EINVAL for no program, a field with NUL or a variable without a name; E2BIG beyond :data:`REQUEST_BYTES`.
        """
        fields = [b"t" if self.terminal else b"p", b"%d" % len(self.argv), self.cwd, *self.argv, *self.env]
        if not self.argv or any(b"\0" in field for field in fields) or any(entry.find(b"=") < 1 for entry in self.env):
            raise OSError(errno.EINVAL, "no program, a NUL byte, or a variable without a name")
        data = b"\0".join([*fields, b""])
        if len(data) > REQUEST_BYTES:
            raise OSError(errno.E2BIG, "arguments and environment are too long")
        return data

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """Undo :meth:`encode`.

        Raises:
            ValueError: These are not its bytes.
        """
        kind, count, cwd, *rest = data.split(b"\0")[:-1]
        return cls(rest[: int(count)], cwd, rest[int(count) :], terminal=kind == b"t")
