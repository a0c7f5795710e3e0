"""Who is at the other end of a Unix socket, in the kernel's words (SEC-6)."""

from __future__ import annotations

import socket
import struct

_UCRED = struct.Struct("3i")


def peer_uid(connection: socket.socket) -> int | None:
    """Return the uid of the process at the other end, or ``None`` where the system cannot tell."""
    found = _peer(connection)
    return None if found is None else found[1]


def peer_pid(connection: socket.socket) -> int | None:
    """Return the pid of the process that listens at the other end, or ``None`` where the system cannot tell."""
    found = _peer(connection)
    return None if found is None else found[0] or None


def _peer(connection: socket.socket) -> tuple[int, int] | None:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _UCRED.size))
    return int(pid), int(uid)
