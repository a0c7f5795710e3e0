"""How messages are told apart by headers: whole ones come out whatever the chunks, nonsense ends the connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from anyio.abc import ByteSendStream
from hypothesis import given
from hypothesis import strategies as st

from jamcore.api import Framing, MalformedError, Splitter
from jamcore.domain.limits import PROVIDER_LINE_BYTES
from jamcore.domain.providers import ProviderGoneError, ProviderProtocolError
from jamcore.plugins.framing import HEADER_BYTES, HeaderFraming, LineFraming
from jamcore.testing.doubles.wires import MakeWire

LIMIT_S = 5.0
HEADERS = HeaderFraming()


def framed(message: object) -> bytes:
    """Return a message as a peer that uses headers writes it."""
    return HEADERS.framed(json.dumps(message).encode())


@given(messages=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(1, 30), min_size=1))
def test_every_message_comes_out_whole_however_it_is_cut(messages: list[bytes], cuts: list[int]) -> None:
    """Also empty ones, and such as look like headers; nothing is left over, and nothing is held longer than it must be."""
    stream = b"".join(map(HEADERS.framed, messages))
    splitter, place, step, found = HEADERS.splitter(), 0, 0, list[bytes]()
    while place < len(stream):
        size = cuts[step % len(cuts)]
        found += splitter.feed(stream[place : place + size])
        place, step = place + size, step + 1
    assert found == messages
    assert splitter.pending == 0


def test_other_headers_and_their_case_do_not_matter() -> None:
    """A message may say its type too."""
    data = b"content-type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-LENGTH:2\r\n\r\n{}"
    assert list(HEADERS.splitter().feed(data)) == [b"{}"]


def test_what_is_not_whole_is_counted() -> None:
    """The end of a connection can so tell whether it came in the middle of a message."""
    splitter = HEADERS.splitter()
    assert list(splitter.feed(framed({})[:-1])) == []
    assert splitter.pending == len(framed({})) - 1


BAD: dict[str, tuple[bytes, str]] = {
    "a line of a log": (b"thread main panicked\r\n\r\n", "do not say how long"),
    "a length that is none": (b"Content-Length: ten\r\n\r\n", "do not say how long"),
    "a negative length": (b"Content-Length: -1\r\n\r\n", "do not say how long"),
    "two lengths": (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "do not say how long"),
    "a length of a million digits": (b"Content-Length: " + b"9" * 4_000 + b"\r\n\r\n", "do not say how long"),
    "headers without an end": (b"x" * HEADER_BYTES, "headers of more than"),
    "a message of 10 MB": (b"Content-Length: 10000000\r\n\r\n", "more than"),
}


@pytest.mark.parametrize("name", BAD)
def test_nonsense_is_refused_before_anything_is_held_for_it(name: str) -> None:
    """Messages before it still come out."""
    data, words = BAD[name]
    splitter = HEADERS.splitter()
    found = splitter.feed(framed({"n": 1}) + data)
    assert next(found) == b'{"n": 1}'
    with pytest.raises(MalformedError, match=words):
        next(found)


def test_a_limit_can_be_larger_than_the_usual_one() -> None:
    """For a program whose messages are; both forms take it."""
    large = b"x" * (PROVIDER_LINE_BYTES + 1)
    for usual, wider in ((LineFraming(), LineFraming(2 * PROVIDER_LINE_BYTES)), (HEADERS, HeaderFraming(2 * PROVIDER_LINE_BYTES))):
        assert list(wider.splitter().feed(wider.framed(large))) == [large]
        with pytest.raises(MalformedError, match="more than"):
            list(usual.splitter().feed(usual.framed(large)))


async def test_a_client_speaks_by_headers_in_both_directions(make_wire: MakeWire) -> None:
    """What it asks, what it is asked and what it is told have headers; answers find their request."""

    async def answer(method: str, params: dict[str, Any]) -> str:
        return f"{method} {params['n']}"

    wire = make_wire(framing=HEADERS, asked=answer)
    heard = HEADERS.splitter()

    async def hears() -> dict[str, Any]:
        while not (found := list(heard.feed(await wire.peer.stdin.receive()))):
            pass
        [message] = map(json.loads, found)
        return dict(message)

    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(
                wire.peer.says, framed({"method": "tick", "params": {"t": "\u00e9\n"}}), framed({"id": 1, "result": 7})
            )
            assert await wire.client.request("do", {"a": 1}) == 7
            assert await hears() == {"id": 1, "method": "do", "params": {"a": 1}}
            await wire.peer.says(framed({"id": 4, "method": "echo", "params": {"n": 5}}))
            assert await hears() == {"id": 4, "result": "echo 5"}
            await wire.client.caught_up()
    assert wire.log.notified == [("tick", {"t": "\u00e9\n"})]


@pytest.mark.parametrize(
    ("data", "expected", "words"),
    [
        (b"Segmentation fault\r\n\r\n", ProviderProtocolError, "do not say how long"),
        (b"Content-Length: 3\r\n\r\n[1]", ProviderProtocolError, "instead of an object"),
        (b"Content-Length: 0\r\n\r\n", ProviderProtocolError, "no JSON"),
        (b'Content-Length: 9\r\n\r\n{"id"', ProviderGoneError, "in the middle of a message"),
    ],
)
async def test_nonsense_ends_the_connection(make_wire: MakeWire, data: bytes, expected: type[Exception], words: str) -> None:
    """As it does with lines: one typed error, after what came before it was delivered."""
    wire = make_wire(framing=HEADERS)
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says(framed({"method": "good"}), data)
            await wire.peer.dies()
            await wire.log.end.wait()
    assert wire.log.notified == [("good", {})]
    [error] = wire.log.ended
    assert isinstance(error, expected)
    assert words in str(error)


class Mute:
    """Lines of which those are not sent that answer."""

    def splitter(self) -> Splitter:
        """See :meth:`Framing.splitter`."""
        return LineFraming().splitter()

    def framed(self, message: bytes) -> bytes:
        """See :meth:`Framing.framed`."""
        return b"" if b"id" in message else LineFraming().framed(message)


class Recorder(ByteSendStream):
    """Keeps each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    async def send(self, item: bytes) -> None:
        """Keep it."""
        self.writes.append(item)

    async def aclose(self) -> None:
        """Do nothing."""


