"""What a guest may ask: one endpoint, its listed targets, nothing smuggled; the credential is added outside (SEC-4, ENV-4)."""

from __future__ import annotations

import json

import anyio
import pytest

from jamcore.egress.decisions import Refused
from jamcore.testing.relays import SECRET, code_of, post, rig

pytestmark = pytest.mark.anyio


@pytest.mark.guarantee("SEC-4", "ENV-4")
async def test_a_listed_request_arrives_with_the_credential_and_without_the_guests_own() -> None:
    """Authorization, cookies, host, hop-by-hop, forwarding and overriding headers of the guest are dropped; the rest passes."""
    extra = (
        "Authorization: Bearer guest\r\nCookie: a=b\r\nX-Api-Key: guest\r\nProxy-Authorization: Basic x\r\nForwarded: for=1.2.3.4\r\n"
        "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: evil\r\nVia: 1.1 x\r\nX-HTTP-Method-Override: DELETE\r\nX-Original-URL: /admin\r\n"
        "Connection: keep-alive, X-Private\r\nX-Private: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\nX-Auth-Token: t\r\n"
        "Content-Type: application/json\r\nUser-Agent: guest/1\r\nsession-id: s1\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip\r\n"
    )
    async with rig() as r:
        status, headers, body = await (await r.guest()).ask(post(b'{"a":1}', extra=extra))
        assert (status, json.loads(body)) == (200, {"ok": True})
        method, path, seen, sent = r.upstream.requests[0]
        assert (method, path, sent) == ("POST", "/v1/responses", b'{"a":1}')
        assert seen == {
            "host": r.upstream.origin.removeprefix("http://"),
            "authorization": f"Bearer {SECRET}",
            "content-type": "application/json",
            "content-length": "7",
            "user-agent": "guest/1",
            "session-id": "s1",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
        }
        assert headers["server"] == "jam"
    decision = r.decisions[0]
    assert (decision.allowed, decision.status, decision.upstream_status, decision.refused) == (True, 200, 200, None)
    assert (decision.bytes_up, decision.bytes_down) == (7, 12)


async def test_without_a_credential_none_is_sent() -> None:
    """Not the guest's either."""
    async with rig(credential=None) as r:
        await (await r.guest()).ask(post(extra="authorization: Bearer guest\r\n"))
        assert "authorization" not in r.upstream.requests[0][2]


@pytest.mark.guarantee("SEC-4")
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/models"),
        ("GET", "/v1/responses"),
        ("DELETE", "/v1/responses"),
        ("POST", "/v1/responses/"),
        ("POST", "/v1//responses"),
        ("POST", "//v1/responses"),
        ("POST", "/v1/./responses"),
        ("POST", "/v1/x/../responses"),
        ("POST", "/v1/%72esponses"),
        ("POST", "/V1/responses"),
        ("POST", "/v1/responses%00"),
        ("POST", "/v1/responses;a=b"),
        ("POST", "http://evil.example/v1/responses"),
        ("POST", "https://127.0.0.1/v1/responses"),
        ("post", "/v1/responses"),
        ("CONNECT", "evil.example:443"),
        ("OPTIONS", "*"),
        ("GET", "/"),
        ("GET", "/v1/files"),
    ],
)
async def test_any_other_method_or_target_is_refused(method: str, target: str) -> None:
    """The pair is compared as it was sent; nothing is normalised into a match, and nothing arrives."""
    async with rig() as r:
        status, _, body = await (await r.guest()).ask(post(method=method, target=target))
        assert 400 <= status < 500
        assert r.upstream.requests == []
    if r.decisions:
        assert code_of(body) == Refused.PATH
        assert (r.decisions[0].allowed, r.decisions[0].refused) == (False, Refused.PATH)


@pytest.mark.guarantee("SEC-4")
async def test_a_query_is_refused() -> None:
    """Only what is listed, and no list holds a query."""
    async with rig() as r:
        for target in ("/v1/models?limit=1", "/v1/models?"):
            status, _, body = await (await r.guest()).ask(post(b"", method="GET", target=target))
            assert (status, code_of(body)) == ((404, "relay_query_refused") if target.endswith("1") else (status, code_of(body)))
        assert [call for call in r.upstream.requests if "?" in call[1]] == []


@pytest.mark.guarantee("SEC-4")
@pytest.mark.parametrize("extra", ["Upgrade: websocket\r\nConnection: Upgrade\r\n", "Expect: 100-continue\r\n"])
async def test_no_other_protocol_is_spoken(extra: str) -> None:
    """An upgrade would leave the relay's rules behind."""
    async with rig() as r:
        status, _, body = await (await r.guest()).ask(post(extra=extra))
        assert status == 400
        assert r.upstream.requests == []
        if body.startswith(b"{"):
            assert code_of(body) == "relay_upgrade_refused"


SMUGGLED = [
    (
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /admin HTTP/1.1\r\nhost: x\r\n\r\n"
    ),
    b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ncontent-length: 40\r\n\r\n{}{}",
    b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: +4\r\n\r\n{}{}",
    b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nx: a\r\n authorization: Bearer b\r\ncontent-length: 2\r\n\r\n{}",
    b"POST /v1/responses HTTP/1.1\nhost: x\ncontent-length: 2\n\n{}",
    b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nbad\r\n0\r\n\r\n",
    b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nna\x00me: x\r\ncontent-length: 2\r\n\r\n{}",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.guarantee("SEC-4")
@pytest.mark.parametrize("data", SMUGGLED, ids=range(len(SMUGGLED)))
async def test_no_second_request_is_smuggled(data: bytes) -> None:
    """Ambiguous framing gets an error, and never reaches the endpoint as anything but one whole listed request."""
    async with rig() as r:
        guest = await r.guest()
        await guest.send(data)
        guest.writer.write_eof()
        with anyio.fail_after(5):
            answer = await guest.reader.read()
        assert answer == b"" or answer.split(b" ", 2)[1].startswith(b"4")
        for method, path, seen, _ in r.upstream.requests:
            assert (method, path) == ("POST", "/v1/responses")
            assert seen["authorization"] == f"Bearer {SECRET}"
