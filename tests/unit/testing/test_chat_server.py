"""The wire form of the Chat Completions API, chunk for chunk, and what it answers without the model."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Call, Reasoning, Rule, Script, Text, Usage

pytestmark = pytest.mark.anyio
ASKED: dict[str, Any] = {"model": "the-model", "messages": [{"role": "user", "content": "hi"}]}
COUNTED = {"stream": True, "stream_options": {"include_usage": True}}
WORK = Rule(
    answer=(
        Reasoning(summary=("hm",), encrypted_content="not said"),
        Text(deltas=("Hel", "lo")),
        Call(name="bash", arguments={"c": 1}, call_id="call_a"),
        Call(name="bash", arguments={}, call_id="call_b"),
    ),
    usage=Usage(input_tokens=7, cached_tokens=3, output_tokens=2, reasoning_tokens=1),
)
COST = {
    "prompt_tokens": 7,
    "completion_tokens": 2,
    "total_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 1},
}


async def post(server: ChatServer, **more: object) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.api_url}/chat/completions", json={**ASKED, **more}) as answer,
    ):
        return answer.status, await answer.text()


async def test_a_message_comes_as_chunks_of_one_choice() -> None:
    """The role first; reasoning and texts; each call with its id, then its arguments in pieces; the reason; the cost; the end."""
    async with ChatServer(Script(rules=(WORK,))) as server:
        _, stream = await post(server, **COUNTED)
    *lines, end, rest = stream.split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    *chunks, cost = [json.loads(line.removeprefix("data: ")) for line in lines]
    for chunk in (*chunks, cost):
        assert (chunk["id"], chunk["object"], chunk["model"]) == ("chatcmpl-1", "chat.completion.chunk", "the-model")
    assert (cost["choices"], cost["usage"]) == ([], COST)
    assert {chunk["usage"] for chunk in chunks} == {None}
    assert [(choice["delta"], choice["finish_reason"]) for chunk in chunks for choice in chunk["choices"]] == [
        ({"role": "assistant", "content": ""}, None),
        ({"reasoning_content": "hm"}, None),
        ({"content": "Hel"}, None),
        ({"content": "lo"}, None),
        (calls(0, id="call_a", type="function", function={"name": "bash", "arguments": ""}), None),
        (calls(0, function={"arguments": '{"c"'}), None),
        (calls(0, function={"arguments": ": 1}"}), None),
        (calls(1, id="call_b", type="function", function={"name": "bash", "arguments": ""}), None),
        (calls(1, function={"arguments": "{"}), None),
        (calls(1, function={"arguments": "}"}), None),
        ({}, "tool_calls"),
    ]


def calls(index: int, **more: object) -> dict[str, object]:
    return {"tool_calls": [{"index": index, **more}]}


async def test_the_cost_of_a_stream_is_only_said_when_asked_for() -> None:
    """Otherwise no chunk has a word of it."""
    async with ChatServer(Script(rules=(WORK,))) as server:
        _, stream = await post(server, stream=True)
    assert "usage" not in stream
    assert stream.endswith("data: [DONE]\n\n")


async def test_without_a_word_about_a_stream_there_is_none() -> None:
    """The answer is one message with its cost; without a text its content is null, without calls it has none."""
    rules = (WORK.model_copy(update={"times": 1}), Rule(answer=(Call(name="f", arguments="{"),), times=1), Rule())
    async with ChatServer(Script(rules=rules)) as server:
        full, called, empty = [json.loads((await post(server))[1]) for _ in rules]
    assert (full["object"], full["usage"]) == ("chat.completion", COST)
    assert full["choices"][0]["message"] == {
        "role": "assistant",
        "content": "Hello",
        "refusal": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "bash", "arguments": '{"c": 1}'}},
            {"id": "call_b", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
        ],
    }
    assert called["choices"][0]["message"]["content"] is None
    assert called["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == "{"
    assert empty["choices"][0]["message"] == {"role": "assistant", "content": None, "refusal": None}
    assert empty["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", "model_not_found"),
        (429, "requests", "rate_limit_exceeded"),
        (503, "server_error", None),
    ],
)
async def test_an_error_has_the_type_and_code_of_its_status(status: int, kind: str, code: str | None) -> None:
    """Unless the script names another code."""
    rules = [
        {"fault": {"kind": "http", "status": status}, "times": 1},
        {"fault": {"kind": "http", "status": status, "code": "mine"}},
    ]
    async with ChatServer(Script.model_validate_json(json.dumps({"rules": rules}))) as server:
        usual, named = [json.loads((await post(server))[1]) for _ in rules]
    assert usual == {"error": {"message": "scripted fault", "type": kind, "param": None, "code": code}}
    assert (named["error"]["type"], named["error"]["code"]) == (kind, "mine")


async def test_a_stream_that_fails_says_so_in_a_chunk() -> None:
    """It has the error instead of choices, and no end mark follows."""
    rule = {"fault": {"kind": "failed", "code": "server_is_overloaded", "message": "Overloaded"}}
    async with ChatServer(Script.model_validate_json(json.dumps({"rules": [rule]}))) as server:
        _, stream = await post(server, **COUNTED)
    last = json.loads(stream.split("\n\n")[-2].removeprefix("data: "))
    assert last == {"error": {"message": "Overloaded", "type": "server_error", "param": None, "code": "server_is_overloaded"}}


async def test_models_are_listed_without_the_script() -> None:
    """The list is recorded, and counts neither as a request to the model nor as unanswered."""
    async with ChatServer(Script(models=("one", "two"))) as server, aiohttp.ClientSession() as session:
        async with session.get(f"{server.api_url}/models") as answer:
            models = await answer.json()
        assert models["object"] == "list"
        assert [(model["id"], model["object"]) for model in models["data"]] == [("one", "model"), ("two", "model")]
        assert [request.aside for request in server.requests] == [True]
        assert server.unmatched == server.model_requests == ()
