"""The host's end of REACH: connections of the guest arrive as sockets that are already connected (SEC-4)."""

from __future__ import annotations

import socket
from collections.abc import Callable

import anyio
import structlog

from jamcore.engines.bubblewrap.names import ENGINE

Accept = Callable[[socket.socket], None]


async def hand_over(relay: socket.socket, accept: dict[int, Accept]) -> None:
    """Answer the forwarder until the sandbox ends.

    For each connection in the guest one end of a fresh pair goes there, and the other to whoever takes the port. A port that nobody
    takes is closed at once.
    """
    relay.setblocking(False)
    while True:
        try:
            await anyio.wait_readable(relay)
            data = relay.recv(16)
        except BlockingIOError:
            continue
        except (OSError, anyio.ClosedResourceError):
            return
        if not data:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(relay, [data[2:] or b"-"], [theirs.fileno()])
            except OSError:  # the forwarder has ended; process 1 starts another, which asks again
                ours.close()
                continue
        _take(ours, int.from_bytes(data[:2], "big"), accept)


def _take(connection: socket.socket, port: int, accept: dict[int, Accept]) -> None:
    connection.setblocking(False)
    taker = accept.get(port)
    if taker is None:
        connection.close()
        return
    try:
        taker(connection)
    except Exception:  # noqa: BLE001 - boundary: who takes a connection must not end the sandbox
        structlog.get_logger("jam.engine").exception("a connection could not be taken", engine=ENGINE, port=port)
        connection.close()
