"""A relay between a guest, spoken to byte by byte, and a real server on the loopback, for tests."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from aiohttp import web

from jamcore.domain.plan import ModelEndpoint
from jamcore.egress.decisions import RelayDecision, log_decision
from jamcore.egress.relay import Relay, RelayCredential, RelayLimits

SECRET = "sk-live-0123456789abcdefghijklmnop"  # noqa: S105 - opens nothing
CREDENTIAL = RelayCredential(header="authorization", value=f"Bearer {SECRET}")
PATHS = ("GET /v1/models", "POST /v1/messages?beta=true&v=2", "POST /v1/responses")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Changes:
    """Lets a test wait until something that it looks at has become true."""

    def __init__(self) -> None:
        self._next = anyio.Event()

    def notify(self) -> None:
        """Say that something changed."""
        self._next.set()
        self._next = anyio.Event()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait, for five seconds at most."""
        with anyio.fail_after(5):
            while not true():
                await self._next.wait()


@dataclass
class Upstream:
    """A real server on the loopback that remembers what it was asked; ``answer`` is what it does."""

    origin: str = ""
    answer: Answer | None = None
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    open: int = 0
    changes: Changes = field(default_factory=Changes)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Note the request and answer it."""
        self.open += 1
        self.changes.notify()
        try:
            if self.answer is not None:
                return await self.answer(request)
            body = await request.read()
            self.requests.append((request.method, request.raw_path, {k.lower(): v for k, v in request.headers.items()}, body))
            return web.json_response({"ok": True})
        finally:
            self.open -= 1
            self.changes.notify()


@dataclass
class Guest:
    """One connection of a guest, spoken to in bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Write bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request and read one answer."""
        await self.send(data)
        return await self.read()

    async def read(self) -> tuple[int, dict[str, str], bytes]:
        """Read one answer to its end."""
        status, headers = await self.read_head()
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while (chunk := await self.read_chunk()) != b"":
                body += chunk
            return status, headers, body
        return status, headers, await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def read_head(self) -> tuple[int, dict[str, str]]:
        """Read status and headers."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        return int(lines[0].split()[1]), {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)}

    async def read_chunk(self) -> bytes:
        """Read one chunk."""
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]


@dataclass
class Rig:
    """A relay before an upstream, and guests on connected sockets."""

    relay: Relay
    upstream: Upstream
    decisions: list[RelayDecision]
    guests: list[Guest] = field(default_factory=list)

    async def guest(self) -> Guest:
        """Connect as the engine does it: one end is handed over, already connected."""
        mine, theirs = socket.socketpair()
        for end in (mine, theirs):
            end.setblocking(False)
        self.relay.accept(theirs)
        self.guests.append(Guest(*await asyncio.open_connection(sock=mine, limit=1 << 20)))
        return self.guests[-1]


@asynccontextmanager
async def serving(answer: Answer | None = None, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """Yield a server that runs; with ``tls``, behind it."""
    upstream = Upstream(answer=answer)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{tail:.*}", upstream.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    upstream.origin = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield upstream
    finally:
        await runner.cleanup()


@asynccontextmanager
async def rig(
    answer: Answer | None = None,
    *,
    credential: RelayCredential | None = CREDENTIAL,
    limits: RelayLimits | None = None,
    origin: str | None = None,
    tls: ssl.SSLContext | None = None,
    prefix: str = "",
) -> AsyncIterator[Rig]:
    """Yield a relay with a server behind it and a guest before it."""
    decisions: list[RelayDecision] = []
    async with serving(answer, tls=tls) as upstream:
        endpoint = ModelEndpoint(origin=origin or upstream.origin, paths=PATHS, credential="test")

        def decided(decision: RelayDecision) -> None:
            decisions.append(decision)
            upstream.changes.notify()
            log_decision(decision)

        async with Relay.open(endpoint, credential=credential, limits=limits, decided=decided, prefix=prefix) as relay:
            made = Rig(relay, upstream, decisions)
            try:
                yield made
            finally:
                for guest in made.guests:
                    guest.writer.close()


def post(body: bytes = b"{}", *, target: str = "/v1/responses", method: str = "POST", extra: str = "") -> bytes:
    """Return a whole request as a guest would send it."""
    return f"{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:8790\r\ncontent-length: {len(body)}\r\n{extra}\r\n".encode() + body


def code_of(body: bytes) -> str:
    """Return the code of an error that a relay made, whose shape is the endpoint's own."""
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return str(error["code"])
