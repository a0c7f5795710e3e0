"""Turns of the real OpenCode: typed events in order, tools that change files, interruption, busy sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

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
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    provider_identity,
)
from jamcore.testing.guards import Process, descendants, settle
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.ledger import held_at
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Script, Text, say
from jamcore.testing.servers.server import ModelServer

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.slow]

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
MODEL = "mock-model"
LIMIT_S = 60.0


def shell(call_id: str, command: str, match: Match) -> Rule:
    """Return the rule by which the model calls the shell once."""
    call = Call(name="bash", arguments={"command": command, "description": "a command"}, call_id=call_id)
    return Rule(match=match, answer=(call,), times=1)


def write(call_id: str, path: str, content: str, match: Match) -> Rule:
    """Return the rule by which the model writes a file once."""
    return Rule(
        match=match, answer=(Call(name="write", arguments={"filePath": path, "content": content}, call_id=call_id),), times=1
    )


async def test_a_turn_is_typed_and_in_order(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Start, command, file change, deltas, message, usage, end: each once, in the order in which they happened, and the files are there."""
    script = Script(
        rules=(
            shell("c1", "echo hi > made.txt; cat made.txt", Match(nth=1)),
            write("c2", "new.txt", "one\n", Match(nth=2)),
            say("all ", "done", match=Match(tool_output="c2")),
        )
    )
    async with ChatServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "please")
    assert isinstance(events[0], TurnStarted)
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    kinds = [event.kind for event in events if event.kind != "command.output"]
    expected = ["turn.started", "command.started", "command.finished", "file.changed", "text.delta", "text.delta"]
    assert kinds == [*expected, "message", "usage", "turn.ended"]
    finished = next(event for event in events if isinstance(event, CommandFinished))
    assert (finished.item, finished.output, finished.exit_code) == ("c1", "hi\n", 0)
    started = next(event for event in events if isinstance(event, CommandStarted))
    assert (started.item, started.command, started.cwd) == ("c1", "echo hi > made.txt; cat made.txt", str(guest.work))
    changed = next(event for event in events if isinstance(event, FileChanged))
    assert (changed.item, changed.path, changed.change) == ("c2", str(guest.work / "new.txt"), "add")
    assert changed.diff == "@@ -1,0 +1,1 @@\n+one"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "all done"
    assert [event.text for event in events if isinstance(event, Message)] == ["all done"]
    assert [event for event in events if isinstance(event, UsageReported)][-1].total_tokens > 0
    assert (guest.work / "made.txt").read_text() == "hi\n"
    assert (guest.work / "new.txt").read_text() == "one\n"
    assert {request.path for request in model.requests} == {"/v1/chat/completions"}
    assert not model.unmatched


async def test_deltas_arrive_while_the_answer_is_being_written(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The first delta is there while the model still holds the second back."""
    script = Script(rules=(Rule(answer=(Text(deltas=("one ", "two"), hold=Hold(gate="g", after=1)),)),))
    async with ChatServer(script) as model, open_runtime(guest, model) as runtime:
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


async def test_a_turn_counts_as_started_when_it_is_sent(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The session is in the database before, so a kill at that moment leaves something to resume; a silent model hides nothing."""
    script = Script(rules=(Rule(answer=(Hold(gate="never"),)),))
    async with ChatServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(provider_identity(thread.identity), "token-7731") as events:
                assert isinstance(await anext(events), TurnStarted)


@pytest.mark.parametrize("text", ["/etc/hosts is odd", " /compact", "/init"])
async def test_a_text_that_begins_with_a_slash_is_said_and_not_obeyed(
    guest: LocalGuest, open_runtime: OpenRuntime, text: str
) -> None:
    """OpenCode would run its own command, or drop the text without a word when it knows none of that name."""
    async with ChatServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, text)
        [said] = said_in(model.model_requests[-1].body)
    assert said.strip("\u200b") == text
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_an_interrupt_ends_the_turn_and_its_command(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """A shell with a child and a child in the background: both are gone when the stream ends, and the session takes the next turn."""
    script = Script(
        rules=(
            shell("c1", "sleep 971 & echo there; sleep 972; true", Match(last_user_contains="first")),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ChatServer(script) as model, open_runtime(guest, model) as runtime:
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
    """After the context the command is gone, and the session is free."""
    script = Script(
        rules=(
            shell("c1", "sleep 973; true", Match(last_user_contains="first")),
            say("fine", match=Match(last_user_contains="second")),
        )
    )
    async with ChatServer(script) as model, open_runtime(guest, model) as runtime:
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


async def test_cancellation_in_a_turn_interrupts_it(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Whoever runs the turn is cancelled while the model is silent: the turn is interrupted before the context is left."""
    script = Script(
        rules=(
            Rule(match=Match(nth=1), answer=(Hold(gate="never"),)),
            say("fine"),
        )
    )
    async with ChatServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        identity = provider_identity(thread.identity)
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run_turn, runtime, identity, "first")
                await model.wait_for(held_at("never"), LIMIT_S)
                tasks.cancel_scope.cancel()
        assert (await run_turn(runtime, identity, "second"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_closing_the_runtime_in_a_command_leaves_no_process(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The owner is cancelled while a command runs: the program, the shell and its children are gone."""
    script = Script(rules=(shell("c1", "sleep 975; true", Match(nth=1)),))
    sleeping = frozenset[Process]()
    async with ChatServer(script) as model:
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


async def test_a_busy_session_is_refused_and_its_turn_goes_on_undisturbed(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """OpenCode would pour the second text into the running turn and answer both as one; Jam refuses instead."""
    script = Script(rules=(Rule(answer=(Text(deltas=("one ", "two"), hold=Hold(gate="g", after=1)),)),))
    async with ChatServer(script) as model, open_runtime(guest, model) as runtime:
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


async def test_only_tools_that_a_sandbox_can_have_are_offered(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """No web, no sub-agents; requests carry the sentinel that the relay replaces, and what the workspace's AGENTS.md says."""
    (guest.work / "AGENTS.md").write_text("rule-5521\n")
    async with ChatServer(Script(rules=(say("hi"),))) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model="some/model"))
        await run_turn(runtime, thread.identity, "hello")
    [request] = model.requests
    body = request.body
    assert isinstance(body, dict)
    assert body["model"] == "some/model"
    assert "rule-5521" in str(body["messages"])
    assert isinstance(body["tools"], list)
    names = {
        str(tool["function"]["name"]) for tool in body["tools"] if isinstance(tool, dict) and isinstance(tool["function"], dict)
    }
    assert not names & {"webfetch", "websearch", "codesearch", "task"}
    assert {"bash", "edit", "write", "read"} <= names
    assert request.header("authorization") == "Bearer proxy-managed"


async def _sleepers(guest: LocalGuest, count: int) -> frozenset[Process]:
    """Wait until the program has ``count`` sleeping descendants, and return them."""
    with anyio.fail_after(LIMIT_S):
        while True:
            found = frozenset(p for p in descendants(guest.processes[-1].pid) if p.command.startswith("sleep 97"))
            if len(found) >= count:
                return found
            await anyio.sleep(0.02)
