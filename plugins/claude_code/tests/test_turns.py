"""Turns of the real Claude Code: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jam_claude_code.config import TOOLS
from jamcore.api import (
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    ProviderEvent,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    provider_identity,
)
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.ledger import held_at
from jamcore.testing.servers.messages import MessagesServer
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Script, Text, say

pytestmark = [pytest.mark.needs("claude_code"), pytest.mark.anyio, pytest.mark.unprivileged]

OpenRuntime = Callable[[LocalGuest, MessagesServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
MODEL = "claude-sonnet-5-5"
LIMIT_S = 30.0
TRANSCRIPTS = "threads/*/projects/*/*.jsonl"


def call(name: str, call_id: str, match: Match, **arguments: str) -> Rule:
    """Return the rule by which the model calls a tool once."""
    return Rule(match=match, answer=(Call(name=name, arguments=dict(arguments), call_id=call_id),), times=1)


async def test_a_turn_is_typed_and_in_order(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Start, command, file changes, deltas, message, usage, end: each once, in the order in which they happened."""
    new = str(guest.work / "new.txt")
    script = Script(
        rules=(
            call("Bash", "c1", Match(nth=1), command="echo hi | tee made.txt"),
            call("Write", "c2", Match(tool_output="c1", last_is_tool_output=True), file_path=new, content="one\n"),
            call(
                "Edit", "c3", Match(tool_output="c2", last_is_tool_output=True), file_path=new, old_string="one", new_string="two"
            ),
            call("Read", "c4", Match(tool_output="c3", last_is_tool_output=True), file_path=new),
            call("Bash", "c5", Match(tool_output="c4", last_is_tool_output=True), command="echo bad; exit 3"),
            say("all ", "done", match=Match(tool_output="c5")),
        )
    )
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "please")
    assert isinstance(events[0], TurnStarted)
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert [event.kind for event in events] == [
        "turn.started",
        "command.started",
        "command.finished",
        "file.changed",
        "file.changed",
        "tool.call",
        "command.started",
        "command.finished",
        "text.delta",
        "text.delta",
        "message",
        "usage",
        "turn.ended",
    ]
    first, last = [event for event in events if isinstance(event, CommandFinished)]
    assert (first.item, first.command, first.output, first.exit_code) == ("c1", "echo hi | tee made.txt", "hi", 0)
    assert (last.item, last.exit_code) == ("c5", 3)
    assert "bad" in last.output
    started = next(event for event in events if isinstance(event, CommandStarted))
    assert (started.item, started.command, started.cwd) == ("c1", "echo hi | tee made.txt", str(guest.work))
    added, updated = [event for event in events if isinstance(event, FileChanged)]
    assert (added.path, added.change, added.diff) == (new, "add", "one\n")
    assert (updated.path, updated.change, updated.diff) == (new, "update", "@@ -1,1 +1,1 @@\n-one\n+two\n")
    read = next(event for event in events if isinstance(event, ToolCall))
    assert (read.item, read.name, read.ok) == ("c4", "Read", True)
    assert "two" in read.result
    deltas = [event for event in events if isinstance(event, TextDelta)]
    (message,) = [event for event in events if isinstance(event, Message)]
    assert "".join(event.text for event in deltas) == message.text == "all done"
    assert {event.item for event in deltas} == {message.item}
    (usage,) = [event for event in events if isinstance(event, UsageReported)]
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (60, 30, 90)
    assert (guest.work / "made.txt").read_text() == "hi\n"
    assert (guest.work / "new.txt").read_text() == "two\n"
    assert not model.unmatched


async def test_a_turn_counts_as_started_once_its_message_is_in_the_transcript(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The core binds the identity on this event, so at that moment a kill must leave something to resume."""
    async with MessagesServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        assert not list(guest.state.glob(TRANSCRIPTS))
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(provider_identity(thread.identity), "token-7731") as events:
                started = await anext(events)
                assert isinstance(started, TurnStarted)
                [transcript] = guest.state.glob(TRANSCRIPTS)
                written = transcript.read_text()
    assert transcript.stem == thread.identity
    assert "token-7731" in written
    assert f'"uuid":"{started.provider_turn}"' in written


async def test_a_turn_starts_also_while_the_model_is_silent(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Not a byte of the model's answer is needed: what the person said is in the transcript, and the turn can be interrupted."""
    script = Script(rules=(Rule(answer=(Hold(gate="never"), Text(deltas=("x",)))),))
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "token-7732") as events:
                assert isinstance(await anext(events), TurnStarted)
                [transcript] = guest.state.glob(TRANSCRIPTS)
                assert "token-7732" in transcript.read_text()
                await runtime.interrupt(identity)
                assert [event async for event in events][-1] == TurnEnded(outcome=TurnOutcome.INTERRUPTED)


