"""How a line client ends: a peer that dies or talks nonsense, an owner that leaves."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from jamcore.domain.errors import JamError
from jamcore.domain.limits import PROVIDER_LINE_BYTES
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError
from jamcore.plugins.jsonrpc import STDERR_BYTES
from jamcore.testing.doubles.wires import MakeWire, Peer

LIMIT_S = 5.0


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
    "half a surrogate pair in bytes": (b'{"method":"m","params":{"t":"\xed\xa0\xbd"}}\n', "no JSON"),
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
