"""Everything the scripted model server can do wrong, seen by a real HTTP client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from jamcore.testing.servers.responses import (
    CutFault,
    FailedFault,
    Fault,
    GarbageFault,
    HttpFault,
    ResponsesServer,
    Rule,
    Script,
    SilentFault,
    SlowFault,
    Text,
)

pytestmark = pytest.mark.anyio
SOON_S = 5.0


def faulty(fault: Fault, times: int | None = None) -> Script:
    return Script(rules=(Rule(answer=(Text(deltas=("a", "b", "c")),), fault=fault, fault_times=times),))


@asynccontextmanager
async def asked(server: ResponsesServer) -> AsyncIterator[aiohttp.ClientResponse]:
    body = {"model": "m", "input": "hi"}
    async with aiohttp.ClientSession() as session, session.post(f"{server.api_url}/responses", json=body) as answer:
        yield answer


async def read_until_it_breaks(answer: aiohttp.ClientResponse) -> bytes:
    got = b""
    try:
        while not answer.content.at_eof():
            got += await answer.content.readany()
    except aiohttp.ClientPayloadError:
        return got
    pytest.fail("the stream ended in good order")


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_a_status_is_answered_with_an_error_object(status: int) -> None:
    """The status, a code and a message arrive; the request is recorded with the rule that refused it."""
    async with ResponsesServer(faulty(HttpFault(status=status, code="because", message="so it is"))) as server:
        async with asked(server) as answer:
            assert answer.status == status
            error = (await answer.json())["error"]
            assert (error["code"], error["message"]) == ("because", "so it is")
        assert [request.rule for request in server.requests] == [0]
        assert [event.kind for event in server.events] == ["received", "refused"]


async def test_retry_after_is_a_header_and_a_body_can_be_raw() -> None:
    """The wait is said in seconds; the body can be something that is no error object at all."""
    async with ResponsesServer(faulty(HttpFault(status=429, retry_after_s=3, body="<html>"))) as server, asked(server) as answer:
        assert answer.headers["Retry-After"] == "3"
        assert await answer.text() == "<html>"


async def test_a_fault_can_end() -> None:
    """Two requests go wrong, the third is answered: what a client's retry is for."""
    async with ResponsesServer(faulty(HttpFault(status=500), times=2)) as server:
        statuses = []
        for _ in range(3):
            async with asked(server) as answer:
                statuses.append(answer.status)
                await answer.read()
        assert statuses == [500, 500, 200]


@pytest.mark.parametrize("deltas", [0, 1, 3, 9])
async def test_a_cut_comes_after_the_given_deltas(deltas: int) -> None:
    """The client gets exactly that many deltas, then a broken connection and no end of the answer."""
    async with ResponsesServer(faulty(CutFault(after_deltas=deltas))) as server, asked(server) as answer:
        got = await read_until_it_breaks(answer)
        assert got.count(b"output_text.delta\ndata") == min(deltas, 3)
        assert b"response.created" in got
        assert b"response.completed" not in got
        assert (await server.wait_for(lambda event: event.kind == "cut", SOON_S)).delta == min(deltas, 3)


async def test_a_slow_first_byte_delays_the_head_too() -> None:
    """A client with less patience gets nothing at all; one with more gets the whole answer."""
    async with ResponsesServer(faulty(SlowFault(first_byte_s=0.3))) as server:
        impatient = aiohttp.ClientTimeout(sock_read=0.05)
        async with aiohttp.ClientSession(timeout=impatient) as session:
            with pytest.raises(aiohttp.ServerTimeoutError):
                await session.post(f"{server.api_url}/responses", json={"input": "hi"})
        async with asked(server) as answer:
            assert b"response.completed" in await answer.read()


async def test_a_silent_stream_begins_and_says_nothing_more() -> None:
    """The head and the first event arrive; then the client's patience decides, and the server notices that it left."""
    async with ResponsesServer(faulty(SilentFault())) as server:
        async with asked(server) as answer:
            assert b"response.created" in await answer.content.readany()
            assert not answer.content.at_eof()
        assert (await server.wait_for(lambda event: event.kind == "left", SOON_S)).delta == 0


async def test_garbage_bytes_are_no_text() -> None:
    """What arrives cannot be decoded."""
    async with ResponsesServer(faulty(GarbageFault())) as server, asked(server) as answer:
        with pytest.raises(UnicodeDecodeError):
            (await answer.read()).decode()


async def test_broken_json_is_one_event_among_good_ones() -> None:
    """The stream is well-formed, one event's data is not JSON, and the answer follows."""
    async with ResponsesServer(faulty(GarbageFault(form="json"))) as server, asked(server) as answer:
        blocks = (await answer.read()).decode().split("\n\n")[:-1]
    broken = [n for n, block in enumerate(blocks) if not _is_json(block.partition("data: ")[2])]
    assert broken == [1]
    assert [block.splitlines()[0] for block in blocks].count("event: response.created") == 1
    assert "response.completed" in blocks[-1]


@pytest.mark.parametrize("code", ["context_length_exceeded", "rate_limit_exceeded"])
async def test_a_failed_response_ends_the_stream_with_its_code(code: str) -> None:
    """``response.failed`` carries the code, and nothing claims completion."""
    async with ResponsesServer(faulty(FailedFault(code=code))) as server, asked(server) as answer:
        last = (await answer.read()).decode().split("\n\n")[-2]
    event = json.loads(last.partition("data: ")[2])
    assert (event["type"], event["response"]["error"]["code"]) == ("response.failed", code)


@pytest.mark.parametrize(("finish", "last"), [("incomplete", "response.incomplete"), ("open", "response.output_item.done")])
async def test_an_answer_can_end_badly(finish: str, last: str) -> None:
    """``incomplete`` says so; ``open`` ends the stream in good order with no last event at all."""
    rule = {"answer": [{"kind": "text", "deltas": ["half"]}], "finish": finish}
    script = Script.model_validate_json(json.dumps({"rules": [rule]}))
    async with ResponsesServer(script) as server, asked(server) as answer:
        assert (await answer.read()).decode().split("\n\n")[-2].splitlines()[0] == f"event: {last}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
