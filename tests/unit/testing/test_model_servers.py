"""One script language for every API: the same script gives the same answer, the same faults and the same records, each in its wire form.

What an API's own bytes look like is in the tests of its server; what the server does with gates, waits and records, in those of the
Responses server.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from jamcore.testing.servers.apis import SERVERS
from jamcore.testing.servers.faults import (
    CutFault,
    DownFault,
    FailedFault,
    Fault,
    GarbageFault,
    HttpFault,
    SilentFault,
    SlowFault,
)
from jamcore.testing.servers.ledger import held_at
from jamcore.testing.servers.script import Call, CustomCall, Hold, Match, Pause, Rule, Script, Text, Usage, say
from jamcore.testing.servers.server import ModelServer

pytestmark = pytest.mark.anyio
SOON_S = 5.0


@dataclass(frozen=True)
class Answered:
    """What a client makes of an answer: the deltas of its texts, its calls with their parsed arguments, why it ended, its cost."""

    deltas: tuple[str, ...]
    calls: tuple[tuple[str, str, object], ...]
    reason: str | None
    cost: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Api:
    """A client of one API, as far as these tests need one."""

    name: str
    path: str
    ask: Mapping[str, Any]
    read: Callable[[bytes], Answered]
    read_whole: Callable[[dict[str, Any]], Answered]
    words: Mapping[str, str | None]

    @property
    def server(self) -> type[ModelServer]:
        """The scripted server of this API."""
        return SERVERS[self.name]

    def body(self, text: str = "hi", *, stream: bool = True) -> dict[str, Any]:
        """Return the body of a request in which a person says ``text``."""
        said = [{"role": "user", "content": text}]
        return {**self.ask, "model": "m", "stream": stream, "input" if self.name == "responses" else "messages": said}


def events(stream: bytes) -> list[dict[str, Any]]:
    """Return the data of each event; those of named events must say the name once more."""
    found = []
    for block in stream.decode().split("\n\n")[:-1]:
        name, _, data = block.rpartition("data: ")
        if data == "[DONE]":
            continue
        event = json.loads(data)
        assert name == (f"event: {event['type']}\n" if "type" in event else "")
        found.append(event)
    return found


def read_responses(stream: bytes) -> Answered:
    got = events(stream)
    last = got[-1] if got[-1]["type"] in {"response.completed", "response.incomplete"} else None
    items = [event["item"] for event in got if event["type"] == "response.output_item.done"]
    whole = read_whole_responses({"status": None, "output": items, **(last["response"] if last else {})})
    deltas = tuple(event["delta"] for event in got if event["type"] == "response.output_text.delta")
    pieces = "".join(event["delta"] for event in got if event["type"] == "response.function_call_arguments.delta")
    assert pieces == "".join(item["arguments"] for item in items if item["type"] == "function_call")
    reason = last["type"].removeprefix("response.") if last else None
    return Answered(deltas, whole.calls, reason, whole.cost)


def read_whole_responses(answer: dict[str, Any]) -> Answered:
    texts = tuple(item["content"][0]["text"] for item in answer["output"] if item["type"] == "message")
    calls = tuple(
        (item["call_id"], item["name"], json.loads(item["arguments"]))
        for item in answer["output"]
        if item["type"] == "function_call"
    )
    usage = answer.get("usage")
    cost = (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]) if usage else None
    return Answered(texts, calls, answer["status"], cost)


def read_messages(stream: bytes) -> Answered:
    got = events(stream)
    blocks: dict[int, dict[str, Any]] = {}
    arguments: dict[int, str] = {}
    deltas = []
    for event in got:
        match event["type"], event.get("delta", {}).get("type"):
            case "content_block_start", _:
                blocks[event["index"]] = event["content_block"]
                arguments[event["index"]] = ""
            case "content_block_delta", "text_delta":
                deltas.append(event["delta"]["text"])
            case "content_block_delta", "input_json_delta":
                arguments[event["index"]] += event["delta"]["partial_json"]
    calls = tuple(
        (block["id"], block["name"], json.loads(arguments[place]))
        for place, block in blocks.items()
        if block["type"] == "tool_use" and block["input"] == {}
    )
    last = next((event for event in got if event["type"] == "message_delta"), None)
    ended = last is not None and got[-1] == {"type": "message_stop"}
    return Answered(
        tuple(deltas), calls, last["delta"]["stop_reason"] if last and ended else None, cost_of(last["usage"]) if last else None
    )


def read_whole_messages(answer: dict[str, Any]) -> Answered:
    texts = tuple(block["text"] for block in answer["content"] if block["type"] == "text")
    calls = tuple((block["id"], block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use")
    return Answered(texts, calls, answer["stop_reason"], cost_of(answer["usage"]))


def cost_of(usage: dict[str, Any]) -> tuple[int, int, int]:
    """Here what was read from a cache is not among the input tokens."""
    cached = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + cached, cached, usage["output_tokens"]


def read_chat(stream: bytes) -> Answered:
    got = events(stream)
    calls: dict[int, dict[str, Any]] = {}
    choices = [choice for event in got for choice in event["choices"]]
    for call in (call for choice in choices for call in choice["delta"].get("tool_calls", [])):
        begun = calls.setdefault(call["index"], {**call, "function": {**call["function"], "arguments": ""}})
        begun["function"]["arguments"] += call["function"]["arguments"]
    deltas = tuple(choice["delta"]["content"] for choice in choices if choice["delta"].get("content"))
    ended = choices[-1]["finish_reason"] if stream.endswith(b"data: [DONE]\n\n") else None
    return Answered(deltas, chat_calls(list(calls.values())), ended, chat_cost(got[-1].get("usage")))


def read_whole_chat(answer: dict[str, Any]) -> Answered:
    (choice,) = answer["choices"]
    content = choice["message"]["content"]
    calls = chat_calls(choice["message"].get("tool_calls", []))
    return Answered(() if content is None else (content,), calls, choice["finish_reason"], chat_cost(answer["usage"]))


def chat_calls(calls: list[dict[str, Any]]) -> tuple[tuple[str, str, object], ...]:
    return tuple((call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls)


def chat_cost(usage: dict[str, Any] | None) -> tuple[int, int, int] | None:
    return (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]) if usage else None


APIS = (
    Api(
        "responses",
        "/v1/responses",
        {},
        read_responses,
        read_whole_responses,
        {"done": "completed", "tools": "completed", "limit": "incomplete"},
    ),
    Api(
        "messages",
        "/v1/messages",
        {"max_tokens": 1000},
        read_messages,
        read_whole_messages,
        {"done": "end_turn", "tools": "tool_use", "limit": "max_tokens"},
    ),
    Api(
        "chat",
        "/v1/chat/completions",
        {"stream_options": {"include_usage": True}},
        read_chat,
        read_whole_chat,
        {"done": "stop", "tools": "tool_calls", "limit": "length"},
    ),
)


@pytest.fixture(params=APIS, ids=[api.name for api in APIS])
def api(request: pytest.FixtureRequest) -> Api:
    assert isinstance(request.param, Api)
    return request.param


@asynccontextmanager
async def asked(api: Api, server: ModelServer, body: object = None) -> AsyncIterator[aiohttp.ClientResponse]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.base_url + api.path, json=api.body() if body is None else body) as answer,
    ):
        yield answer


async def answered(api: Api, server: ModelServer, text: str = "hi") -> Answered:
    async with asked(api, server, api.body(text)) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        return api.read(await answer.read())


async def answered_whole(api: Api, server: ModelServer) -> Answered:
    async with asked(api, server, api.body(stream=False)) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        return api.read_whole(await answer.json())


def test_every_api_is_tested() -> None:
    """A server that is added is proven here too."""
    assert {api.name for api in APIS} == set(SERVERS)


WORK = Rule(
    answer=(
        Text(deltas=("I will ", "look.")),
        Call(name="list", arguments={"path": "/a b", "deep": [1, None]}, call_id="mine"),
        Call(name="list", arguments={}),
    ),
    usage=Usage(input_tokens=70, cached_tokens=30, output_tokens=9),
)


async def test_a_text_and_calls_arrive_as_they_were_scripted(api: Api) -> None:
    """Delta by delta, each call with its id, name and arguments, the reason and the cost in the API's own words."""
    async with api.server(Script(rules=(WORK,))) as server:
        got = await answered(api, server)
    calls: tuple[tuple[str, str, object], ...] = (("mine", "list", {"path": "/a b", "deep": [1, None]}), ("call_1_2", "list", {}))
    assert got == Answered(("I will ", "look."), calls, api.words["tools"], (70, 30, 9))


