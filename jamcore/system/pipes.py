"""Byte streams over file descriptors of pipes, PTYs and socket pairs, for anyio.

Each stream owns its descriptor. Reads take what is there (large chunks), writes wait for room, nothing is buffered here: a slow
reader slows the writer down through the kernel.
"""

from __future__ import annotations

import errno
import os

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

CHUNK_BYTES = 1 << 18
"""One read: a pipe holds 64 KiB by default and 1 MiB at most, so larger reads would only cost memory."""


class PipeReader(ByteReceiveStream):
    """The reading end of a pipe or PTY."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._ended = False

    async def receive(self, max_bytes: int = CHUNK_BYTES) -> bytes:
        """Return the next bytes, at most ``max_bytes``.

        Raises:
            anyio.EndOfStream: Every writer has closed its end.
            anyio.ClosedResourceError: This end was closed.
        """
        if max_bytes < 1:
            raise ValueError("max_bytes must be positive")
        await anyio.lowlevel.checkpoint_if_cancelled()
        while True:
            if self._descriptor < 0:
                raise anyio.ClosedResourceError
            if self._ended:
                raise anyio.EndOfStream
            try:
                data = os.read(self._descriptor, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._descriptor)
                continue
            except OSError as error:
                # A PTY master answers EIO, a reset socket ECONNRESET, when the other side has gone.
                if error.errno not in {errno.EIO, errno.ECONNRESET}:
                    raise anyio.BrokenResourceError from error
                data = b""
            if data:
                await anyio.lowlevel.cancel_shielded_checkpoint()
                return data
            self._ended = True

    async def aclose(self) -> None:
        """Close the descriptor; a waiting read ends with ``ClosedResourceError``."""
        self.close()
        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the descriptor at once. Idempotent."""
        self._descriptor = _close(self._descriptor)


class PipeWriter(ByteSendStream):
    """The writing end of a pipe or PTY. Closing it is the half-close that the other side reads as the end."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def send(self, item: bytes) -> None:
        """Write all bytes, waiting for room as long as it takes.

        Raises:
            anyio.BrokenResourceError: Nobody reads any more.
            anyio.ClosedResourceError: This end was closed.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        rest = memoryview(item)
        while rest:
            if self._descriptor < 0:
                raise anyio.ClosedResourceError
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._descriptor)
            except OSError as error:
                raise anyio.BrokenResourceError from error
        await anyio.lowlevel.cancel_shielded_checkpoint()

    async def aclose(self) -> None:
        """Close the descriptor; a waiting write ends with ``ClosedResourceError``."""
        self.close()
        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the descriptor at once. Idempotent."""
        self._descriptor = _close(self._descriptor)


def _close(descriptor: int) -> int:
    if descriptor >= 0:
        anyio.notify_closing(descriptor)
        os.close(descriptor)
    return -1
