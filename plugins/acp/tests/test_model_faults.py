"""What a failing model endpoint does to a turn of the real OpenCode: a typed end, or a turn that an interrupt ends; the session goes on."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jamcore.api import (
    ProviderEvent,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnFailure,
    TurnOutcome,
    TurnStarted,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.faults import CutFault, DownFault, FailedFault, Fault, GarbageFault, HttpFault, SilentFault, SlowFault
from jamcore.testing.servers.ledger import received
from jamcore.testing.servers.script import Match, Rule, Script, Text, say
from jamcore.testing.servers.server import ModelServer

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.anyio, pytest.mark.slow]

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
MODEL = "mock-model"
LIMIT_S = 60.0
ANSWER = (Text(deltas=("one ", "two")),)

ENDED: dict[str, tuple[Fault, TurnFailure]] = {
    "400": (HttpFault(status=400), TurnFailure.HTTP),
    "401": (HttpFault(status=401), TurnFailure.HTTP),
    "403": (HttpFault(status=403), TurnFailure.HTTP),
    "404": (HttpFault(status=404), TurnFailure.HTTP),
    "context_length_exceeded": (HttpFault(status=400, code="context_length_exceeded"), TurnFailure.CONTEXT_FULL),
    "garbage": (GarbageFault(form="json"), TurnFailure.OTHER),
}

ENDLESS: dict[str, Fault] = {
    "429": HttpFault(status=429),
    "500": HttpFault(status=500),
    "down": DownFault(),
    "failed": FailedFault(code="server_error"),
    "cut stream": CutFault(after_deltas=1),
    "stalled stream": SilentFault(after_deltas=1),
    "silence": SilentFault(),
}
"""OpenCode tries again for ever, ever more rarely, and says nothing meanwhile; a stream that stalls it leaves after five minutes."""


def script(fault: Fault, *, times: int | None = None) -> Script:
    """Return the script: the first text meets the fault, the second none. OpenCode sends a failed turn's text with the next."""
    return Script(
        rules=(
            say("fine", match=Match(last_user_contains="second")),
            Rule(match=Match(last_user_contains="first"), answer=ANSWER, fault=fault, fault_times=times),
            say("summary"),
        )
    )


@pytest.mark.parametrize("name", ENDED)
async def test_a_fault_ends_the_turn_with_its_code_and_the_session_goes_on(
    guest: LocalGuest, open_runtime: OpenRuntime, name: str
) -> None:
    """The end mark says FAILED and why, as far as OpenCode tells; the next turn in the same session completes."""
    fault, code = ENDED[name]
    async with ChatServer(script(fault)) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        failed = await run_turn(runtime, thread.identity, "first")
        after = await run_turn(runtime, thread.identity, "second")
    end = failed[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code) == (TurnOutcome.FAILED, code)
    assert end.detail
    assert isinstance(failed[0], TurnStarted)
    assert after[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


@pytest.mark.parametrize("name", ENDLESS)
async def test_silent_retries_end_with_an_interrupt_and_the_session_goes_on(
    guest: LocalGuest, open_runtime: OpenRuntime, name: str
) -> None:
    """OpenCode answers an interrupt there as if the turn had come to its end; it is told as what it was."""
    events: list[ProviderEvent] = []
    async with ChatServer(script(ENDLESS[name])) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "first") as stream, anyio.create_task_group() as tasks:
                tasks.start_soon(interrupt_after, 1 if isinstance(ENDLESS[name], SilentFault) else 2, model, runtime, identity)
                events += [event async for event in stream]
        after = await run_turn(runtime, thread.identity, "second")
    assert events[-1] == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
    assert after[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def interrupt_after(requests: int, model: ModelServer, runtime: ProviderRuntime, identity: str) -> None:
    """Interrupt once the model was asked so often: the last of them is the provider's own retry."""
    await model.wait_for(received(requests), LIMIT_S)
    await runtime.interrupt(provider_identity(identity))


@pytest.mark.parametrize("fault", [HttpFault(status=429), CutFault(after_deltas=1)], ids=["429", "cut stream"])
async def test_a_passing_fault_is_retried(guest: LocalGuest, open_runtime: OpenRuntime, fault: Fault) -> None:
    """Once only: the turn completes by OpenCode's own retry, and the last message is whole."""
    async with ChatServer(script(fault, times=1)) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "first")
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert [event.text for event in events if event.kind == "message"][-1].endswith("one two")
    assert any(isinstance(event, TextDelta) for event in events)


async def test_a_slow_first_byte_is_only_slow(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Half a second of silence before the answer changes nothing."""
    async with ChatServer(script(SlowFault(first_byte_s=0.5))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        assert (await run_turn(runtime, thread.identity, "first"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_an_unreachable_endpoint_ends_with_an_interrupt(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Nobody listens: OpenCode tries for ever, and whoever waits can end it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = _Nowhere(f"http://127.0.0.1:{unused.getsockname()[1]}")
        async with open_runtime(guest, nobody) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            identity = provider_identity(thread.identity)
            with anyio.fail_after(LIMIT_S):
                async with runtime.turn(identity, "first") as stream:
                    assert isinstance(await anext(stream), TurnStarted)
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(runtime.interrupt, identity)
                        rest = [event async for event in stream]
    assert rest[-1] == TurnEnded(outcome=TurnOutcome.INTERRUPTED)


class _Nowhere(ChatServer):
    """The address of a server that is not there."""

    def __init__(self, url: str) -> None:
        super().__init__(Script())
        self._base_url = url
