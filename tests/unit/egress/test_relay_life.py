"""How a relay and its connections end, and what is said of them (SEC-4)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import statistics
import time
from pathlib import Path

import aiohttp
import anyio
import pytest
import structlog
from aiohttp import web
from structlog.testing import capture_logs

from jamcore.egress.decisions import Refused, RelayDecision, log_decision
from jamcore.egress.relay import RelayLimits
from jamcore.testing.relays import SECRET, code_of, post, rig

pytestmark = pytest.mark.anyio


async def test_a_guest_that_leaves_cancels_its_request() -> None:
    """In the middle of a stream and before the first byte: the endpoint sees the end at once."""

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        if request.method == "POST":
            await answer.prepare(request)
            await answer.write(b"data: 1\n\n")
        await asyncio.sleep(60)
        return answer

    async with rig(endless) as r:
        for method, target in (("POST", "/v1/responses"), ("GET", "/v1/models")):
            guest = await r.guest()
            await guest.send(post(b"", method=method, target=target))
            if method == "POST":
                await guest.read_head()
                await guest.read_chunk()
            await r.upstream.changes.until(lambda: r.upstream.open == 1)
            guest.writer.close()
            await r.upstream.changes.until(lambda: r.upstream.open == 0)
        await r.upstream.changes.until(lambda: len(r.decisions) == 2)
    assert [d.refused for d in r.decisions] == [Refused.CLIENT_GONE] * 2


async def test_an_endpoint_that_is_not_there_is_a_clear_error() -> None:
    """Refused connections, connections that break, answers that never begin, and no HTTP: each has its code."""

    async def silent(_request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async def broken(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with rig(origin=f"http://127.0.0.1:{taken.getsockname()[1]}") as r:
            status, _, body = await (await r.guest()).ask(post())
            assert (status, code_of(body)) == (502, "relay_upstream_unreachable")
    async with rig(silent, limits=RelayLimits(silence_s=0.2)) as r:
        status, _, body = await (await r.guest()).ask(post())
        assert (status, code_of(body)) == (504, "relay_upstream_timeout")
    async with rig(broken) as r:
        status, _, body = await (await r.guest()).ask(post())
        assert (status, code_of(body)) == (502, "relay_upstream_broken")
        assert SECRET.encode() not in body


@pytest.mark.guarantee("SEC-4")
async def test_a_certificate_that_is_not_trusted_gets_no_request() -> None:
    """TLS is verified: the credential is not sent to whoever answers at the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    data = Path(__file__).parent / "data"
    context.load_cert_chain(data / "untrusted.pem", data / "untrusted.key.pem")
    async with rig(tls=context) as r:
        status, _, body = await (await r.guest()).ask(post())
        assert (status, code_of(body)) == (502, "relay_upstream_untrusted")
        assert r.upstream.requests == []


async def test_too_many_open_requests_are_turned_away() -> None:
    """One more than the bound gets an answer at once; the others go on, and a place that is free again is used."""
    gate = anyio.Event()

    async def wait(_request: web.Request) -> web.Response:
        await gate.wait()
        return web.json_response({})

    async with rig(wait, limits=RelayLimits(concurrent=3)) as r:
        waiting = [await r.guest() for _ in range(3)]
        for guest in waiting:
            await guest.send(post())
        await r.upstream.changes.until(lambda: r.upstream.open == 3)
        status, _, body = await (await r.guest()).ask(post())
        assert (status, code_of(body)) == (503, "relay_busy")
        gate.set()
        assert [(await guest.read())[0] for guest in waiting] == [200] * 3
        assert (await waiting[0].ask(post()))[0] == 200


async def test_the_environments_proxy_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy variable of the daemon changes nothing."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with rig() as r:
        assert (await (await r.guest()).ask(post()))[0] == 200
    monkeypatch.undo()


async def test_a_connection_serves_many_requests_and_ends_with_the_relay() -> None:
    """Kept alive between requests; when the relay closes, open streams end and later sockets are closed."""

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"x")
        await asyncio.sleep(60)
        return answer

    async with rig() as r:
        guest = await r.guest()
        assert [(await guest.ask(post()))[0] for _ in range(5)] == [200] * 5
    assert await guest.reader.read() == b""
    began = anyio.current_time()
    async with rig(endless) as r:
        guest = await r.guest()
        await guest.send(post())
        await guest.read_head()
    assert anyio.current_time() - began < 4
    mine, theirs = socket.socketpair()
    r.relay.accept(theirs)
    assert mine.recv(1) == b""
    mine.close()


async def test_an_error_leaves_a_relay_as_itself() -> None:
    """Whoever opened it gets its own error, not a group of one."""

    async def fail() -> None:
        async with rig() as r:
            await (await r.guest()).ask(post())
            raise LookupError

    with pytest.raises(LookupError):
        await fail()


def test_a_guests_target_is_logged_bounded_and_escaped() -> None:
    """No control sequence of a guest reaches the log."""
    decision = RelayDecision("GET", "/\\x1b[31m", 404, None, Refused.PATH, 0, 0, 0.1)
    with capture_logs() as logs:
        log_decision(decision)
    assert logs[0]["path"] == "/\\x1b[31m"
    assert structlog.is_configured() in (True, False)


async def test_what_a_relay_adds_to_an_event_is_small() -> None:
    """The median over many events, sent on a clock: well below what a person or a model would notice."""
    rounds = 200

    async def stamps(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(rounds):
            await asyncio.sleep(0.001)
            await answer.write(f"{time.perf_counter():.7f}\n".encode())
        return answer

    async def direct(origin: str) -> float:
        async with aiohttp.ClientSession() as session, session.post(f"{origin}/v1/responses", data=b"{}") as answer:
            return statistics.median([time.perf_counter() - float(line) async for line in answer.content])

    async with rig(stamps) as r:
        plain = await direct(r.upstream.origin)
        guest = await r.guest()
        await guest.send(post())
        await guest.read_head()
        delays = []
        while chunk := await guest.read_chunk():
            delays.append(time.perf_counter() - float(chunk.splitlines()[-1]))
    added = (statistics.median(delays) - plain) * 1000
    print(f"relay adds {added:.3f} ms per event (direct {plain * 1000:.3f} ms)")
    assert added < 5  # a loaded machine; the aim is 1 ms
