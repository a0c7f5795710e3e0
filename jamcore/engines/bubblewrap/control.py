"""The host's end of the control socket: frames and descriptors out, frames in (SEC-5)."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from typing import Any

import anyio

VERSION = 1
FRAME_BYTES = 1 << 20
"""The longest frame in either direction; Linux accepts at most 2 MiB of arguments, and plans bound the environment."""


class ControlLost(Exception):  # noqa: N818 - not an error of Jam's: the sandbox's end, seen from here
    """The sandbox's end of the socket is gone."""


class Control:
    """Sends requests and hands incoming messages on. One reader; writes are serialised."""

    def __init__(self, end: socket.socket, on_message: Callable[[dict[str, Any]], None]) -> None:
        end.setblocking(False)
        self._socket = end
        self._on_message = on_message
        self._writing = anyio.Lock()

    async def send(self, message: dict[str, object], descriptors: Sequence[int] = ()) -> None:
        """Send one frame; the descriptors travel with its first byte and stay the caller's.

        Raises:
            ControlLost: Nobody is there any more.
            ValueError: The frame would be longer than the bound.
        """
        data = json.dumps({**message, "fds": len(descriptors)}).encode()
        if len(data) > FRAME_BYTES:
            raise ValueError(f"a frame of {len(data)} bytes, at most {FRAME_BYTES} are possible")
        view = memoryview(len(data).to_bytes(4, "big") + data)
        async with self._writing:
            # Once begun a frame is sent whole, or the stream would be nonsense; the guest's init always reads.
            with anyio.CancelScope(shield=True):
                await self._write(view, descriptors)

    async def _write(self, view: memoryview, descriptors: Sequence[int]) -> None:
        while view:
            try:
                sent = socket.send_fds(self._socket, [view], descriptors) if descriptors else self._socket.send(view)
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
                continue
            except OSError as error:
                raise ControlLost from error
            view, descriptors = view[sent:], ()

    async def read(self) -> None:
        """Hand on every message until the other end is gone. Nonsense ends it too: the guest cannot write here, so it is a fault."""
        pending = b""
        while True:
            try:
                await anyio.wait_readable(self._socket)
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                continue
            except (OSError, anyio.ClosedResourceError):
                return
            if not data:
                return
            pending += data
            while len(pending) >= 4 and len(pending) >= 4 + (size := int.from_bytes(pending[:4], "big")):
                if size > FRAME_BYTES:
                    return
                message = json.loads(pending[4 : 4 + size])
                pending = pending[4 + size :]
                self._on_message(message)

    def close(self) -> None:
        """Close this end: the sandbox ends itself when it sees that."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
