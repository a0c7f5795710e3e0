"""The wire form of the Messages API, event for event, and what it answers without the model."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from jamcore.testing.servers.messages import MessagesServer
from jamcore.testing.servers.script import Call, Reasoning, Rule, Script, Text, Usage

pytestmark = pytest.mark.anyio
ASKED = {"model": "the-model", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


async def post(server: MessagesServer, path: str, body: object) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(server.base_url + path, json=body) as answer:
        return answer.status, await answer.text()


async def events_of(server: MessagesServer) -> list[dict[str, Any]]:
    _, stream = await post(server, "/v1/messages", {**ASKED, "stream": True})
    return [json.loads(block.partition("data: ")[2]) for block in stream.split("\n\n")[:-1]]


async def test_each_block_begins_empty_and_comes_as_deltas() -> None:
    """Thinking with its signature, a text, a call whose arguments come in pieces; then the reason with the cost, then the end."""
    rule = Rule(
        answer=(
            Reasoning(summary=("hm",), encrypted_content="signed"),
            Text(deltas=("Hel", "lo")),
            Call(name="Bash", arguments={"c": 1}, call_id="toolu_1"),
        ),
        usage=Usage(input_tokens=7, cached_tokens=3, output_tokens=2),
    )
    async with MessagesServer(Script(rules=(rule,))) as server:
        begun, ping, *blocks, reason, end = await events_of(server)
    assert begun["message"] == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "the-model",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 3, "output_tokens": 1},
    }
    assert (ping, end) == ({"type": "ping"}, {"type": "message_stop"})
    assert [(block["type"].removeprefix("content_block_"), block["index"]) for block in blocks] == [
        *(("start", 0), ("delta", 0), ("delta", 0), ("stop", 0)),
        *(("start", 1), ("delta", 1), ("delta", 1), ("stop", 1)),
        *(("start", 2), ("delta", 2), ("delta", 2), ("delta", 2), ("stop", 2)),
    ]
    assert [block["content_block"] for block in blocks if "content_block" in block] == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
    ]
    assert [block["delta"] for block in blocks if "delta" in block] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "signed"},
        {"type": "text_delta", "text": "Hel"},
        {"type": "text_delta", "text": "lo"},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"c"'},
        {"type": "input_json_delta", "partial_json": ": 1}"},
    ]
    assert reason["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert reason["usage"]["output_tokens"] == 2


async def test_without_a_word_about_a_stream_there_is_none() -> None:
    """The answer is one message; a call holds its arguments as a value, and text that is no JSON as itself."""
    rule = Rule(answer=(Reasoning(summary=("h", "m")), Call(name="Bash", arguments={"c": 1}), Call(name="Bash", arguments="{")))
    async with MessagesServer(Script(rules=(rule,))) as server:
        _, text = await post(server, "/v1/messages", ASKED)
    assert json.loads(text)["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "tool_use", "id": "call_1_1", "name": "Bash", "input": {"c": 1}},
        {"type": "tool_use", "id": "call_1_2", "name": "Bash", "input": "{"},
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
async def test_an_error_has_the_type_of_its_status(status: int, kind: str) -> None:
    """Unless the script names another."""
    rules = [
        {"fault": {"kind": "http", "status": status}, "times": 1},
        {"fault": {"kind": "http", "status": status, "code": "mine"}},
    ]
    async with MessagesServer(Script.model_validate_json(json.dumps({"rules": rules}))) as server:
        usual, named = [json.loads((await post(server, "/v1/messages", ASKED))[1]) for _ in rules]
    assert usual == {"type": "error", "error": {"type": kind, "message": "scripted fault"}}
    assert named["error"]["type"] == "mine"


async def test_a_stream_that_fails_says_so_in_an_event() -> None:
    """Its name is ``error``, its type the code of the fault."""
    rule = {"fault": {"kind": "failed", "code": "overloaded_error", "message": "Overloaded"}}
    async with MessagesServer(Script.model_validate_json(json.dumps({"rules": [rule]}))) as server:
        *_, last = await events_of(server)
    assert last == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


async def test_tokens_are_counted_and_models_listed_without_the_script() -> None:
    """The count is that of the body alone; both are recorded, neither counts as a request to the model or as unanswered."""
    async with MessagesServer(Script(models=("one", "two"))) as server:
        counts = [json.loads((await post(server, "/v1/messages/count_tokens", body))[1]) for body in (ASKED, ASKED, {})]
        async with aiohttp.ClientSession() as session, session.get(f"{server.api_url}/models") as answer:
            models = await answer.json()
        assert counts[0] == counts[1]
        assert counts[0]["input_tokens"] > counts[2]["input_tokens"]
        assert [model["id"] for model in models["data"]] == ["one", "two"]
        assert (models["first_id"], models["last_id"], models["has_more"]) == ("one", "two", False)
        assert [request.aside for request in server.requests] == [True] * 4
        assert server.unmatched == server.model_requests == ()
        assert [event.kind for event in server.events] == ["received", "completed"] * 4


async def test_a_count_of_no_object_is_refused() -> None:
    """What the API does not know of is unanswered, and said to be."""
    async with MessagesServer(Script()) as server:
        assert (await post(server, "/v1/messages/count_tokens", [1]))[0] == 404
        assert len(server.unmatched) == 1
