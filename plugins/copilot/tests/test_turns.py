"""Turns of the real Copilot: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest
from pydantic import JsonValue

from jam_copilot.runtime import CopilotRuntime
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
from jamcore.testing.servers.history import ToolOutput, conversation
from jamcore.testing.servers.responses import Call, Hold, Match, ResponsesServer, Rule, Script, Text, held_at, say

pytestmark = [pytest.mark.needs("copilot"), pytest.mark.anyio, pytest.mark.unprivileged]

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
MODEL = "mock-model"
LIMIT_S = 30.0
SAID = (
    "Shell execution cancelled during synchronous wait",
    "The execution of this tool, or a previous tool was interrupted.",
)
"""What Copilot says of an interrupted command: the one where it was waiting for it already, the other where it was not yet."""


def shell(call_id: str, command: str, match: Match, **more: JsonValue) -> Rule:
    """Return the rule by which the model calls the shell once."""
    arguments: dict[str, JsonValue] = {"command": command, "description": "what it does", **more}
    return Rule(match=match, answer=(Call(name="bash", arguments=arguments, call_id=call_id),), times=1)


async def test_a_turn_is_typed_and_in_order(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Start, command, file changes, deltas, message, usage, end: each once, in the order in which they happened; the files are there."""
    path = str(guest.work / "new.txt")
    script = Script(
        rules=(
            shell("c1", "echo hi > made.txt; cat made.txt; exit 3", Match(nth=1)),
            Rule(
                match=Match(tool_output="c1"),
                answer=(Call(name="create", arguments={"path": path, "file_text": "one\n"}, call_id="c2"),),
                times=1,
            ),
            Rule(
                match=Match(tool_output="c2"),
                answer=(Call(name="edit", arguments={"path": path, "old_str": "one", "new_str": "two"}, call_id="c3"),),
                times=1,
            ),
            say("all ", "done", match=Match(tool_output="c3")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "please")
    assert isinstance(events[0], TurnStarted)
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    kinds = [event.kind for event in events if not isinstance(event, UsageReported | Notice)]
    expected = ["turn.started", "command.started", "command.output", "command.finished", "file.changed", "file.changed"]
    assert kinds == [*expected, "text.delta", "text.delta", "message", "turn.ended"]
    finished = next(event for event in events if isinstance(event, CommandFinished))
    assert (finished.item, finished.output, finished.exit_code) == ("c1", "hi\n", 3)
    started = next(event for event in events if isinstance(event, CommandStarted))
    assert (started.item, started.cwd, started.command) == ("c1", str(guest.work), finished.command)
    changed = [event for event in events if isinstance(event, FileChanged)]
    assert [(event.path, event.change) for event in changed] == [(path, "add"), (path, "update")]
    assert "+two" in changed[1].diff
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "all done"
    assert [event.text for event in events if isinstance(event, Message)] == ["all done"]
    usage = [event.total_tokens for event in events if isinstance(event, UsageReported)]
    assert len(usage) == 4
    assert usage == sorted(set(usage))
    assert (guest.work / "made.txt").read_text() == "hi\n"
    assert (guest.work / "new.txt").read_text() == "two\n"
    assert not model.unmatched


async def test_a_turn_counts_as_started_once_its_message_is_in_the_journal(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The core binds the identity on this event, so at that moment a kill must leave something to resume."""
    async with ResponsesServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        assert not list(guest.state.glob("session-state/*/events.jsonl"))
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(provider_identity(thread.identity), "token-7731") as events:
                assert isinstance(await anext(events), TurnStarted)
                [journal] = guest.state.glob("session-state/*/events.jsonl")
                written = journal.read_text()
    assert thread.identity == journal.parent.name
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


async def test_a_turn_lasts_as_long_as_what_it_started_in_the_background(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The agent is told of the end of its command and speaks again, in the same turn: nothing begins by itself between two turns."""
    script = Script(
        rules=(
            shell("c1", "sleep 1; echo late > late.txt", Match(nth=1), mode="async"),
            say("it runs", match=Match(nth=2)),
            say("it ended", match=Match(nth=3)),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "please")
        assert (guest.work / "late.txt").exists()
    assert [event.text for event in events if isinstance(event, Message)] == ["it runs", "it ended"]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


INTERRUPTED: dict[str, tuple[str, dict[str, JsonValue], int]] = {
    "in the foreground": ("sleep 971 & sleep 972; true", {}, 2),
    "in the background": ("sleep 971; true", {"mode": "async"}, 1),
    "detached": ("sleep 971; true", {"mode": "async", "detach": True}, 1),
}


@pytest.mark.parametrize("how", INTERRUPTED)
async def test_an_interrupt_ends_the_turn_and_the_commands_that_it_left_running(
    guest: LocalGuest, open_runtime: OpenRuntime, how: str
) -> None:
    """Its commands are gone when the stream ends, wherever they ran, and the thread takes the next turn."""
    command, more, count = INTERRUPTED[how]
    script = Script(
        rules=(
            shell("c1", command, Match(last_user_contains="first"), **more),
            Rule(match=Match(tool_output="c1", last_user_contains="first"), answer=(Hold(gate="never"),)),
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
                        sleeping = await _sleepers(guest, count)
                        tasks.start_soon(runtime.interrupt, identity)
        assert sleeping
        assert settle(sleeping) == ()  # killed: the machine decides when it is gone
        assert events[-1] == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
        assert [event.item for event in events if isinstance(event, CommandFinished)] == ["c1"]
        await runtime.interrupt(identity)  # idle: nothing happens
        assert (await run_turn(runtime, identity, "second"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    await _no_watchdogs()


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
        [output] = [item for item in conversation(model.model_requests[-1].body) if isinstance(item, ToolOutput)]
        assert output.output in SAID


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
    [journal] = guest.state.glob("session-state/*/events.jsonl")
    assert '"abort"' in journal.read_text()


async def test_a_busy_thread_is_refused_and_its_turn_goes_on_undisturbed(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Copilot would queue the second text and give both one end; Jam refuses instead."""
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
    """Nothing is sent to the model, and nothing appears in the state."""
    async with ResponsesServer(Script()) as model, open_runtime(guest, model) as runtime:
        with pytest.raises(ProviderRefusedError, match="not loaded"):
            await run_turn(runtime, "4e16c610-2380-435d-af81-a7b32d6fde3e", "hello")
    assert not model.requests


async def test_a_thread_without_a_model_is_refused_in_words(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Copilot would ask an endpoint of one's own for a model of its vendor's choice."""
    async with ResponsesServer(Script()) as model, open_runtime(guest, model) as runtime:
        with pytest.raises(ProviderRefusedError, match="no model to begin with"):
            await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))


@pytest.mark.guarantee("SHARE-5")
async def test_two_threads_of_one_process_work_at_once_in_their_own_directories(
    make_guest: MakeGuest, open_runtime: OpenRuntime
) -> None:
    """Both turns run at the same time; each changes files where it belongs and gets its own events."""
    guest, other = await make_guest("guest"), await make_guest("other")
    script = Script(
        rules=tuple(
            rule
            for name in ("first", "second")
            for rule in (
                shell(f"c-{name}", f"echo {name} > here.txt", Match(last_user_contains=name, last_is_tool_output=False)),
                say(f"{name} done", match=Match(tool_output=f"c-{name}")),
            )
        )
    )
    found: dict[str, list[ProviderEvent]] = {}
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:

        async def run(name: str, cwd: str) -> None:
            thread = await runtime.open_thread(ThreadRequest(cwd=cwd, model=MODEL))
            found[name] = await run_turn(runtime, thread.identity, name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "first", str(guest.work))
            tasks.start_soon(run, "second", str(other.work))
    for name, place in (("first", guest.work), ("second", other.work)):
        assert (place / "here.txt").read_text() == f"{name}\n"
        assert [event.text for event in found[name] if isinstance(event, Message)] == [f"{name} done"]
        assert [event.cwd for event in found[name] if isinstance(event, CommandStarted)] == [str(place)]


async def _sleepers(guest: LocalGuest, count: int) -> frozenset[Process]:
    """Wait until the program has ``count`` sleeping descendants, and return them."""
    with anyio.fail_after(LIMIT_S):
        while True:
            found = frozenset(p for p in descendants(guest.processes[-1].pid) if p.command.startswith("sleep 97"))
            if len(found) >= count:
                return found
            await anyio.sleep(0.02)


async def test_what_the_agent_begins_by_itself_is_stopped_and_said(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The end of a detached command wakes Copilot between two turns: its answer is not waited for, and the next turn shows what was."""
    script = Script(
        rules=(
            shell("c1", "sleep 1", Match(nth=1), mode="async", detach=True),
            say("it runs", match=Match(last_user_contains="first"), times=1),
            say("fine", match=Match(last_user_contains="second")),
            Rule(answer=(Hold(gate="never"),)),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        assert isinstance(runtime, CopilotRuntime)
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        first = await run_turn(runtime, thread.identity, "first")
        with anyio.fail_after(LIMIT_S):
            while not runtime._threads[thread.identity].notices:  # noqa: ASYNC110 - what it does by itself is told to nobody
                await anyio.sleep(0.02)
        second = await run_turn(runtime, thread.identity, "second")
    assert [event.text for event in first if isinstance(event, Message)] == ["it runs"]
    assert any("by itself" in event.text for event in second if isinstance(event, Notice))
    assert second[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def _no_watchdogs() -> None:
    """Wait for the end of what Copilot puts beside a detached command: a shell that looks for it every five seconds."""
    with anyio.fail_after(LIMIT_S):
        while any("sleep 5" in process.command for process in descendants(os.getpid())):  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.1)
