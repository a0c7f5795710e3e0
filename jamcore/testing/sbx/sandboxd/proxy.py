"""The daemon's proxy, the only way out of a sandbox: plain HTTP is forwarded, CONNECT is carried, policy is asked every time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration
from jamcore.testing.sbx.sandboxd.rules import HOST, Decision, Policy

HEAD_BYTES = 1 << 17
"""The longest head of a request; it is the limit of the streams that are handed in."""
HEAD_S = 60.0
CONNECT_S = 10.0
CHUNK = 1 << 16
CONNECTIONS = 256

Swap = Callable[[str, str], str]
"""Puts secrets in place of placeholders: host and header's value to value."""


class Proxy:
    """The proxy of one sandbox."""

    def __init__(self, sandbox: str, policy: Policy, told: Callable[[], Configuration], gates: Gates, swap: Swap) -> None:
        self.sandbox = sandbox
        self.policy = policy
        self.told = told
        self.gates = gates
        self.swap = swap
        self.room = asyncio.Semaphore(CONNECTIONS)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        async with self.room:
            try:
                with suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                    async with asyncio.timeout(HEAD_S):
                        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    await self._request(head, reader, writer)
            finally:
                writer.close()

    async def _request(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.split("\r\n", 1)[0].split(" ", 2)
        if method == "CONNECT":
            host, _, number = target.rpartition(":")
            port, sent = int(number), b""
        else:
            url = urlsplit(target)
            host, port = url.hostname or "", url.port or 80
            sent = self._rewritten(head, host, url.path or "/", url.query)
        decision = self.policy.decide(self.told(), f"sandbox:{self.sandbox}", host, port)
        self.policy.note(self.sandbox, f"{host}:{port}", decision, "forward")
        if not decision.allowed:
            await self._answer(writer, "403 Forbidden", self.blocked(host, port, decision))
            return
        try:
            there, back = await asyncio.wait_for(self._connect(host, port), CONNECT_S)
        except (OSError, TimeoutError) as error:
            await self._answer(writer, "502 Bad Gateway", f"cannot reach {host}:{port}: {error}\n")
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back.write(sent)
        await carry(reader, writer, there, back)

    def blocked(self, host: str, port: int, decision: Decision) -> str:
        """Return what the guest reads (``net.blocked``)."""
        if decision.origin == "org":
            return f"Blocked by org policy for {host}\n"
        if decision.explicit:
            return f"Blocked by local rule for {host}\nrule: {decision.rule}\norigin: local\n"
        if self.gates("net.blocked-approval"):
            return f"Approval required for {host}:{port}.\n\nReview and respond with:\n  sbx policy approval ls\n"
        return f"Blocked by network policy: domain {host}:{port}\n{decision.reason}\n"

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        world = self.told().world
        if found := world.get(f"{host}:{port}") or world.get(host):
            host, _, number = found.rpartition(":")
            port = int(number)
        elif host == HOST:
            host = "127.0.0.1"
        return await asyncio.open_connection(host, port)

    def _rewritten(self, head: str, host: str, path: str, query: str) -> bytes:
        """Return a request's head for the server itself, with secrets in place of placeholders and an end of the connection."""
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        method, _, version = first.split(" ", 2)
        upgrade = any(line.lower().startswith("upgrade:") for line in lines)
        kept = [f"{method} {path}{'?' if query else ''}{query} {version}"]
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower().startswith("proxy-") or (name.lower() == "connection" and not upgrade):
                continue
            kept.append(f"{name}:{self.swap(host, value)}")
        if not upgrade:
            kept.append("Connection: close")
        return ("\r\n".join(kept) + "\r\n\r\n").encode("latin-1")

    @staticmethod
    async def _answer(writer: asyncio.StreamWriter, status: str, body: str) -> None:
        data = body.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()


async def carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader, back: asyncio.StreamWriter
) -> None:
    """Carry bytes both ways until the server's side ends, or both do."""
    upwards = asyncio.ensure_future(_copy(reader, back))
    try:
        await _copy(there, writer)
    finally:
        upwards.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await upwards
        back.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
