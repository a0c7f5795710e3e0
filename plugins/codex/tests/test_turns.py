"""Turns of the real Codex: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jamcore.api import (
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    provider_identity,
)
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.responses import Call, Hold, Match, ResponsesServer, Rule, Script, Text, held_at, say

pytestmark = [pytest.mark.needs("codex"), pytest.mark.anyio, pytest.mark.unprivileged]

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
MODEL = "mock-model"
LIMIT_S = 30.0

PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\nEOF"


def shell(call_id: str, command: str, match: Match) -> Rule:
    """Return the rule by which the model calls the shell once."""
    return Rule(match=match, answer=(Call(name="exec_command", arguments={"cmd": command}, call_id=call_id),), times=1)


async def test_a_turn_is_typed_and_in_order(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Start, command, file change, deltas, message, usage, end: each once, in the order in which they happened, and the files are there."""
    script = Script(
        rules=(
            shell("c1", "echo hi > made.txt; cat made.txt", Match(nth=1)),
            shell("c2", PATCH, Match(tool_output="c1")),
            say("all ", "done", match=Match(tool_output="c2")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "please")
    assert isinstance(events[0], TurnStarted)
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    kinds = [event.kind for event in events if not isinstance(event, UsageReported | Notice)]
    expected = ["turn.started", "command.started", "command.finished", "file.changed"]
    assert kinds == [*expected, "text.delta", "text.delta", "message", "turn.ended"]
    finished = next(event for event in events if isinstance(event, CommandFinished))
    assert (finished.item, finished.output, finished.exit_code) == ("c1", "hi\n", 0)
    assert "echo hi" in finished.command
    started = next(event for event in events if isinstance(event, CommandStarted))
    assert (started.item, started.cwd) == ("c1", str(guest.work))
    changed = next(event for event in events if isinstance(event, FileChanged))
    assert (changed.path, changed.change, changed.diff) == (str(guest.work / "new.txt"), "add", "one\n")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "all done"
    assert [event.text for event in events if isinstance(event, Message)] == ["all done"]
    assert [event for event in events if isinstance(event, UsageReported)][-1].total_tokens > 0
    assert (guest.work / "made.txt").read_text() == "hi\n"
    assert (guest.work / "new.txt").read_text() == "one\n"
    assert not model.unmatched


async def test_a_turn_counts_as_started_once_its_message_is_in_the_rollout(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The core binds the identity on this event, so at that moment a kill must leave something to resume."""
    async with ResponsesServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        assert not list(guest.state.glob("sessions/**/rollout-*"))
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(provider_identity(thread.identity), "token-7731") as events:
                assert isinstance(await anext(events), TurnStarted)
                [rollout] = guest.state.glob("sessions/**/rollout-*.jsonl")
                written = rollout.read_text()
    assert thread.identity in rollout.name
    assert "token-7731" in written


async def test_deltas_arrive_while_the_answer_is_being_written(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The first delta is there while the model still holds the second back."""
    script = Script(rules=(Rule(answer=(Text(deltas=("one ", "two"), hold=Hold(gate="g", after=1)),)),))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        deltas = []
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(provider_identity(thread.identity), "go") as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        deltas.append(event.text)
                        if len(deltas) == 1:
                            await model.wait_for(held_at("g"), LIMIT_S)
                            model.release("g")
    assert deltas == ["one ", "two"]


async def test_an_interrupt_ends_the_turn_and_the_commands_that_it_left_running(
    guest: LocalGuest, open_runtime: OpenRuntime
) -> None:
    """A shell with a child and a child in the background: both are gone when the stream ends, and the thread takes the next turn."""
    script = Script(
        rules=(
            shell("c1", "sleep 971 & echo there; sleep 972; true", Match(last_user_contains="first")),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        events: list[ProviderEvent] = []
        sleeping = frozenset[Process]()
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "first") as stream, anyio.create_task_group() as tasks:
                async for event in stream:
                    events.append(event)
                    if isinstance(event, CommandStarted):
                        sleeping = await _sleepers(guest, 2)
                        tasks.start_soon(runtime.interrupt, identity)
        assert sleeping
        assert settle(sleeping) == ()  # killed: the machine decides when it is gone
        assert events[-1] == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
        assert [event.item for event in events if isinstance(event, CommandFinished)] == ["c1"]
        await runtime.interrupt(identity)  # idle: nothing happens
        assert (await run_turn(runtime, identity, "second"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_leaving_a_turn_early_interrupts_it(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """After the context the command is gone, the model's next request shows the interruption, and the thread is free."""
    script = Script(
        rules=(
            shell("c1", "sleep 973; true", Match(last_user_contains="first")),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        sleeping = frozenset[Process]()
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "first") as stream:
                async for event in stream:
                    if isinstance(event, CommandStarted):
                        sleeping = await _sleepers(guest, 1)
                        break
        assert sleeping
        assert settle(sleeping) == ()  # killed: the machine decides when it is gone
        assert (await run_turn(runtime, identity, "second"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert "<turn_aborted>" in str(model.model_requests[-1].body)


async def test_cancellation_in_a_turn_interrupts_it(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Whoever runs the turn is cancelled while the model is silent: the turn is interrupted before the context is left."""
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="first"), answer=(Hold(gate="never"),)),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run_turn, runtime, identity, "first")
                await model.wait_for(held_at("never"), LIMIT_S)
                tasks.cancel_scope.cancel()
        assert (await run_turn(runtime, identity, "second"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_closing_the_runtime_in_a_command_leaves_no_process(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The owner is cancelled while a command runs: the program, the shell and its children are gone, and the turn reads as interrupted."""
    script = Script(rules=(shell("c1", "sleep 975; true", Match(nth=1)),))
    sleeping = frozenset[Process]()
    async with ResponsesServer(script) as model:
        with anyio.fail_after(LIMIT_S), anyio.CancelScope() as scope:
            async with open_runtime(guest, model) as runtime:
                thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
                async with runtime.turn(provider_identity(thread.identity), "first") as stream:
                    async for event in stream:
                        if isinstance(event, CommandStarted):
                            sleeping = await _sleepers(guest, 1)
                            scope.cancel()
        assert sleeping
        assert settle(sleeping) == ()  # killed: the machine decides when it is gone
        assert not descendants(guest.processes[-1].pid)
    [rollout] = guest.state.glob("sessions/**/rollout-*.jsonl")
    assert '"turn_aborted"' in rollout.read_text()


async def test_a_busy_thread_is_refused_and_its_turn_goes_on_undisturbed(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Codex would pour the second text into the running turn and drop the half-written answer; Jam refuses instead."""
    script = Script(rules=(Rule(answer=(Text(deltas=("one ", "two"), hold=Hold(gate="g", after=1)),)),))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        texts: list[str] = []
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "first") as events:
                async for event in events:
                    if isinstance(event, TextDelta) and not texts:
                        with pytest.raises(ProviderRefusedError, match="running"):
                            await run_turn(runtime, identity, "second")
                        model.release("g")
                    if isinstance(event, Message):
                        texts.append(event.text)
    assert texts == ["one two"]
    assert len(model.model_requests) == 1


async def test_a_thread_that_is_not_loaded_is_refused(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """A turn needs a thread that this program opened or resumed."""
    async with ResponsesServer(Script()) as model, open_runtime(guest, model) as runtime:
        with pytest.raises(ProviderRefusedError, match="not loaded"):
            await run_turn(runtime, "01a2f000-0000-7000-8000-000000000000", "hello")


async def test_two_threads_run_at_the_same_time_in_their_own_directories(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """One program serves both: each waits for the other's file, which it could not do one after the other (SHARE-5)."""
    (guest.work / "a").mkdir()
    (guest.work / "b").mkdir()
    wait = "pwd > here; for i in $(seq 400); do [ -e ../{0}/here ] && exit 0; sleep 0.02; done; exit 1"
    script = Script(
        rules=(
            shell("ca", wait.format("b"), Match(last_user_contains="go a", last_is_tool_output=False)),
            shell("cb", wait.format("a"), Match(last_user_contains="go b", last_is_tool_output=False)),
            say("ok"),
        )
    )
    ends: dict[str, list[ProviderEvent]] = {}
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:

        async def one(name: str) -> None:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work / name), model=MODEL))
            ends[name] = await run_turn(runtime, thread.identity, f"go {name}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "a")
            tasks.start_soon(one, "b")
    for name, events in ends.items():
        [command] = [event for event in events if isinstance(event, CommandFinished)]
        assert (command.item, command.exit_code) == (f"c{name}", 0)
        assert (guest.work / name / "here").read_text().strip() == str(guest.work / name)


async def test_only_tools_that_a_sandbox_can_have_are_offered(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """No hosted search, no goals that start turns by themselves, no sub-agents outside the rollout; requests carry no credential."""
    async with ResponsesServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        await run_turn(runtime, thread.identity, "hello")
    [request] = model.requests
    body = request.body
    assert isinstance(body, dict)
    assert isinstance(body["tools"], list)
    assert {str(tool["name"]) for tool in body["tools"] if isinstance(tool, dict)} == {
        "exec_command",
        "request_user_input",
        "view_image",
        "write_stdin",
    }
    assert request.header("authorization") is None
    assert (request.method, request.path) == ("POST", "/v1/responses")


async def _sleepers(guest: LocalGuest, count: int) -> frozenset[Process]:
    """Wait until the program has ``count`` sleeping descendants, and return them."""
    with anyio.fail_after(LIMIT_S):
        while True:
            found = frozenset(p for p in descendants(guest.processes[-1].pid) if p.command.startswith("sleep 97"))
            if len(found) >= count:
                return found
            await anyio.sleep(0.02)
