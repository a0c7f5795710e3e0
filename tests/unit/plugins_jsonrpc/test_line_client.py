"""A line client over real pipes: what it delivers, and how it ends when the peer misbehaves."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.limits import PROVIDER_LINE_BYTES
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError, ProviderTimeoutError
from jamcore.plugins.jsonrpc import STDERR_BYTES, LineClient, RemoteError
from jamcore.system.pipes import PipeReader, PipeWriter

LIMIT_S = 5.0


@dataclass
class Peer:
    """The other side: three pipes, written and read by the test."""

    stdin: PipeReader
    stdout: PipeWriter
    stderr: PipeWriter
    heard: bytearray = field(default_factory=bytearray)

    async def says(self, *messages: object) -> None:
        """Write messages, or bytes as they are."""
        for message in messages:
            await self.stdout.send(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    async def hears(self) -> dict[str, Any]:
        """Read the next message."""
        while b"\n" not in self.heard:
            self.heard += await self.stdin.receive()
        line, _, rest = bytes(self.heard).partition(b"\n")
        self.heard = bytearray(rest)
        message: dict[str, Any] = json.loads(line)
        return message

    async def dies(self) -> None:
        """Close everything."""
        for stream in (self.stdin, self.stdout, self.stderr):
            await stream.aclose()


@dataclass
class Log:
    """What the client told its owner."""

    notified: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    ended: list[JamError] = field(default_factory=list)
    end: anyio.Event = field(default_factory=anyio.Event)

    async def note(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification."""
        self.notified.append((method, params))

    async def over(self, error: JamError) -> None:
        """Take the end."""
        self.ended.append(error)
        self.end.set()


@dataclass
class Wire:
    """A client, not yet entered, its peer and its log."""

    client: LineClient
    peer: Peer
    log: Log


MakeWire = Callable[..., Wire]


@pytest.fixture
async def make_wire() -> AsyncIterator[MakeWire]:
    async with AsyncExitStack() as stack:

        def make(**options: Any) -> Wire:
            (in_r, in_w), (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe(), os.pipe()
            streams = PipeWriter(in_w), PipeReader(out_r), PipeReader(err_r)
            peer = Peer(PipeReader(in_r), PipeWriter(out_w), PipeWriter(err_w))
            for stream in (*streams, peer.stdin, peer.stdout, peer.stderr):
                stack.push_async_callback(stream.aclose)
            log = Log()
            client = LineClient(*streams, **{"provider": "sample", "notified": log.note, "ended": log.over, **options})
            return Wire(client, peer, log)

        yield make


async def test_a_request_gets_the_answer_with_its_id_whatever_the_order(make_wire: MakeWire) -> None:
    """Two requests in flight each get their own result, though the peer answers the later one first."""
    wire = make_wire()
    results: dict[str, Any] = {}

    async def ask(method: str) -> None:
        results[method] = await wire.client.request(method, {"x": 1})

    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "first")
            first = await wire.peer.hears()
            tasks.start_soon(ask, "second")
            second = await wire.peer.hears()
            await wire.peer.says({"id": second["id"], "result": "two"}, {"id": first["id"], "result": None})
    assert results == {"first": None, "second": "two"}
    assert first == {"id": 1, "method": "first", "params": {"x": 1}}


async def test_the_jsonrpc_member_is_sent_when_asked_for_and_accepted_always(make_wire: MakeWire) -> None:
    """A strict peer gets `jsonrpc`; a message that carries it is read like any other."""
    wire = make_wire(jsonrpc=True)
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.client.notify("hello")
            assert await wire.peer.hears() == {"jsonrpc": "2.0", "method": "hello"}
            await wire.peer.says({"jsonrpc": "2.0", "method": "there", "params": {}})
            await wire.peer.dies()
            await wire.log.end.wait()
    assert wire.log.notified == [("there", {})]


async def test_an_error_answer_is_raised_with_its_number_and_bounded_words(make_wire: MakeWire) -> None:
    """The peer's words arrive cut and without control sequences, its number and data as they are."""
    wire = make_wire()
    words = "\x1b[31mno\x07 such thing" + "x" * 10_000
    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(wire.peer.says, {"id": 1, "error": {"code": -32600, "message": words, "data": {"k": 1}}})
            with pytest.raises(RemoteError) as caught:
                await wire.client.request("do")
    assert (caught.value.number, caught.value.data) == (-32600, {"k": 1})
    assert caught.value.message.startswith("no such thingx")
    assert len(caught.value.message) == 2_000


