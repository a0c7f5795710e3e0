"""HTTP/1.1 over a Unix socket: what the typed client needs and no more.

One request per connection. aiohttp's client would do it too, but costs 150 ms of imports at the start of every command; this costs what
anyio costs. The other side is always Jam's own server, so anything unusual is an error and never guessed at.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from jamcore.control.failures import ConnectionDroppedError

HEAD_BYTES = 64 << 10
"""Status line and headers of an answer; aiohttp's own limit for one header is 8 KiB."""
ANSWER_BYTES = 256 << 20
"""Largest answer: a change request's patch is at most 64 MiB, escaped as JSON."""
CONNECT_S = 5.0
"""A Unix socket connects at once, unless the daemon is so busy that its queue is full."""

_BROKEN = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    ConnectionError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``target`` is percent-encoded."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def line(self) -> str:
        """Method and path, for error messages."""
        return f"{self.method} {self.target.partition('?')[0]}"

    def head(self) -> bytes:
        """Return the request line and headers."""
        fields = {"Host": "jam", "Connection": "close", "Content-Length": str(len(self.body)), **self.headers}
        lines = (f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", "")
        return "\r\n".join(lines).encode("ascii")


class Answer:
    """An answer whose head has arrived."""

    def __init__(self, status: int, headers: Mapping[str, str], stream: BufferedByteReceiveStream, request: Request) -> None:
        self.status = status
        self.headers = headers
        self._stream = stream
        self._request = request

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            ConnectionDroppedError: It did not arrive whole, or is longer than :data:`ANSWER_BYTES`.
        """
        data = bytearray()
        async for chunk in self.chunks():
            data += chunk
            if len(data) > ANSWER_BYTES:
                raise ConnectionDroppedError(request=self._request.line, reason="the answer is too long")
        return bytes(data)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives; ends only when it has arrived whole.

        Raises:
            ConnectionDroppedError: The connection ended before.
        """
        try:
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                while size := _size(await self._stream.receive_until(b"\r\n", 64), 16):
                    yield await self._stream.receive_exactly(size)
                    await self._stream.receive_exactly(2)
            elif size := _size(self.headers["content-length"].encode(), 10):
                yield await self._stream.receive_exactly(size)
        except KeyError:
            raise ConnectionDroppedError(request=self._request.line, reason="the answer has no length") from None
        except _BROKEN as error:
            raise ConnectionDroppedError(request=self._request.line, reason=type(error).__name__) from error


async def connect(path: Path) -> SocketStream:
    """Connect to the socket.

    Raises:
        OSError: Nobody listens, or not within :data:`CONNECT_S`.
    """
    with anyio.fail_after(CONNECT_S):
        return await anyio.connect_unix(path)


def raw_socket(stream: SocketStream) -> socket.socket:
    """Return the socket below a stream, to ask who is at the other end."""
    return stream.extra(SocketAttribute.raw_socket)


@asynccontextmanager
async def exchange(stream: SocketStream, request: Request) -> AsyncIterator[Answer]:
    """Send a request, yield the answer, and close the connection at the end of the block.

    Raises:
        ConnectionDroppedError: No answer arrived.
    """
    async with stream:
        # A refusal may arrive, and the other side close, before a long body has been read: the answer is what counts.
        with suppress(anyio.BrokenResourceError, ConnectionError):
            await stream.send(request.head() + request.body)
        buffered = BufferedByteReceiveStream(stream)
        try:
            head = await buffered.receive_until(b"\r\n\r\n", HEAD_BYTES)
            status, headers = _parse(head)
        except _BROKEN as error:
            raise ConnectionDroppedError(request=request.line, reason=type(error).__name__) from error
        yield Answer(status, headers, buffered, request)


def _size(text: bytes, base: int) -> int:
    """Return a size; ``int`` alone would accept signs, spaces and underscores."""
    if not text.isalnum():
        raise ValueError("no size")
    return int(text, base)


def _parse(head: bytes) -> tuple[int, dict[str, str]]:
    first, *rest = head.decode("latin-1").split("\r\n")
    protocol, code, *_ = first.split(" ", 2)
    if not protocol.startswith("HTTP/1."):
        raise ValueError(first)
    fields = (line.partition(":") for line in rest)
    return int(code), {name.strip().lower(): value.strip() for name, _, value in fields}