async def test_a_whole_answer_says_the_same_as_the_stream(api: Api) -> None:
    """To a client that asks for no stream, or falls back to none, the text comes in one piece."""
    async with api.server(Script(rules=(WORK,))) as server:
        streamed, whole = await answered(api, server), await answered_whole(api, server)
        assert [event.kind for event in server.events if event.index == 2] == ["received", "completed"]
    assert whole.deltas == ("".join(streamed.deltas),)
    assert (whole.calls[0], whole.reason, whole.cost) == (streamed.calls[0], streamed.reason, streamed.cost)


@pytest.mark.parametrize(("finish", "word"), [("completed", "done"), ("incomplete", "limit"), ("open", None)])
async def test_why_an_answer_ended_is_said(api: Api, finish: str, word: str | None) -> None:
    """``completed`` and ``incomplete`` end it in the API's words; ``open`` has no end mark."""
    script = Script.model_validate_json(json.dumps({"rules": [{"answer": [{"kind": "text", "deltas": ["x"]}], "finish": finish}]}))
    async with api.server(script) as server:
        got = await answered(api, server)
    assert (got.deltas, got.reason) == (("x",), word and api.words[word])


async def test_a_match_sees_the_same_conversation_whatever_the_api(api: Api) -> None:
    """The last text of a person chooses the rule, and is what the record says of the request."""
    script = Script(rules=(say("no", match=Match(last_user_contains="other")), say("yes", match=Match(last_user_contains="hel"))))
    async with api.server(script) as server:
        assert (await answered(api, server, "hello")).deltas == ("yes",)
        (request,) = server.model_requests
    assert (request.rule, request.path, request.last_user_text) == (1, api.path, "hello")


