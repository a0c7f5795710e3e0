"""What a failing model endpoint does to a turn of the real Copilot: a typed end with a stable code, and a thread that goes on."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jamcore.api import (
    Message,
    Notice,
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
from jamcore.testing.servers.history import AssistantText, conversation
from jamcore.testing.servers.responses import (
    CutFault,
    DownFault,
    FailedFault,
    Fault,
    GarbageFault,
    HttpFault,
    Match,
    ResponsesServer,
    Rule,
    Script,
    SilentFault,
    SlowFault,
    Text,
    say,
)

pytestmark = [pytest.mark.needs("copilot"), pytest.mark.anyio]

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MODEL = "mock-model"
LIMIT_S = 60.0
LONGEST_S = 120.0
"""Copilot's own retries cannot be bounded: those of a 429 take a minute."""

ANSWER = (Text(deltas=("one ", "two")),)

FAULTS: dict[str, tuple[Fault, TurnFailure]] = {
    "400": (HttpFault(status=400), TurnFailure.BAD_REQUEST),
    "401": (HttpFault(status=401), TurnFailure.UNAUTHORISED),
    "403": (HttpFault(status=403), TurnFailure.UNAUTHORISED),
    "404": (HttpFault(status=404), TurnFailure.NOT_FOUND),
    "cut stream": (CutFault(after_deltas=1), TurnFailure.STREAM_CUT),
    "garbage": (GarbageFault(form="bytes"), TurnFailure.STREAM_CUT),
}
SLOW: dict[str, tuple[Fault, TurnFailure]] = {
    "429": (HttpFault(status=429), TurnFailure.RATE_LIMITED),
    "500": (HttpFault(status=500), TurnFailure.SERVER_ERROR),
    "503": (HttpFault(status=503), TurnFailure.SERVER_ERROR),
    "a failure of the API's own": (FailedFault(code="server_is_overloaded"), TurnFailure.OTHER),
}


@pytest.mark.parametrize("name", [*FAULTS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
async def test_a_fault_ends_the_turn_with_its_code_and_the_thread_goes_on(
    guest: LocalGuest, open_runtime: OpenRuntime, name: str
) -> None:
    """After Copilot's own bounded retries the end mark says FAILED and why; the next turn in the same thread completes."""
    fault, code = (FAULTS | SLOW)[name]
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="first"), answer=ANSWER, fault=fault),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        failed = await run_turn(runtime, thread.identity, "first", timeout_s=LONGEST_S)
        asked = len(model.model_requests)
        after = await run_turn(runtime, thread.identity, "second")
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
    end = failed[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code) == (TurnOutcome.FAILED, code)
    assert end.detail
    assert isinstance(failed[0], TurnStarted)
    assert after[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert asked <= 6
    if code is not TurnFailure.RATE_LIMITED:  # of these retries Copilot says nothing
        assert len([event for event in failed if isinstance(event, Notice)]) == asked - 1
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.FAILED, TurnOutcome.COMPLETED]


@pytest.mark.parametrize("fault", [CutFault(after_deltas=1), DownFault()], ids=["cut", "down"])
async def test_a_passing_fault_is_retried_and_only_a_notice_remains(
    guest: LocalGuest, open_runtime: OpenRuntime, fault: Fault
) -> None:
    """One cut stream: the turn completes by Copilot's own retry, a person can see that there was one, and the half answer is not kept."""
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="first"), answer=ANSWER, fault=fault, fault_times=1),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "first")
        await run_turn(runtime, thread.identity, "second")
        told = conversation(model.model_requests[-1].body)
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert [event for event in events if isinstance(event, Notice) and "Retrying" in event.text]
    assert [event.text for event in events if isinstance(event, Message)] == ["one two"]
    assert [item.text for item in told if isinstance(item, AssistantText)] == ["one two"]


async def test_a_slow_first_byte_is_only_slow(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Half a second of silence before the answer changes nothing."""
    script = Script(rules=(Rule(answer=ANSWER, fault=SlowFault(first_byte_s=0.5)),))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        assert (await run_turn(runtime, thread.identity, "first"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_a_stalled_stream_can_be_interrupted(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Copilot waits; the core's deadline for a turn then interrupts it, and the thread takes the next turn."""
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="first"), answer=ANSWER, fault=SilentFault(after_deltas=1)),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "first") as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        await runtime.interrupt(identity)
        assert event == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
        assert (await run_turn(runtime, identity, "second"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


@pytest.mark.slow
async def test_an_unreachable_endpoint_ends_the_turn(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Nobody listens: the turn fails within its retries instead of waiting for ever, and says that it was the connection."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = _Nowhere(f"http://127.0.0.1:{unused.getsockname()[1]}")
        async with open_runtime(guest, nobody) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            end = (await run_turn(runtime, thread.identity, "first", timeout_s=LONGEST_S))[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code) == (TurnOutcome.FAILED, TurnFailure.UNREACHABLE)


class _Nowhere(ResponsesServer):
    """The address of a server that is not there."""

    def __init__(self, url: str) -> None:
        super().__init__(Script())
        self._base_url = url
