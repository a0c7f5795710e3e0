"""A line client over real pipes: what it sends and delivers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from jamcore.domain.providers import ProviderGoneError, ProviderTimeoutError
from jamcore.plugins.jsonrpc import RemoteError
from jamcore.testing.doubles.wires import MakeWire

LIMIT_S = 5.0


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


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\uDE00 cut", "\ufffd cut"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83d\u0041", "\ufffdA"),
        (rb"\\ud83d \n\"", '\\ud83d \n"'),
        (rb"\\\ud83d", "\\\ufffd"),
    ],
)
async def test_half_a_surrogate_pair_becomes_a_replacement(make_wire: MakeWire, written: bytes, read: str) -> None:
    """Programs write one wherever they cut a text inside an emoji, and nothing could store it; every other text is what was written."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says(b'{"method":"told","params":{"t":"' + written + b'"}}\n')
            await wire.peer.dies()
            await wire.log.end.wait()
    assert wire.log.notified == [("told", {"t": read})]


async def test_a_byte_order_mark_is_passed_over(make_wire: MakeWire) -> None:
    """Some programs begin their output with one, and it is no part of the message."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says(b'\xef\xbb\xbf{"method":"told"}\n')
            await wire.peer.dies()
            await wire.log.end.wait()
    assert wire.log.notified == [("told", {})]


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


async def test_a_request_of_the_peer_stands_behind_what_was_told_before_it(make_wire: MakeWire) -> None:
    """However slow the subscriber is: what is asked about was announced in what came before, and is known when a person is asked."""
    taken, may_take = list[str](), anyio.Event()

    async def slowly(method: str, params: dict[str, Any]) -> None:
        await may_take.wait()
        taken.append(method)

    async def answer(method: str, params: dict[str, Any]) -> list[str]:
        return list(taken)

    wire = make_wire(notified=slowly, asked=answer)
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says({"method": "begun"}, {"method": "announced"}, {"id": 0, "method": "may"})
            await anyio.wait_all_tasks_blocked()
            may_take.set()
            assert (await wire.peer.hears())["result"] == ["begun", "announced"]


@pytest.mark.parametrize("handled", [True, False])
async def test_what_is_refused_anyway_need_not_wait_for_the_subscriber(make_wire: MakeWire, *, handled: bool) -> None:
    """A subscriber that waits for an answer of the peer, which waits to be refused first, comes on."""

    async def refuse(method: str, params: dict[str, Any]) -> None:
        raise RemoteError(-1, method)

    answers = list[str]()

    async def asks(method: str, params: dict[str, Any]) -> None:
        answers.append(await wire.client.request("save"))

    wire = make_wire(notified=asks, **({"asked": refuse, "asked_at_once": True} if handled else {}))
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says({"method": "begun"})
            assert (await wire.peer.hears())["method"] == "save"
            await wire.peer.says({"id": 0, "method": "may"})
            assert (await wire.peer.hears())["error"]["code"] == (-1 if handled else -32601)
            await wire.peer.says({"id": 1, "result": "saved"})
            await wire.client.caught_up()
    assert answers == ["saved"]


async def test_without_a_handler_the_peers_requests_are_refused(make_wire: MakeWire) -> None:
    """The answer is JSON-RPC's own: method not found."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says({"id": 9, "method": "allow/this"})
            assert (await wire.peer.hears())["error"]["code"] == -32601


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


async def test_catching_up_puts_an_answer_after_the_notifications_before_it(make_wire: MakeWire) -> None:
    """An answer overtakes what a slow subscriber has not taken yet; who catches up has it all, and what comes later is not waited for."""
    wire = make_wire()
    taken, may_take = wire.log.notified, anyio.Event()
    seen: list[int] = []

    async def slowly(method: str, params: dict[str, Any]) -> None:
        await may_take.wait()
        taken.append((method, params))

    wire.client._notified = slowly
    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            await wire.peer.says(*({"method": "tick", "params": {"n": n}} for n in range(10)))
            tasks.start_soon(wire.peer.says, {"id": 1, "result": True})
            assert await wire.client.request("do") is True
            assert taken == []

            async def caught_up() -> None:
                await wire.client.caught_up()
                seen.append(len(taken))

            tasks.start_soon(caught_up)
            tasks.start_soon(caught_up)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            may_take.set()
    assert seen == [10, 10]


async def test_an_answer_has_its_place_among_the_notifications(make_wire: MakeWire) -> None:
    """Who asks for it hears of the answer behind what was told before it, and ahead of what was told in the same breath."""
    order: list[str] = []
    wire = make_wire()

    async def told(method: str, params: dict[str, Any]) -> None:
        del params
        order.append(method)

    wire.client._notified = told
    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(wire.peer.says, {"method": "before"}, {"id": 1, "result": True}, {"method": "after"})
            assert await wire.client.request("do", answered=lambda: order.append("answer")) is True
            await wire.client.caught_up()
            while "after" not in order:
                await anyio.lowlevel.checkpoint()
    assert order == ["before", "answer", "after"]


async def test_catching_up_ends_with_the_connection(make_wire: MakeWire) -> None:
    """Nobody waits for a subscriber that takes nothing more."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says({"method": "tick"})
            await wire.peer.dies()
            await wire.log.end.wait()
            await wire.client.caught_up()
    assert wire.log.notified == [("tick", {})]