async def test_a_held_text_stops_between_two_deltas(api: Api) -> None:
    """Deltas are counted alike: a hold after one has sent exactly one, and the whole answer waits at it too."""
    rule = Rule(answer=(Call(name="f", arguments={}), Text(deltas=("a", "b"), hold=Hold(gate="g", after=1))))
    async with api.server(Script(rules=(rule,))) as server:
        async with asked(api, server) as answer:
            assert (await server.wait_for(held_at("g"), SOON_S)).delta == 1
            server.release("g")
            assert api.read(await answer.read()).deltas == ("a", "b")
        assert (await answered_whole(api, server)).deltas == ("ab",)
        assert [event.kind for event in server.events if event.index == 2] == ["received", "held", "completed"]


async def test_a_pause_delays_a_whole_answer_to_its_first_byte(api: Api) -> None:
    """A client with less patience gets nothing of it at all."""
    async with api.server(Script(rules=(Rule(answer=(Pause(seconds=0.3), Text(deltas=("a",)))),))) as server:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(sock_read=0.05)) as session:
            with pytest.raises(aiohttp.ServerTimeoutError):
                await session.post(server.base_url + api.path, json=api.body(stream=False))
        assert (await answered_whole(api, server)).deltas == ("a",)


def faulty(fault: Fault) -> Script:
    """A script that does it once and then answers."""
    return Script(rules=(Rule(answer=(Text(deltas=("a", "b", "c")),), fault=fault, fault_times=1),))


