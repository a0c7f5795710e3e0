"""What a failing model endpoint does to a turn of the real Codex: a typed end with a stable code, and a thread that goes on."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from jamcore.api import (
    Notice,
    ProviderRuntime,
    ThreadRequest,
    TurnEnded,
    TurnFailure,
    TurnOutcome,
    TurnStarted,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.responses import (
    CutFault,
    FailedFault,
    Fault,
    GarbageFault,
    HttpFault,
    Match,
    ResponsesServer,
    Rule,
    Script,
    SlowFault,
    Text,
    say,
)

pytestmark = [pytest.mark.needs("codex"), pytest.mark.anyio]

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MODEL = "mock-model"
LIMIT_S = 60.0

ANSWER = (Text(deltas=("one ", "two")),)

FAULTS: dict[str, tuple[Fault, TurnFailure]] = {
    "400": (HttpFault(status=400), TurnFailure.BAD_REQUEST),
    "401": (HttpFault(status=401), TurnFailure.UNAUTHORISED),
    "404": (HttpFault(status=404), TurnFailure.NOT_FOUND),
    "429": (HttpFault(status=429), TurnFailure.RATE_LIMITED),
    "500": (HttpFault(status=500), TurnFailure.SERVER_ERROR),
    "503": (HttpFault(status=503), TurnFailure.SERVER_ERROR),
    "cut stream": (CutFault(after_deltas=1), TurnFailure.STREAM_CUT),
    "garbage": (GarbageFault(form="bytes"), TurnFailure.STREAM_CUT),
    "context_length_exceeded": (FailedFault(code="context_length_exceeded"), TurnFailure.CONTEXT_FULL),
    "insufficient_quota": (FailedFault(code="insufficient_quota"), TurnFailure.USAGE_LIMIT),
    "rate_limit_exceeded": (FailedFault(code="rate_limit_exceeded"), TurnFailure.RATE_LIMITED),
    "server_is_overloaded": (FailedFault(code="server_is_overloaded"), TurnFailure.OVERLOADED),
    "cyber_policy": (FailedFault(code="cyber_policy"), TurnFailure.POLICY),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_ends_the_turn_with_its_code_and_the_thread_goes_on(
    guest: LocalGuest, open_runtime: OpenRuntime, name: str
) -> None:
    """After Codex's own bounded retries the end mark says FAILED and why; the next turn in the same thread completes."""
    fault, code = FAULTS[name]
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="first"), answer=ANSWER, fault=fault),
            say("fine", match=Match(last_user_contains="second")),
            say("summary"),  # a full context is compacted before the next turn
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        failed = await run_turn(runtime, thread.identity, "first")
        asked = len(model.model_requests)
        after = await run_turn(runtime, thread.identity, "second")
    end = failed[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code) == (TurnOutcome.FAILED, code)
    assert end.detail
    assert isinstance(failed[0], TurnStarted)
    assert after[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert asked <= 16  # (request retries + 1) x (stream retries + 1)


async def test_a_passing_fault_is_retried_and_only_a_notice_remains(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """One cut stream: the turn completes by Codex's own retry, and a person can see that there was one."""
    script = Script(rules=(Rule(answer=ANSWER, fault=CutFault(after_deltas=1), fault_times=1),))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "first")
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert [event for event in events if isinstance(event, Notice) and "Reconnecting" in event.text]


async def test_a_slow_first_byte_is_only_slow(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Half a second of silence before the answer changes nothing."""
    script = Script(rules=(Rule(answer=ANSWER, fault=SlowFault(first_byte_s=0.5)),))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        assert (await run_turn(runtime, thread.identity, "first"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_an_unreachable_endpoint_ends_the_turn(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Nobody listens: the turn fails within its retries instead of waiting for ever, and says that it was the connection."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = _Nowhere(f"http://127.0.0.1:{unused.getsockname()[1]}")
        async with open_runtime(guest, nobody) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            end = (await run_turn(runtime, thread.identity, "first"))[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code) == (TurnOutcome.FAILED, TurnFailure.UNREACHABLE)


class _Nowhere(ResponsesServer):
    """The address of a server that is not there."""

    def __init__(self, url: str) -> None:
        super().__init__(Script())
        self._base_url = url
