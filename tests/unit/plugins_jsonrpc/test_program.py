"""What the runtime of any provider does with its program: it asks it, knows its version and its end, and ends it."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import cast

import anyio
import pytest

from jamcore.domain.providers import ProviderGoneError, ProviderRefusedError, ProviderTimeoutError
from jamcore.plugins.program import ProgramRuntime, speaking
from jamcore.plugins.turnstream import TurnStream
from jamcore.system.guest import GuestProcess
from jamcore.testing.doubles.wires import MakeWire

LIMIT_S = 5.0
GONE = ProviderGoneError(provider="p", detail="it died")


class Process:
    """A process that notes when it is closed."""

    def __init__(self) -> None:
        self.closed = False

    async def aclose(self) -> None:
        """Note it."""
        await anyio.lowlevel.checkpoint()
        self.closed = True


@pytest.fixture
def process() -> Iterator[GuestProcess]:
    """A process that must be closed when the test is over."""
    made = Process()
    yield cast("GuestProcess", made)
    assert made.closed


# ------------------------------------------------------------------------------------------------------------------- asking


async def test_what_the_program_refuses_is_a_refusal_with_its_words(make_wire: MakeWire, process: GuestProcess) -> None:
    """A result comes as it is; an error, and an answer that is late, say what was asked."""
    wire, runtime = make_wire(), ProgramRuntime("p")
    with anyio.fail_after(LIMIT_S):
        async with speaking(process, wire.client, shutdown_s=0):
            runtime.connect(wire.client)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wire.peer.says, {"id": 1, "result": 7})
                assert await runtime.ask("do", {}, LIMIT_S) == 7
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wire.peer.says, {"id": 2, "error": {"code": 4, "message": "not here"}})
                with pytest.raises(ProviderRefusedError, match="not here") as refused:
                    await runtime.ask("do", {}, LIMIT_S)
            assert (refused.value.provider, refused.value.request) == ("p", "do")
            with pytest.raises(ProviderTimeoutError):
                await runtime.ask("do", {}, 0)


async def test_where_each_thread_has_a_program_the_one_that_is_meant_is_asked(make_wire: MakeWire, process: GuestProcess) -> None:
    """Nothing is connected; a refusal is said in the same words as that of the only program."""
    wire, runtime = make_wire(), ProgramRuntime("p")
    with anyio.fail_after(LIMIT_S):
        async with speaking(process, wire.client, shutdown_s=0), anyio.create_task_group() as tasks:
            tasks.start_soon(wire.peer.says, {"id": 1, "result": 7})
            assert await runtime.ask("do", MappingProxyType({"n": 1}), LIMIT_S, client=wire.client) == 7
            assert await wire.peer.hears() == {"id": 1, "method": "do", "params": {"n": 1}}
            tasks.start_soon(wire.peer.says, {"id": 2, "error": {"code": 4, "message": "not here"}})
            with pytest.raises(ProviderRefusedError, match="not here"):
                await runtime.ask("do", {}, LIMIT_S, client=wire.client)


async def test_a_program_that_was_not_started_is_asked_nothing() -> None:
    """The error says so, and names the provider."""
    with pytest.raises(ProviderGoneError, match="has not been started"):
        await ProgramRuntime("p").ask("do", {}, LIMIT_S)


@pytest.mark.parametrize(("version", "expected"), [("1.0", "1.0"), ("1.0", None), ("", None)])
def test_the_expected_version_is_learnt(version: str, expected: str | None) -> None:
    """Nobody expects anything: any version will do."""
    runtime = ProgramRuntime("p")
    runtime.require_version(version, expected, "hello")
    assert runtime.version == version


@pytest.mark.parametrize(("version", "words"), [("1.0", "is 1.0, not 1.1"), ("", "of no version that it says, not 1.1")])
def test_another_version_is_refused(version: str, words: str) -> None:
    """Both are named."""
    with pytest.raises(ProviderRefusedError, match=words):
        ProgramRuntime("p").require_version(version, "1.1", "hello")


async def test_the_first_reason_of_an_end_stands_and_ends_the_turns() -> None:
    """Whoever waits for it hears it, and each running turn has it."""
    runtime, turn = ProgramRuntime("p"), TurnStream("t1")
    runtime.end(GONE, turn, None)
    runtime.end(ProviderGoneError(provider="p", detail="another reason"))
    with anyio.fail_after(LIMIT_S):
        assert "it died" in await runtime.closed()
        with pytest.raises(ProviderGoneError, match="it died"):
            await anext(turn)
    turn.leave()


# ------------------------------------------------------------------------------------------------------------------- ending


async def test_a_program_is_told_the_last_thing_before_its_input_is_closed(make_wire: MakeWire, process: GuestProcess) -> None:
    """Also when its owner is cancelled: what is said last is heard, then the input ends."""
    wire = make_wire()

    async def last() -> None:
        await wire.client.notify("farewell")

    with anyio.fail_after(LIMIT_S):
        with anyio.CancelScope() as owner:
            async with speaking(process, wire.client, shutdown_s=0.01, last=last):
                owner.cancel()
                await anyio.sleep_forever()
        assert await wire.peer.hears() == {"method": "farewell"}
        with pytest.raises(anyio.EndOfStream):
            await wire.peer.stdin.receive()


async def test_a_program_that_does_not_end_by_itself_is_closed(make_wire: MakeWire, process: GuestProcess) -> None:
    """Its owner waits for a bounded time, and the block's own error passes."""
    wire = make_wire()
    with anyio.fail_after(LIMIT_S), pytest.raises(KeyError):
        async with speaking(process, wire.client, shutdown_s=0.01):
            raise KeyError