async def test_notifications_arrive_in_order_and_before_the_end(make_wire: MakeWire) -> None:
    """What was written before the peer died is delivered whole and in order; then the owner is told once."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            for start in range(0, 3_000, 100):
                await wire.peer.says(*({"method": "tick", "params": {"n": start + n}} for n in range(100)))
            await wire.peer.dies()
            await wire.log.end.wait()
    assert [params["n"] for _, params in wire.log.notified] == list(range(3_000))
    assert [type(error) for error in wire.log.ended] == [ProviderGoneError]


BAD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"Segmentation fault\n", "no JSON"),
    "invalid UTF-8": (b'{"method":"\xff"}\n', "no JSON"),
    "deep nesting": (b"[" * 100_000 + b"\n", "no JSON"),
    "an array": (b"[1]\n", "instead of an object"),
    "a number": (b"7\n", "instead of an object"),
    "an empty object": (b"{}\n", "neither a call nor an answer"),
    "a method that is no text": (b'{"method":3}\n', "no text"),
    "parameters that are a list": (b'{"method":"m","params":[1]}\n', "no object"),
    "a request whose id is an object": (b'{"method":"m","id":{}}\n', "id"),
    "a request whose id is a truth value": (b'{"method":"m","id":true}\n', "id"),
    "result and error": (b'{"id":1,"result":1,"error":{"code":1,"message":""}}\n', "neither a call nor an answer"),
    "an answer without an id": (b'{"result":1}\n', "id"),
    "an error that is a string": (b'{"id":1,"error":"no"}\n', "wrong shape"),
    "half a surrogate pair": (b'{"method":"m","params":{"t":"\\ud800"}}\n', "surrogate"),
    "an unknown answer id": (b'{"id":77,"result":1}\n', "77"),
    "an id from the future": (b'{"id":2,"result":1}\n', "2"),
    "a line of 10 MB": (b'{"method":"' + b"x" * 10_000_000 + b'"}\n', "more than"),
    "an endless line": (b"x" * (PROVIDER_LINE_BYTES + 1), "more than"),
}


@pytest.mark.parametrize("name", BAD)
async def test_nonsense_ends_the_connection_with_a_typed_error_and_loses_nothing(make_wire: MakeWire, name: str) -> None:
    """Bad bytes fail the request that waits and every later one, after what came before them was delivered."""
    wire = make_wire()
    data, words = BAD[name]
    errors: list[JamError] = []

    async def ask() -> None:
        with pytest.raises(ProviderProtocolError) as caught:
            await wire.client.request("wait")
        errors.append(caught.value)

    async def send() -> None:
        await wire.peer.says({"method": "good", "params": {"n": 1}})
        await wire.peer.says(data)

    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await wire.peer.hears()
            tasks.start_soon(send)
            await wire.log.end.wait()
            with pytest.raises(ProviderProtocolError):
                await wire.client.request("later")
            tasks.cancel_scope.cancel()  # the rest of a line that is too long stays in the pipe
    assert wire.log.notified == [("good", {"n": 1})]
    assert words in errors[0].context()["problem"]
    assert errors[0].context()["provider"] == "sample"
    assert len(wire.log.ended) == 1


async def test_an_answer_given_twice_is_nonsense(make_wire: MakeWire) -> None:
    """The second answer with one id ends the connection; the first one counted."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(wire.peer.says, {"id": 1, "result": "a"}, {"id": 1, "result": "b"})
            assert await wire.client.request("once") == "a"
            await wire.log.end.wait()
    assert isinstance(wire.log.ended[0], ProviderProtocolError)