async def test_a_framing_may_leave_a_message_out(make_wire: MakeWire) -> None:
    """Nothing at all is written for it: an empty write could be taken for the end of the input. What follows is sent."""
    wire, recorder = make_wire(framing=Mute()), Recorder()
    wire.client._stdin = recorder
    with anyio.fail_after(LIMIT_S):
        async with wire.client:
            await wire.peer.says({"id": 4, "method": "echo", "params": {"n": 5}}, {"method": "tick"})
            while not wire.log.notified:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            await wire.client.notify("hello")
            await anyio.wait_all_tasks_blocked()
    assert recorder.writes == [b'{"method":"hello"}\n']


class Typed(LineFraming):
    """Lines of another protocol: commands have a type, answers an `ok`, and events a type alone."""

    def framed(self, message: bytes) -> bytes:
        """See :meth:`Framing.framed`."""
        said = json.loads(message)
        return super().framed(json.dumps({"id": said["id"], "type": said["method"], **said["params"]}).encode())

    def splitter(self) -> Splitter:
        """See :meth:`Framing.splitter`."""
        return TypedLines(super().splitter())


class TypedLines:
    """Their way back."""

    def __init__(self, lines: Splitter) -> None:
        self._lines = lines

    @property
    def pending(self) -> int:
        """See :class:`Splitter`."""
        return self._lines.pending

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """See :class:`Splitter`."""
        for line in self._lines.feed(chunk):
            said = json.loads(line)
            if "type" not in said and "id" not in said:
                problem = "a line without a type"
                raise MalformedError(problem)
            answer = {"id": said.get("id"), "result": said.get("ok")}
            yield json.dumps({"method": said["type"], "params": said} if "type" in said else answer).encode()


async def test_a_framing_may_translate_another_protocol(make_wire: MakeWire) -> None:
    """The client then speaks it: requests, answers and events, and what the splitter refuses is nonsense of the program's."""
    framing: Framing = Typed()
    wire = make_wire(framing=framing)
    with anyio.fail_after(LIMIT_S):
        async with wire.client, anyio.create_task_group() as tasks:
            tasks.start_soon(wire.peer.says, {"type": "tick", "n": 1}, {"id": 1, "ok": 7})
            assert await wire.client.request("do", {"what": "this"}) == 7
            assert await wire.peer.hears() == {"id": 1, "type": "do", "what": "this"}
            await wire.peer.says({})
            await wire.log.end.wait()
    assert wire.log.notified == [("tick", {"type": "tick", "n": 1})]
    assert isinstance(wire.client.error, ProviderProtocolError)
    assert "a line without a type" in str(wire.client.error)