async def recovers(api: Api, server: ModelServer) -> None:
    """The client's next try gets the answer: the fault left nothing behind."""
    assert (await answered(api, server)).deltas == ("a", "b", "c")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [401, 429, 500, 529])
async def test_a_status_comes_with_the_wait_and_the_error_of_the_api(api: Api, status: int, stream: bool) -> None:
    """Whatever was asked for; the message can be read, and a rate limit says when to come again."""
    fault = HttpFault(status=status, message="so it is", retry_after_s=3)
    async with api.server(faulty(fault)) as server:
        async with asked(api, server, api.body(stream=stream)) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (status, "3")
            assert (await answer.json())["error"]["message"] == "so it is"
        await recovers(api, server)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_server_that_goes_down_answers_nothing(api: Api, stream: bool) -> None:
    """The connection ends before a byte, and the record says that it was cut."""
    async with api.server(faulty(DownFault())) as server:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            async with asked(api, server, api.body(stream=stream)):
                pass
        assert (await server.wait_for(lambda event: event.kind == "cut", SOON_S)).delta == 0
        await recovers(api, server)


@pytest.mark.parametrize("deltas", [0, 2, 9])
async def test_a_cut_stream_ends_after_its_deltas(api: Api, deltas: int) -> None:
    """The client gets them, then a broken connection and no reason."""
    async with api.server(faulty(CutFault(after_deltas=deltas))) as server:
        async with asked(api, server) as answer:
            got = api.read(await read_until_it_breaks(answer))
        assert (got.deltas, got.reason) == (("a", "b", "c")[:deltas], None)
        await recovers(api, server)


async def test_a_cut_whole_answer_is_half_of_it(api: Api) -> None:
    """What arrived is no JSON, and the connection breaks."""
    async with api.server(faulty(CutFault())) as server:
        async with asked(api, server, api.body(stream=False)) as answer:
            got = await read_until_it_breaks(answer)
        assert got
        assert not is_json(got)
        await recovers(api, server)


@pytest.mark.parametrize("deltas", [0, 2])
async def test_a_stalled_stream_says_nothing_after_its_deltas(api: Api, deltas: int) -> None:
    """It stays open until the client leaves, which the server notices."""
    async with api.server(faulty(SilentFault(after_deltas=deltas))) as server:
        async with asked(api, server) as answer:
            got = b""
            while len(api.read(got).deltas if got.endswith(b"\n\n") else ()) < deltas or not got:
                got += await answer.content.readany()
            assert api.read(got).reason is None
            assert not answer.content.at_eof()
        assert (await server.wait_for(lambda event: event.kind == "left", SOON_S)).delta == deltas
        await recovers(api, server)


async def test_a_stalled_whole_answer_has_a_head_and_no_more(api: Api) -> None:
    """The status arrives, and then nothing."""
    async with api.server(faulty(SilentFault())) as server:
        async with asked(api, server, api.body(stream=False)) as answer:
            assert answer.status == 200
        await server.wait_for(lambda event: event.kind == "left", SOON_S)
        await recovers(api, server)


@pytest.mark.parametrize("stream", [True, False])
async def test_garbage_bytes_are_no_text(api: Api, stream: bool) -> None:
    """What arrives cannot be decoded."""
    async with api.server(faulty(GarbageFault())) as server:
        async with asked(api, server, api.body(stream=stream)) as answer:
            with pytest.raises(UnicodeDecodeError):
                (await answer.read()).decode()
        await recovers(api, server)


async def test_broken_json_is_one_event_among_good_ones(api: Api) -> None:
    """The stream is well-formed, one event's data is no JSON, and the answer follows."""
    async with api.server(faulty(GarbageFault(form="json"))) as server, asked(api, server) as answer:
        blocks = [block + "\n\n" for block in (await answer.read()).decode().split("\n\n")[:-1]]
    data = [block.partition("data: ")[2].strip() for block in blocks]
    broken = [place for place, text in enumerate(data) if text != "[DONE]" and not is_json(text.encode())]
    assert len(broken) == 1
    assert blocks[: broken[0]], "the stream had begun"
    good = "".join(block for place, block in enumerate(blocks) if place not in broken).encode()
    assert api.read(good).deltas == ("a", "b", "c")