async def test_half_a_message_then_the_end_says_so_with_the_last_words(make_wire: MakeWire) -> None:
    """A peer that dies in the middle of a line is gone; the error quotes its error output without control characters."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(_half_then_dies, wire.peer)
            with pytest.raises(ProviderGoneError) as caught:
                await wire.client.request("wait")
    assert "in the middle of a message" in caught.value.detail
    assert caught.value.detail.endswith("it said: panicked at main.rs")


async def _half_then_dies(peer: Peer) -> None:
    await peer.hears()
    await peer.stderr.send(b"\x1b]0;x\x07\x1b[1mpanicked at main.rs\n")
    await peer.says(b'{"id":1,"resu')
    await peer.dies()


async def test_every_waiting_request_fails_once_when_the_peer_dies(make_wire: MakeWire) -> None:
    """Fifty requests in flight each get an error object of their own."""
    wire = make_wire()
    errors: list[ProviderGoneError] = []

    async def ask() -> None:
        with pytest.raises(ProviderGoneError) as caught:
            await wire.client.request("wait")
        errors.append(caught.value)

    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(ask)
            for _ in range(50):
                await wire.peer.hears()
            await wire.peer.dies()
    assert len({id(error) for error in errors}) == 50


async def test_a_peer_that_no_longer_reads_is_gone_after_what_it_still_said(make_wire: MakeWire) -> None:
    """Its input is closed but its output is not: a request fails within the grace, and the last notification arrives."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.stdin.aclose()
            await wire.peer.says({"method": "last"})
            with pytest.raises(ProviderGoneError):
                await wire.client.request("anything")
            await wire.log.end.wait()
    assert wire.log.notified == [("last", {})]


async def test_a_late_answer_is_dropped_and_the_connection_goes_on(make_wire: MakeWire) -> None:
    """A request that ran out of time names itself and its limit; its answer, when it comes, disturbs nobody."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            with pytest.raises(ProviderTimeoutError) as caught:
                await wire.client.request("slow", timeout_s=0.01)
            tasks.start_soon(wire.peer.says, {"id": 1, "result": "late"}, {"id": 2, "result": "next"})
            assert await wire.client.request("quick") == "next"
    assert (caught.value.request, caught.value.limit_s) == ("slow", 0.01)


async def test_a_cancelled_request_leaves_whole_lines_behind(make_wire: MakeWire) -> None:
    """Cancelled while the pipe is full, a large request is sent whole or not at all: the peer reads JSON only."""
    wire = make_wire()
    heard: list[str] = []
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            for n in range(100):  # far more than the pipe and the queue hold
                with anyio.move_on_after(0.001):
                    await wire.client.request(f"m{n}", {"filler": "x" * 50_000})

            async def listen() -> None:
                while True:
                    message = await wire.peer.hears()
                    heard.append(message["method"])
                    if message["method"] == "last":
                        await wire.peer.says({"id": message["id"], "result": True})

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                assert await wire.client.request("last") is True
                tasks.cancel_scope.cancel()
    assert heard[-1] == "last"
    assert heard[:-1] == [f"m{n}" for n in range(len(heard) - 1)]


async def test_the_peers_requests_are_answered_in_their_own_id_space(make_wire: MakeWire) -> None:
    """A result, a refusal and a handler's own fault each become one answer; the ids may be numbers or texts and repeat ours."""

    async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "refuse":
            raise RemoteError(-1, "no")
        return {"echo": params["v"]}  # KeyError without it

    wire = make_wire(asked=answer)
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says(
                {"id": 0, "method": "echo", "params": {"v": 5}}, {"id": "a", "method": "refuse"}, {"id": 1, "method": "echo"}
            )
            answers = {str(m["id"]): m for m in [await wire.peer.hears() for _ in range(3)]}
    assert answers["0"]["result"] == {"echo": 5}
    assert answers["a"]["error"] == {"code": -1, "message": "no"}
    assert answers["1"]["error"] == {"code": -32603, "message": "KeyError"}


async def test_without_a_handler_the_peers_requests_are_refused(make_wire: MakeWire) -> None:
    """The answer is JSON-RPC's own: method not found."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says({"id": 9, "method": "allow/this"})
            assert (await wire.peer.hears())["error"]["code"] == -32601


async def test_a_subscriber_that_raises_ends_its_own_connection_only(make_wire: MakeWire) -> None:
    """The fault is a typed error that names the message, not an exception that tears the owner's tasks down."""

    async def stumble(method: str, params: dict[str, Any]) -> None:
        raise KeyError(method)

    wire = make_wire(notified=stumble)
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says({"method": "odd"})
            await wire.log.end.wait()
    assert isinstance(wire.log.ended[0], ProviderProtocolError)
    assert "odd" in wire.log.ended[0].problem


