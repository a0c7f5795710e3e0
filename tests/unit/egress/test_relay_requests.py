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
@pytest.mark.parametrize("query", ["?limit=1", "?", "?beta=true&v=2"])
async def test_a_query_is_refused_where_the_list_has_none(query: str) -> None:
    """Also one that the list has for another path, and an empty one."""
    async with rig() as r:
        status, _, body = await (await r.guest()).ask(post(b"", method="GET", target=f"/v1/models{query}"))
        assert (status, code_of(body)) == (404, Refused.QUERY)
        assert r.upstream.requests == []


@pytest.mark.guarantee("SEC-4")
async def test_a_listed_query_arrives_as_it_was_sent() -> None:
    """Some programs ask with one always; it is a part of the pair. The decision says it too."""
    async with rig() as r:
        status, _, _ = await (await r.guest()).ask(post(target="/v1/messages?beta=true&v=2"))
        assert (status, [call[:2] for call in r.upstream.requests]) == (200, [("POST", "/v1/messages?beta=true&v=2")])
    assert [(decision.path, decision.allowed) for decision in r.decisions] == [("/v1/messages?beta=true&v=2", True)]


@pytest.mark.guarantee("SEC-4")
@pytest.mark.parametrize(
    ("method", "target", "reason"),
    [
        ("POST", "/v1/messages", Refused.QUERY),
        ("POST", "/v1/messages?", Refused.QUERY),
        ("POST", "/v1/messages?v=2&beta=true", Refused.QUERY),
        ("POST", "/v1/messages?beta=true", Refused.QUERY),
        ("POST", "/v1/messages?beta=true&v=2&more=1", Refused.QUERY),
        ("POST", "/v1/messages?beta=true&beta=true&v=2", Refused.QUERY),
        ("POST", "/v1/messages?beta=true&v=2&", Refused.QUERY),
        ("POST", "/v1/messages?beta=true;v=2", Refused.QUERY),
        ("POST", "/v1/messages?bet%61=true&v=2", Refused.QUERY),
        ("POST", "/v1/messages?Beta=true&v=2", Refused.QUERY),
        ("POST", "/v1/messages?beta=true&v=2?", Refused.QUERY),
        ("POST", "/v1/messages?beta=true&v=2#x", Refused.QUERY),
        ("POST", "/v1/messages#?beta=true&v=2", Refused.PATH),
        ("POST", "/v1/messages%3Fbeta=true&v=2", Refused.PATH),
        ("POST", "/v1/messages/?beta=true&v=2", Refused.PATH),
        ("GET", "/v1/messages?beta=true&v=2", Refused.PATH),
        ("POST", "http://127.0.0.1/v1/messages?beta=true&v=2", Refused.PATH),
    ],
)
async def test_a_listed_query_is_exact(method: str, target: str, reason: Refused) -> None:
    """Another order, more, less, an escape or a fragment is another request, and nothing arrives."""
    async with rig() as r:
        status, _, body = await (await r.guest()).ask(post(method=method, target=target))
        assert 400 <= status < 500
        assert r.upstream.requests == []
    if r.decisions:
        assert code_of(body) == reason
        assert (r.decisions[0].allowed, r.decisions[0].refused) == (False, reason)


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