async def test_a_whole_answer_of_broken_json_ends_in_good_order(api: Api) -> None:
    """All of it arrives, and it cannot be parsed."""
    async with api.server(faulty(GarbageFault(form="json"))) as server:
        async with asked(api, server, api.body(stream=False)) as answer:
            got = await answer.read()
        assert got
        assert not is_json(got)
        await recovers(api, server)


async def test_a_slow_first_byte_delays_the_head(api: Api) -> None:
    """A client with less patience gets nothing at all; one with more gets the whole answer."""
    async with api.server(Script(rules=(Rule(answer=(Text(deltas=("a",)),), fault=SlowFault(first_byte_s=0.3)),))) as server:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(sock_read=0.05)) as session:
            with pytest.raises(aiohttp.ServerTimeoutError):
                await session.post(server.base_url + api.path, json=api.body())
        assert (await answered(api, server)).deltas == ("a",)


async def test_a_failed_answer_ends_with_the_code(api: Api) -> None:
    """A stream has begun and carries it in its last event; a whole answer is a status of 500 with the same code."""
    rule = Rule(answer=(Text(deltas=("a",)),), fault=FailedFault(code="too_much", message="of it"))
    async with api.server(Script(rules=(rule,))) as server:
        async with asked(api, server) as answer:
            first, *_, last = (await answer.read()).decode().split("\n\n")[:-1]
        async with asked(api, server, api.body(stream=False)) as answer:
            assert answer.status == 500
            whole = await answer.text()
    assert "too_much" not in first
    for said in (last, whole):
        assert '"too_much"' in said
        assert '"of it"' in said


async def test_a_request_without_a_rule_is_refused_loudly(api: Api) -> None:
    """Status 400 in the form of the API, with what was asked in the message."""
    async with api.server(Script()) as server:
        async with asked(api, server, api.body("unheard of")) as answer:
            assert answer.status == 400
            assert "unheard of" in (await answer.json())["error"]["message"]
        assert len(server.unmatched) == 1


async def test_the_path_of_another_api_is_not_known(api: Api) -> None:
    """A client that was told the wrong API is refused, and shifts no rule of the script."""
    async with api.server(Script(rules=(say("first", match=Match(nth=1)),))) as server:
        for other in APIS:
            if other is not api:
                async with asked(other, server) as answer:
                    assert answer.status == 404
        assert (await answered(api, server)).deltas == ("first",)


@pytest.mark.parametrize("name", ["messages", "chat"])
def test_a_part_that_an_api_cannot_say_is_refused_before_it_starts(name: str) -> None:
    """A free-form call is peculiar to one API; elsewhere the script is wrong, and says with what."""
    with pytest.raises(ValueError, match="custom_call"):
        SERVERS[name](Script(rules=(Rule(answer=(CustomCall(name="patch", input="x"),)),)))


@pytest.mark.parametrize("arguments", ['{"broken": ', "[1]"])
async def test_arguments_that_are_no_object_are_sent_as_they_are(api: Api, arguments: str) -> None:
    """What a model gets wrong arrives wrong, byte for byte, piece by piece."""
    async with (
        api.server(Script(rules=(Rule(answer=(Call(name="f", arguments=arguments),)),))) as server,
        asked(api, server) as answer,
    ):
        stream = (await answer.read()).decode()
    places = [stream.index(json.dumps(piece)) for piece in halves(arguments)]
    assert places == sorted(places)


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


async def read_until_it_breaks(answer: aiohttp.ClientResponse) -> bytes:
    got = b""
    try:
        while not answer.content.at_eof():
            got += await answer.content.readany()
    except aiohttp.ClientPayloadError:
        return got
    pytest.fail("the answer ended in good order")
