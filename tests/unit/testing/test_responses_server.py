"""The scripted model server over real HTTP: what is answered, recorded and awaited."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp.test_utils import unused_port

from jamcore.testing.servers.responses import (
    Call,
    CustomCall,
    Hold,
    Match,
    Reasoning,
    RecordedRequest,
    ResponsesServer,
    Rule,
    Script,
    Text,
    Usage,
    delta_sent,
    held_at,
    read_records,
    received,
    say,
)

pytestmark = pytest.mark.anyio
SOON_S = 5.0


def asking(text: str, **more: object) -> dict[str, object]:
    return {"model": "m", "input": [{"role": "user", "content": text}], **more}


@asynccontextmanager
async def asked(server: ResponsesServer, body: object) -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Authorization": "Bearer the-key", "Session-Id": "s1"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.api_url}/responses", json=body, headers=headers) as answer,
    ):
        yield answer


async def events_of(server: ResponsesServer, body: object) -> list[dict[str, Any]]:
    async with asked(server, body) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        return parse(await answer.read())


def parse(stream: bytes) -> list[dict[str, Any]]:
    found = []
    for block in stream.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


async def test_an_answer_is_a_whole_stream_of_events() -> None:
    """Every item is added empty, comes as deltas and is whole when it is done; the usage comes last, with its sum."""
    rule = Rule(
        answer=(
            Reasoning(summary=("think",), encrypted_content="opaque"),
            Text(deltas=("Hel", "lo")),
            Call(name="exec_command", arguments={"cmd": "ls"}, call_id="mine"),
            CustomCall(name="apply_patch", input="*** Begin Patch"),
        ),
        usage=Usage(input_tokens=7, cached_tokens=3, output_tokens=2, reasoning_tokens=1),
    )
    async with ResponsesServer(Script(rules=(rule,))) as server:
        events = await events_of(server, asking("hi"))
    kinds = [event["type"].removeprefix("response.") for event in events]
    added, done = "output_item.added", "output_item.done"
    arguments, free_form = "function_call_arguments", "custom_tool_call_input"
    assert kinds == [
        "created",
        *(added, done),
        *(added, "content_part.added", *["output_text.delta"] * 2, "output_text.done", "content_part.done", done),
        *(added, *[f"{arguments}.delta"] * 2, f"{arguments}.done", done),
        *(added, *[f"{free_form}.delta"] * 2, f"{free_form}.done", done),
        "completed",
    ]
    assert [event["delta"] for event in events if "delta" in event] == ["Hel", "lo", '{"cmd"', ': "ls"}', "*** Beg", "in Patch"]
    begun = [event["item"] for event in events if event["type"] == f"response.{added}"]
    assert (begun[1]["content"], begun[2]["arguments"], begun[3]["input"]) == ([], "", "")
    items = [event["item"] for event in events if event["type"] == f"response.{done}"]
    assert [item["id"] for item in begun] == [item["id"] for item in items]
    reasoning, text, call, custom = items
    assert reasoning["encrypted_content"] == "opaque"
    assert text["content"] == [{"type": "output_text", "text": "Hello", "annotations": []}]
    assert (call["call_id"], json.loads(call["arguments"])) == ("mine", {"cmd": "ls"})
    assert (custom["type"], custom["call_id"], custom["input"]) == ("custom_tool_call", "call_1_3", "*** Begin Patch")
    assert events[-1]["response"]["output"] == items
    assert [event["output_index"] for event in events if event["type"] == f"response.{done}"] == [0, 1, 2, 3]
    assert events[-1]["response"]["usage"]["total_tokens"] == 9


async def test_equal_parts_are_two_items() -> None:
    """The same part twice gives two items with ids of their own."""
    call = Call(name="exec_command", arguments={})
    async with ResponsesServer(Script(rules=(Rule(answer=(call, call)),))) as server:
        items = [e["item"]["call_id"] for e in await events_of(server, asking("hi")) if e["type"] == "response.output_item.done"]
    assert items == ["call_1_0", "call_1_1"]


async def test_each_request_is_recorded_as_it_came() -> None:
    """Order, path, method, headers with the credential, body and the rule that answered are kept; times do not go backwards."""
    async with ResponsesServer(Script(rules=(say("one", times=1), say("two")))) as server:
        await events_of(server, asking("first"))
        await events_of(server, asking("second"))
        one, two = server.requests
    assert (one.index, one.nth, one.method, one.path, one.rule) == (1, 1, "POST", "/v1/responses", 0)
    assert (two.index, two.nth, two.rule) == (2, 2, 1)
    assert one.body == asking("first")
    assert (one.header("authorization"), one.header("SESSION-ID"), one.header("absent")) == ("Bearer the-key", "s1", None)
    assert one.received_s <= two.received_s
    assert server.unmatched == ()


async def test_a_request_without_a_rule_is_refused_loudly() -> None:
    """Status 400, a code, and what was asked in the message; it is recorded too, and ``unmatched`` names it."""
    async with ResponsesServer(Script(rules=(say("x", match=Match(last_user_contains="known")),))) as server:
        async with asked(server, asking("unheard of")) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (400, "no_script_rule")
            assert "unheard of" in error["message"]
        assert [request.body for request in server.unmatched] == [asking("unheard of")]
        assert [event.kind for event in server.events] == ["received", "refused"]


@pytest.mark.parametrize(
    ("method", "path", "data", "status"),
    [
        ("POST", "/v1/responses", b"no json", 400),
        ("POST", "/v1/responses", b"[1]", 400),
        ("GET", "/v1/responses", b"", 404),
        ("POST", "/v1/chat/completions", b"{}", 404),
    ],
)
async def test_what_is_no_model_request_is_refused_and_recorded(method: str, path: str, data: bytes, status: int) -> None:
    """It counts as a request, not as a model request: a stray one does not shift the script."""
    async with ResponsesServer(Script(rules=(say("hello", match=Match(nth=1)),))) as server:
        async with aiohttp.ClientSession() as session, session.request(method, server.base_url + path, data=data) as answer:
            assert answer.status == status
        await events_of(server, asking("hi"))
        assert [(request.index, request.nth) for request in server.requests] == [(1, None), (2, 1)]
        assert len(server.model_requests) == 1


async def test_a_held_text_stops_between_two_deltas_until_it_is_released() -> None:
    """Before the release the client has exactly the deltas before the hold; after it the rest comes."""
    rule = Rule(answer=(Text(deltas=("a", "b", "c"), hold=Hold(gate="middle", after=2)),))
    async with ResponsesServer(Script(rules=(rule,))) as server, asked(server, asking("hi")) as answer:
        assert (await server.wait_for(held_at("middle"), SOON_S)).delta == 2
        got = b""
        while b'"delta": "b"' not in got:
            got += await answer.content.readany()
        assert b'"delta": "c"' not in got
        assert [event.delta for event in server.events if event.kind == "delta"] == [1, 2]
        server.release("middle")
        got += await answer.read()
        assert [event["delta"] for event in parse(got) if "delta" in event] == ["a", "b", "c"]


@pytest.mark.parametrize("after", [0, 1, 99])
async def test_a_hold_at_either_end_of_a_text_holds(after: int) -> None:
    """Before the first delta and after the last are places to stop as well; a place past the end is the end."""
    rule = Rule(answer=(Text(deltas=("a",), hold=Hold(gate="g", after=after)),))
    async with ResponsesServer(Script(rules=(rule,))) as server, asked(server, asking("hi")) as answer:
        await server.wait_for(held_at("g"), SOON_S)
        assert len([event for event in server.events if event.kind == "delta"]) == min(after, 1)
        server.release("g")
        assert parse(await answer.read())[-1]["type"] == "response.completed"


async def test_a_gate_that_was_released_before_does_not_hold() -> None:
    """A gate opens once and for all, also before anybody waits there."""
    async with ResponsesServer(Script(rules=(Rule(answer=(Hold(gate="g"),)),))) as server:
        server.release("g")
        assert (await events_of(server, asking("hi")))[-1]["type"] == "response.completed"


async def test_a_gate_opens_by_a_file_and_by_http(tmp_path: Path) -> None:
    """Another process can release a gate: by making a file, or by a request to the control path."""
    rule = Rule(answer=(Hold(gate="by-file"), Hold(gate="by-http")))
    async with ResponsesServer(Script(rules=(rule,)), hold_directory=tmp_path) as server, asked(server, asking("hi")) as answer:
        await server.wait_for(held_at("by-file"), SOON_S)
        (tmp_path / "by-file").touch()
        await server.wait_for(held_at("by-http"), SOON_S)
        async with aiohttp.ClientSession() as session, session.post(f"{server.base_url}/_control/release/by-http") as released:
            assert released.status == 200
        assert parse(await answer.read())[-1]["type"] == "response.completed"


async def test_a_forgotten_gate_ends_as_a_cut_stream() -> None:
    """A gate that nobody releases holds for the limit, then the stream is cut: no test run hangs on it."""
    server = ResponsesServer(Script(rules=(Rule(answer=(Text(deltas=("a",)), Hold(gate="g"))),)), hold_limit_s=0.05)
    async with server, asked(server, asking("hi")) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
        assert (await server.wait_for(lambda event: event.kind == "cut", SOON_S)).delta == 1


async def test_the_control_path_lists_requests_and_events() -> None:
    """Another process can read the same records; its own requests are not among them."""
    async with ResponsesServer(Script(rules=(say("a", "b"),))) as server:
        await events_of(server, asking("hi"))
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{server.base_url}/_control/requests") as answer:
                (request,) = await answer.json()
            async with session.get(f"{server.base_url}/_control/events") as answer:
                events = await answer.json()
            async with session.post(f"{server.base_url}/_control/release/..%2Fup") as refused:
                assert refused.status == 400
    assert RecordedRequest.model_validate_json(json.dumps(request)) == server.requests[0]
    assert [event["kind"] for event in events] == ["received", "delta", "delta", "completed"]


async def test_waiting_finds_what_was_and_what_comes() -> None:
    """An event is found whether it happened before the wait or during it; a delta is counted within its own answer."""
    async with ResponsesServer(Script(rules=(say("a", "b"),))) as server:
        async with anyio.create_task_group() as group:
            group.start_soon(events_of, server, asking("one"))
            assert (await server.wait_for(received(1), SOON_S)).kind == "received"
            assert (await server.wait_for(delta_sent(1, 2), SOON_S)).delta == 2
        await events_of(server, asking("two"))
        assert (await server.wait_for(delta_sent(2, 1), 0)).index == 2


async def test_a_wait_in_vain_says_what_was_seen() -> None:
    """The error at the bound lists the events that did happen, so that a failed test explains itself."""
    async with ResponsesServer(Script(rules=(say("a"),))) as server:
        await events_of(server, asking("hi"))
        with pytest.raises(TimeoutError, match="received 1/0, delta 1/1, completed 1/1"):
            await server.wait_for(received(2), 0.05)


async def test_answers_run_side_by_side() -> None:
    """A held answer does not hold the others."""
    script = Script(rules=(Rule(match=Match(nth=1), answer=(Hold(gate="g"),)), say("quick")))
    async with ResponsesServer(script) as server, asked(server, asking("slow")) as slow:
        await server.wait_for(held_at("g"), SOON_S)
        assert (await events_of(server, asking("quick")))[-1]["type"] == "response.completed"
        server.release("g")
        assert parse(await slow.read())[-1]["type"] == "response.completed"


async def test_a_client_that_leaves_is_noticed() -> None:
    """A stream whose client is gone ends as ``left``, also while it waits at a gate."""
    async with ResponsesServer(Script(rules=(Rule(answer=(Text(deltas=("a",)), Hold(gate="g"))),))) as server:
        async with asked(server, asking("hi")):
            await server.wait_for(held_at("g"), SOON_S)
        assert (await server.wait_for(lambda event: event.kind == "left", SOON_S)).index == 1


async def test_the_end_of_the_server_ends_its_streams() -> None:
    """Leaving the block cuts a held stream at once; nothing waits for a gate that will not open."""
    server = ResponsesServer(Script(rules=(Rule(answer=(Text(deltas=("a",)), Hold(gate="g"))),)))
    async with anyio.create_task_group() as group, server:
        group.start_soon(_read_cut_stream, server)
        await server.wait_for(held_at("g"), SOON_S)
    assert server.events[-1].kind == "left"


async def _read_cut_stream(server: ResponsesServer) -> None:
    async with asked(server, asking("hi")) as answer:
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


async def test_the_record_file_is_written_before_the_answer(tmp_path: Path) -> None:
    """While the answer is still held, the line is there: a client killed at that moment cannot take the record with it."""
    path = tmp_path / "requests.jsonl"
    script = Script(rules=(Rule(answer=(Hold(gate="g"),)),))
    async with ResponsesServer(script, record=path) as server, asked(server, asking("hi")) as answer:
        await server.wait_for(held_at("g"), SOON_S)
        assert read_records(path) == server.requests
        server.release("g")
        await answer.read()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_record_file_is_continued_and_a_torn_line_left_out(tmp_path: Path) -> None:
    """Two servers one after the other append to one file; half a line at its end, from a killed writer, is not an error."""
    path = tmp_path / "requests.jsonl"
    for text in ("one", "two"):
        async with ResponsesServer(Script(rules=(say("ok"),)), record=path) as server:
            await events_of(server, asking(text))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:30])
    assert [request.body for request in read_records(path)] == [asking("one"), asking("two")]


async def test_the_port_can_be_chosen_and_is_free_again_afterwards() -> None:
    """A client that was configured once finds the next server at the same place: an outage can be played."""
    port = unused_port()
    for _ in range(2):
        async with ResponsesServer(Script(rules=(say("ok"),)), port=port) as server:
            assert server.api_url == f"http://127.0.0.1:{port}/v1"
            await events_of(server, asking("hi"))


async def test_a_port_in_use_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """The start fails at once; the second server's record file is closed again."""
    async with ResponsesServer(Script()) as first:
        port = int(first.base_url.rpartition(":")[2])
        second = ResponsesServer(Script(), port=port, record=tmp_path / "r")
        with pytest.raises(OSError, match="address already in use"):
            await second.__aenter__()
        with pytest.raises(RuntimeError):
            _ = second.base_url


async def test_a_large_request_is_taken() -> None:
    """A conversation of some megabytes is answered and recorded whole."""
    body = asking("x" * (4 * 1024 * 1024))
    async with ResponsesServer(Script(rules=(say("ok"),))) as server, aiohttp.ClientSession() as session:
        data = io.BytesIO(json.dumps(body).encode())
        async with session.post(f"{server.api_url}/responses", data=data) as answer:
            assert parse(await answer.read())[-1]["type"] == "response.completed"
        assert server.requests[0].body == body