async def test_deltas_arrive_while_the_answer_is_being_written(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The first delta is there while the model still holds the second back."""
    script = Script(rules=(Rule(answer=(Text(deltas=("one ", "two"), hold=Hold(gate="g", after=1)),)),))
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
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
            call("Bash", "c1", Match(last_user_contains="first"), command="sleep 971 & echo there; sleep 972; true"),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
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
            call("Bash", "c1", Match(last_user_contains="first"), command="sleep 973; true"),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
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
        assert "[Request interrupted by user" in str(model.model_requests[-1].body)


async def test_cancellation_in_a_turn_interrupts_it(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Whoever runs the turn is cancelled while the model is silent: the turn is interrupted before the context is left."""
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="first"), answer=(Hold(gate="never"),)),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
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
    script = Script(rules=(call("Bash", "c1", Match(nth=1), command="sleep 975; true"),))
    sleeping = frozenset[Process]()
    async with MessagesServer(script) as model:
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
    [transcript] = guest.state.glob(TRANSCRIPTS)
    assert "[Request interrupted by user" in transcript.read_text()


async def test_a_busy_thread_is_refused_and_its_turn_goes_on_undisturbed(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Claude Code would keep the second text for a turn of its own, which nobody waits for; Jam refuses instead."""
    script = Script(rules=(Rule(answer=(Text(deltas=("one ", "two"), hold=Hold(gate="g", after=1)),)),))
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
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
    """A turn needs a thread that this runtime opened or resumed."""
    async with MessagesServer(Script()) as model, open_runtime(guest, model) as runtime:
        with pytest.raises(ProviderRefusedError, match="not loaded"):
            await run_turn(runtime, "01a2f000-0000-7000-8000-000000000000", "hello")


@pytest.mark.parametrize("text", ["/clear", "/compact now", "/cost", "!touch bang", "# note", " /clear", "a\r\nb é 😀\t "])
async def test_a_text_is_told_to_the_model_as_it_stands(guest: LocalGuest, open_runtime: OpenRuntime, text: str) -> None:
    """Also where Claude Code has a command of that name: one of them would end the conversation, and none would ask the model."""
    async with MessagesServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, text)
        again = await run_turn(runtime, thread.identity, "again")
    assert events[-1] == again[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert isinstance(events[0], TurnStarted)
    assert said_in(model.model_requests[0].body) == [text]
    assert said_in(model.model_requests[-1].body) == [text, "again"]
    assert not list(guest.work.iterdir())


async def test_two_threads_run_at_the_same_time_in_their_own_directories(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Each has a program of its own: each waits for the other's file, which it could not do one after the other (SHARE-5)."""
    (guest.work / "a").mkdir()
    (guest.work / "b").mkdir()
    wait = "pwd > here; for i in $(seq 400); do [ -e ../{0}/here ] && exit 0; sleep 0.02; done; exit 1"
    script = Script(
        rules=(
            call("Bash", "ca", Match(last_user_contains="go a", last_is_tool_output=False), command=wait.format("b")),
            call("Bash", "cb", Match(last_user_contains="go b", last_is_tool_output=False), command=wait.format("a")),
            say("ok"),
        )
    )
    ends: dict[str, list[ProviderEvent]] = {}
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:

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


async def test_what_a_sub_agent_does_is_shown_and_what_it_says_is_its_callers(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Its commands are the turn's; its words come back as the result of the call, in the same turn."""
    task = {"description": "d", "prompt": "inner task", "subagent_type": "general-purpose"}
    script = Script(
        rules=(
            call("Bash", "c2", Match(last_user_contains="inner task", last_is_tool_output=False), command="echo in > inner.txt"),
            say("inner words", match=Match(last_user_contains="inner task")),
            call("Agent", "c1", Match(last_user_contains="outer", last_is_tool_output=False), **task),
            say("outer words", match=Match(last_user_contains="outer")),
        )
    )
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "outer")
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert [event.text for event in events if isinstance(event, Message)] == ["outer words"]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "outer words"
    assert [event.item for event in events if isinstance(event, CommandFinished)] == ["c2"]
    (used,) = [event for event in events if isinstance(event, ToolCall)]
    assert (used.item, used.name, used.ok) == ("c1", "Agent", True)
    assert "inner words" in used.result
    assert (guest.work / "inner.txt").exists()


async def test_only_tools_that_a_sandbox_can_have_are_offered(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Nothing hosted, nothing that starts turns by itself, nothing that speaks with other sessions; no real credential is there to send."""
    async with MessagesServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        await run_turn(runtime, thread.identity, "hello")
    [request] = model.requests
    body = request.body
    assert isinstance(body, dict)
    assert isinstance(body["tools"], list)
    assert {str(tool["name"]) for tool in body["tools"] if isinstance(tool, dict)} == set(TOOLS)
    assert body["model"] == MODEL
    assert request.header("authorization") is None
    assert request.header("x-api-key") == "proxy-managed"
    assert (request.method, request.path) == ("POST", "/v1/messages")


async def _sleepers(guest: LocalGuest, count: int) -> frozenset[Process]:
    """Wait until the program has ``count`` sleeping descendants, and return them."""
    with anyio.fail_after(LIMIT_S):
        while True:
            found = frozenset(p for p in descendants(guest.processes[-1].pid) if p.command.startswith("sleep 97"))
            if len(found) >= count:
                return found
            await anyio.sleep(0.02)
