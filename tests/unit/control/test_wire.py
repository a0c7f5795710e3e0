"""The client's HTTP: anything unusual is an error and never guessed at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st

from jamcore.control.failures import ConnectionDroppedError
from jamcore.control.sse import ServerEvent, read_events
from jamcore.control.wire import Request, connect, exchange

pytestmark = pytest.mark.anyio

REQUEST = Request("GET", "/x?y=1", {"A": "b"})


@asynccontextmanager
async def answering(path: Path, pieces: Sequence[bytes]) -> AsyncIterator[Path]:
    """A server that reads a request's head and then sends these bytes."""

    async def handle(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            for piece in pieces:
                await stream.send(piece)

    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield path
        tasks.cancel_scope.cancel()


async def read(path: Path) -> tuple[int, bytes]:
    async with exchange(await connect(path), REQUEST) as answer:
        return answer.status, await answer.read()


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 204 \r\ncontent-length:0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nA\r\n0123456789\r\n0\r\n\r\n", b"hi0123456789"),
    ],
)
async def test_whole_answers_are_read(tmp_path: Path, answer: bytes, body: bytes) -> None:
    """Also when every byte arrives alone."""
    for pieces in ([answer], [bytes([byte]) for byte in answer]):
        async with answering(tmp_path / f"s{len(pieces)}", pieces) as path:
            assert (await read(path))[1] == body


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Len",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nno length",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * (65 << 10),
    ],
)
async def test_broken_answers_are_a_typed_error(tmp_path: Path, answer: bytes) -> None:
    """Cut at any place, or not HTTP at all."""
    async with answering(tmp_path / "s", [answer]) as path:
        with pytest.raises(ConnectionDroppedError) as dropped:
            await read(path)
    assert dropped.value.request == "GET /x"


async def feed(data: bytes, size: int) -> list[ServerEvent]:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    return [event async for event in read_events(chunks())]


STREAM = (
    'id: 1\nevent: event\ndata: {"a": "é"}\n\n: heartbeat\n\nid: 2\nevent: event\ndata: {}\n\nevent: end\ndata: {}\n\nid: 3\nda'
)


@given(size=st.integers(min_value=1, max_value=200))
def test_events_do_not_depend_on_how_they_arrive(size: int) -> None:
    """Whatever the sizes of the chunks, also within a character; comments and a cut event are dropped."""
    seen = anyio.run(feed, STREAM.encode(), size)
    assert [(event.kind, event.data, event.id) for event in seen] == [
        ("event", '{"a": "é"}', 1),
        ("event", "{}", 2),
        ("end", "{}", None),
    ]


async def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded."""
    monkeypatch.setattr("jamcore.control.sse.EVENT_BYTES", 1000)
    with pytest.raises(ValueError, match="too long"):
        await feed(b"data: " + b"x" * 5000, 100)
