"""Byte streams over descriptors: exact, in order, and nothing is buffered here, so a slow side holds the other."""

from __future__ import annotations

import os

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

CHUNK = 1 << 16


class _Descriptor:
    """A descriptor that is closed once, also while somebody waits for it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor

    @property
    def descriptor(self) -> int:
        if self._descriptor is None:
            raise anyio.ClosedResourceError
        return self._descriptor

    async def aclose(self) -> None:
        """Close it."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            anyio.notify_closing(descriptor)
            os.close(descriptor)


class Reader(_Descriptor, ByteReceiveStream):
    """What a program writes."""

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        """Return what is there, or wait for it."""
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                data = os.read(self.descriptor, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self.descriptor)
                continue
            except OSError as error:  # a terminal whose other side is closed
                raise anyio.EndOfStream from error
            if not data:
                raise anyio.EndOfStream
            return data


class Writer(_Descriptor, ByteSendStream):
    """What a program reads; closing it is the end of its input."""

    async def send(self, item: bytes) -> None:
        """Write all of it, as fast as it is read."""
        await anyio.lowlevel.checkpoint()
        left = memoryview(item)
        while left:
            try:
                left = left[os.write(self.descriptor, left[:CHUNK]) :]
            except BlockingIOError:
                await anyio.wait_writable(self.descriptor)
            except OSError as error:
                raise anyio.BrokenResourceError from error