async def test_a_slow_subscriber_slows_the_peer_and_loses_nothing(make_wire: MakeWire) -> None:
    """While the subscriber waits, the peer can write a bounded amount; afterwards everything arrives in order."""
    gate, got = anyio.Event(), list[int]()

    async def slow(method: str, params: dict[str, Any]) -> None:
        await gate.wait()
        got.append(params["n"])

    wire = make_wire(notified=slow)
    sent = 0
    with anyio.fail_after(4 * LIMIT_S):
        async with wire.client:
            while True:
                with anyio.move_on_after(0.5) as scope:
                    await wire.peer.says({"method": "m", "params": {"n": sent, "filler": "x" * 400_000}})
                    sent += 1
                if scope.cancelled_caught:
                    break
            gate.set()
            await wire.peer.dies()  # in the middle of the line that did not fit
            await wire.log.end.wait()
    assert got == list(range(sent))
    assert sent < 100  # 32 MiB of 400 kB each, and what the pipes hold


async def test_error_output_is_drained_and_its_end_kept(make_wire: MakeWire) -> None:
    """A peer that writes a megabyte of errors never blocks, and the last 64 KiB can be read."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            for n in range(1_000):
                await wire.peer.stderr.send(f"{n:06d}\x1b[0m".encode() + b"." * 1_000 + b"\n")
            await wire.peer.dies()
            await wire.log.end.wait()
    tail = wire.client.stderr_tail
    assert "000999" in tail
    assert "000900" not in tail
    assert "\x1b" not in tail
    assert len(tail) <= STDERR_BYTES


async def test_finish_closes_the_input_and_waits_for_the_end(make_wire: MakeWire) -> None:
    """What was asked before is sent first; then the peer reads the end, says its last and the owner learns it in time."""
    wire = make_wire()

    async def polite() -> None:
        assert (await wire.peer.hears())["method"] == "bye"
        with pytest.raises(anyio.EndOfStream):
            await wire.peer.stdin.receive()
        await wire.peer.says({"method": "last words"})
        await wire.peer.dies()

    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(polite)
            await wire.client.notify("bye")
            assert await wire.client.finish(2.0)
            await wire.log.end.wait()
    assert wire.log.notified == [("last words", {})]


async def test_finish_gives_up_on_a_peer_that_stays(make_wire: MakeWire) -> None:
    """The bound holds; the owner then ends the process."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            assert not await wire.client.finish(0.01)


async def test_the_bodys_own_error_passes_unwrapped(make_wire: MakeWire) -> None:
    """An error inside the context arrives as itself, not in an exception group."""
    wire = make_wire()
    with pytest.raises(LookupError, match="mine"):
        async with wire.client:
            raise LookupError("mine")


async def test_cancellation_of_the_owner_ends_the_client(make_wire: MakeWire) -> None:
    """A client inside a cancelled scope leaves quickly and swallows nothing of the cancellation."""
    wire = make_wire()
    reached = False
    with anyio.fail_after(LIMIT_S):
        with anyio.move_on_after(0.02) as scope:
            async with wire.client:
                await wire.client.request("never")
            reached = True
    assert scope.cancelled_caught
    assert not reached


async def test_a_cancelled_owner_can_still_speak_in_its_finaliser(make_wire: MakeWire) -> None:
    """The connection lives until its context is left, so a shielded last request is sent and answered."""
    wire = make_wire()
    answers: list[Any] = []

    async def own() -> None:
        async with wire.client:
            try:
                await wire.client.request("never")
            finally:
                with anyio.CancelScope(shield=True):
                    answers.append(await wire.client.request("goodbye", timeout_s=2))

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as owner:
            owner.start_soon(own)
            await wire.peer.hears()
            owner.cancel_scope.cancel()
            tasks.start_soon(wire.peer.says, {"id": 2, "result": "bye"})
    assert answers == ["bye"]
