"""The host's end of the control socket: frames and descriptors out, frames in (SEC-5)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import anyio

from jamcore.engines.supervised.guest import frames

OnFrame = Callable[[str, int, int], None]


class ControlLost(Exception):  # noqa: N818 - not an error of Jam's: the sandbox's end, seen from here
    """The sandbox's end of the socket is gone."""


class Control:
    """Sends requests and hands incoming frames on: verb, id, number. One reader; writes are serialised."""

    def __init__(self, end: socket.socket, on_frame: OnFrame) -> None:
        end.setblocking(False)
        self._socket = end
        self._on_frame = on_frame
        self._writing = anyio.Lock()

    async def send(self, verb: str, ident: int, number: int = 0, descriptors: Sequence[int] = ()) -> None:
        """Send one frame; the descriptors travel with its first byte and stay the caller's.

        Raises:
            ControlLost: Nobody is there any more.
        """
        view = memoryview(frames.pack(verb, ident, number, len(descriptors)))
        async with self._writing:
            # Once begun a frame is sent whole, or the stream would be nonsense; process 1 always reads.
            with anyio.CancelScope(shield=True):
                await self._write(view, descriptors)

    async def _write(self, view: memoryview, descriptors: Sequence[int]) -> None:
        while view:
            try:
                sent = socket.send_fds(self._socket, [view], descriptors) if descriptors else self._socket.send(view)
            except BlockingIOError:
                await self._writable()
                continue
            except OSError as error:
                raise ControlLost from error
            view, descriptors = view[sent:], ()

    async def _writable(self) -> None:
        try:
            await anyio.wait_writable(self._socket)
        except (OSError, ValueError, anyio.ClosedResourceError) as error:
            raise ControlLost from error

    async def read(self) -> None:
        """Hand on every frame until the other end is gone. Nonsense is a fault of process 1 and ends it too."""
        pending = b""
        while True:
            try:
                await anyio.wait_readable(self._socket)
                data = self._socket.recv(1 << 16)
                found, pending = frames.unpack(pending + data)
            except BlockingIOError:
                continue
            except (OSError, ValueError, anyio.ClosedResourceError):
                return
            for verb, ident, number, _ in found:
                self._on_frame(verb, ident, number)
            if not data:
                return

    def close(self) -> None:
        """Close this end: the sandbox ends itself when it sees that. Idempotent."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
