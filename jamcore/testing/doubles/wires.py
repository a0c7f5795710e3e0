"""A line client and the other side of it, over real pipes, for tests."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from jamcore.domain.errors import JamError
from jamcore.plugins.jsonrpc import LineClient
from jamcore.system.pipes import PipeReader, PipeWriter


@dataclass
class Peer:
    """The other side: three pipes, written and read by the test."""

    stdin: PipeReader
    stdout: PipeWriter
    stderr: PipeWriter
    heard: bytearray = field(default_factory=bytearray)

    async def says(self, *messages: object) -> None:
        """Write messages, or bytes as they are."""
        for message in messages:
            await self.stdout.send(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    async def hears(self) -> dict[str, Any]:
        """Read the next message."""
        while b"\n" not in self.heard:
            self.heard += await self.stdin.receive()
        line, _, rest = bytes(self.heard).partition(b"\n")
        self.heard = bytearray(rest)
        message: dict[str, Any] = json.loads(line)
        return message

    async def dies(self) -> None:
        """Close everything."""
        for stream in (self.stdin, self.stdout, self.stderr):
            await stream.aclose()


@dataclass
class Log:
    """What the client told its owner."""

    notified: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    ended: list[JamError] = field(default_factory=list)
    end: anyio.Event = field(default_factory=anyio.Event)

    async def note(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification."""
        self.notified.append((method, params))

    async def over(self, error: JamError) -> None:
        """Take the end."""
        self.ended.append(error)
        self.end.set()


@dataclass
class Wire:
    """A client, not yet entered, its peer and its log."""

    client: LineClient
    peer: Peer
    log: Log


MakeWire = Callable[..., Wire]


@asynccontextmanager
async def making_wires() -> AsyncIterator[MakeWire]:
    """Yield a maker of wires; their pipes are closed at the end."""
    async with AsyncExitStack() as stack:

        def make(**options: Any) -> Wire:
            (in_r, in_w), (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe(), os.pipe()
            streams = PipeWriter(in_w), PipeReader(out_r), PipeReader(err_r)
            peer = Peer(PipeReader(in_r), PipeWriter(out_w), PipeWriter(err_w))
            for stream in (*streams, peer.stdin, peer.stdout, peer.stderr):
                stack.push_async_callback(stream.aclose)
            log = Log()
            client = LineClient(*streams, **{"provider": "sample", "notified": log.note, "ended": log.over, **options})
            return Wire(client, peer, log)

        yield make
