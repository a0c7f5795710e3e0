"""What a guest gets back: the answer, bounded, without what it must not have, as it comes (SEC-4, ENV-4)."""

from __future__ import annotations

import asyncio
import json

import anyio
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from jamcore.egress.decisions import Refused
from jamcore.egress.relay import RelayLimits
from jamcore.testing.relays import CREDENTIAL, SECRET, code_of, post, rig

pytestmark = pytest.mark.anyio


@pytest.mark.guarantee("SEC-4")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304, 300])
async def test_no_redirect_is_followed_or_passed_on(status: int) -> None:
    """The guest gets a typed error without the place; nobody goes there."""

    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"location": f"http://{request.host}/v1/models?stolen"})

    async with rig(redirect) as r:
        got, headers, body = await (await r.guest()).ask(post())
        assert (got, code_of(body)) == (502, "relay_redirect_refused")
        assert "location" not in headers
        assert b"stolen" not in body
    assert [(d.upstream_status, d.refused) for d in r.decisions] == [(status, Refused.REDIRECT)]


async def test_answers_lose_what_a_guest_must_not_have() -> None:
    """Cookies, places, challenges; the status and ordinary headers stay, also of an error."""

    async def answer(_request: web.Request) -> web.Response:
        headers = {"set-cookie": "a=b", "location": "/x", "www-authenticate": "Bearer", "alt-svc": "h3", "x-request-id": "r1",
                   "retry-after": "7", "refresh": "0"}  # fmt: skip
        return web.json_response({"error": {"message": "slow down"}}, status=429, headers=headers)

    async with rig(answer) as r:
        status, headers, body = await (await r.guest()).ask(post())
        assert (status, json.loads(body)) == (429, {"error": {"message": "slow down"}})
        assert set(headers) == {"content-type", "content-length", "x-request-id", "retry-after", "server", "date"}


@pytest.mark.guarantee("ENV-4")
@pytest.mark.parametrize("split", range(1, len(SECRET), 5))
async def test_an_endpoint_that_echoes_the_credential_gives_it_to_nobody(split: int) -> None:
    """In a header, in one piece, or cut between two chunks: the guest never sees it, and no byte is lost or moved."""

    async def echo(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"x-echo": request.headers["authorization"]})
        await answer.prepare(request)
        for part in (f"you sent {SECRET[:split]}", f"{SECRET[split:]} and {SECRET[:4]}, {SECRET}", f" {SECRET[:split]}"):
            await answer.write(part.encode())
            await asyncio.sleep(0.01)
        return answer

    async with rig(echo) as r:
        with capture_logs() as logs:
            _, headers, body = await (await r.guest()).ask(post())
        stars = "*" * len(SECRET)
        assert body.decode() == f"you sent {stars} and {SECRET[:4]}, {stars} {SECRET[:split]}"
        assert "x-echo" not in headers
        assert SECRET not in repr((logs, r.decisions, CREDENTIAL, headers))
        assert [entry["event"] for entry in logs] == ["relay"]


@pytest.mark.guarantee("SEC-4")
async def test_a_request_body_is_bounded() -> None:
    """Said in advance: refused at once. Not said: cut off when it grows too large. Nothing of it counts as sent."""
    limits = RelayLimits(request_bytes=100_000)
    async with rig(limits=limits) as r:
        status, _, body = await (await r.guest()).ask(post(b"x" * 100_001))
        assert (status, code_of(body)) == (413, "relay_request_too_large")
        guest = await r.guest()
        await guest.send(b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(11):
            await guest.send(b"2710\r\n" + b"y" * 10_000 + b"\r\n")
        status, _, body = await guest.read()
        assert (status, code_of(body)) == (413, "relay_request_too_large")
        assert r.upstream.requests == []
        status, _, _ = await (await r.guest()).ask(post(b"z" * 100_000))
        assert status == 200
        assert len(r.upstream.requests[0][3]) == 100_000


async def test_large_bodies_pass_whole_in_both_directions() -> None:
    """Tens of MiB up and down, exact, without being held in memory at once."""
    body = bytes(range(256)) * (80 << 10)

    async def mirror(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async with rig(mirror) as r:
        guest = await r.guest()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(guest.send, post(body))
            status, _, answer = await guest.read()
        assert status == 200
        assert answer == body
    assert (r.decisions[0].bytes_up, r.decisions[0].bytes_down) == (len(body), len(body))


@pytest.mark.guarantee("SEC-4")
@pytest.mark.parametrize("said", [True, False])
async def test_an_answer_is_bounded(said: bool) -> None:
    """Said in advance: a typed error. Not said: the connection is cut, so that nobody takes the part for the whole."""

    async def flood(request: web.Request) -> web.StreamResponse:
        if said:
            return web.Response(body=b"x" * 200_000)
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(20):
            await answer.write(b"x" * 10_000)
        return answer

    async with rig(flood, limits=RelayLimits(response_bytes=100_000)) as r:
        guest = await r.guest()
        if said:
            status, _, body = await guest.ask(post())
            assert (status, code_of(body)) == (502, "relay_response_too_large")
        else:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
                await guest.ask(post())
    assert r.decisions[0].refused is Refused.RESPONSE_TOO_LARGE


async def test_events_stream_through_one_by_one() -> None:
    """Each event reaches the guest before the next one is sent, and the headers before the first."""
    release = [anyio.Event() for _ in range(4)]

    async def stream(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for number, gate in enumerate(release):
            await gate.wait()
            await answer.write(f"data: {number}\n\n".encode())
        return answer

    async with rig(stream) as r:
        guest = await r.guest()
        await guest.send(post())
        with anyio.fail_after(5):
            status, headers = await guest.read_head()
            assert (status, headers["content-type"]) == (200, "text/event-stream")
            for number, gate in enumerate(release):
                gate.set()
                assert await guest.read_chunk() == f"data: {number}\n\n".encode()
            assert await guest.read_chunk() == b""


async def test_a_cut_answer_is_cut_for_the_guest_too() -> None:
    """The endpoint's connection breaks in the middle: the guest does not read a proper end."""

    async def cut(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"data: half")
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with rig(cut) as r:
        guest = await r.guest()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            await guest.ask(post())
    assert [(d.status, d.refused) for d in r.decisions] == [(200, Refused.CUT)]
