"""What the real Claude Code asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jam_claude_code.questions import DENIED, question, reply
from jamcore.api import (
    EVENT_TEXT,
    ApprovalAnswer,
    ApprovalPolicy,
    ApprovalRequested,
    CommandFinished,
    FileChanged,
    Notice,
    ProviderEvent,
    ProviderIdentity,
    ProviderRuntime,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.servers.history import ToolOutput, conversation
from jamcore.testing.servers.messages import MessagesServer
from jamcore.testing.servers.script import Call, Match, Rule, Script, say

OpenRuntime = Callable[[LocalGuest, MessagesServer], AbstractAsyncContextManager[ProviderRuntime]]
MODEL = "claude-sonnet-5-5"
LIMIT_S = 30.0
ALLOW, DENY = ApprovalAnswer.ALLOW, ApprovalAnswer.DENY
real = pytest.mark.needs("claude_code")


def shell(call_id: str, words: str, match: Match, *, times: int | None = 1) -> Rule:
    """Return the rule by which the model calls the shell."""
    return Rule(match=match, answer=(Call(name="Bash", arguments={"command": words}, call_id=call_id),), times=times)


def script_for(guest: LocalGuest) -> Script:
    """Return the script of a model that runs a command, writes a file and changes it."""
    new = str(guest.work / "new.txt")
    write = Call(name="Write", arguments={"file_path": new, "content": "one\n"}, call_id="c2")
    return Script(
        rules=(
            shell("c1", "touch made.txt", Match(nth=1)),
            Rule(match=Match(tool_output="c1", last_is_tool_output=True), answer=(write,), times=1),
            say("done", match=Match(tool_output="c2")),
        )
    )


async def open_asking(runtime: ProviderRuntime, guest: LocalGuest) -> ProviderIdentity:
    """Open a thread that asks."""
    request = ThreadRequest(cwd=str(guest.work), model=MODEL, approvals=ApprovalPolicy.ASK)
    return provider_identity((await runtime.open_thread(request)).identity)


async def answering(runtime: ProviderRuntime, thread: ProviderIdentity, answer: ApprovalAnswer) -> AsyncIterator[ProviderEvent]:
    """Run a turn, answer every question in the same way, and yield all events."""
    async with runtime.turn(thread, "please") as events:
        async for event in events:
            yield event
            if isinstance(event, ApprovalRequested):
                await runtime.answer(thread, event.request, answer)


async def collected(runtime: ProviderRuntime, thread: ProviderIdentity, answer: ApprovalAnswer) -> list[ProviderEvent]:
    """Return what :func:`answering` yields."""
    with anyio.fail_after(LIMIT_S):
        return [event async for event in answering(runtime, thread, answer)]


@real
@pytest.mark.anyio
@pytest.mark.unprivileged
async def test_what_is_allowed_is_done(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """A command and a change of a file are each asked about once, with all that they would do, and then done."""
    async with MessagesServer(script_for(guest)) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        events = await collected(runtime, thread, ALLOW)
    first, second = [event for event in events if isinstance(event, ApprovalRequested)]
    assert (first.item, first.subject, first.detail) == ("c1", "command", "touch made.txt")
    assert (second.item, second.subject, second.detail) == ("c2", "file-change", f"update {guest.work / 'new.txt'}")
    assert "one" in second.preview
    assert first.request != second.request
    shown = [event.kind for event in events if event.kind in {"command.started", "approval.requested", "file.changed"}]
    assert shown == ["command.started", "approval.requested", "approval.requested", "file.changed"]
    assert [event.exit_code for event in events if isinstance(event, CommandFinished)] == [0]
    assert [event.change for event in events if isinstance(event, FileChanged)] == ["add"]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert sorted(path.name for path in guest.work.iterdir()) == ["made.txt", "new.txt"]


@real
@pytest.mark.anyio
@pytest.mark.unprivileged
async def test_what_is_denied_is_not_done_and_the_model_is_told(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The turn goes on: the model reads the refusal as the result of its call."""
    async with MessagesServer(script_for(guest)) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        events = await collected(runtime, thread, DENY)
        told = [item.output for item in conversation(model.requests[-1].body) if isinstance(item, ToolOutput)]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert list(guest.work.iterdir()) == []
    assert len(told) == 2
    assert all(DENIED in output for output in told)
    assert not any(isinstance(event, FileChanged) for event in events)


@real
@pytest.mark.anyio
@pytest.mark.unprivileged
async def test_an_interrupt_ends_a_turn_that_waits_for_an_answer(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Nothing is done, an answer that comes too late is passed over, and the thread takes the next turn."""
    script = Script(rules=(shell("c1", "touch made.txt", Match(nth=1)), say("fine", match=Match(last_user_contains="again"))))
    async with MessagesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        request = ""
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(thread, "please") as events:
                async for event in events:
                    if isinstance(event, ApprovalRequested):
                        request = event.request
                        await runtime.interrupt(thread)
            assert event == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
            await runtime.answer(thread, request, ALLOW)
            async with runtime.turn(thread, "again") as events:
                last = [event async for event in events][-1]
    assert last == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert list(guest.work.iterdir()) == []


@real
@pytest.mark.anyio
@pytest.mark.unprivileged
async def test_a_thread_asks_as_it_is_resumed(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Whether it asks is said at each resume: one that asked does not when Jam says so, and the other way round."""
    script = Script(
        rules=(
            say("hi", match=Match(last_user_contains="hello")),
            shell("c1", "touch made.txt", Match(last_user_contains="please", last_is_tool_output=False), times=None),
            say("done", match=Match(last_user_contains="please")),
        )
    )
    asked = []
    async with MessagesServer(script) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await open_asking(runtime, guest)
            async with runtime.turn(thread, "hello") as events:
                assert [event async for event in events][-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        for policy in (ApprovalPolicy.ASK, ApprovalPolicy.NEVER):
            async with open_runtime(guest, model) as runtime:
                await runtime.resume_thread(thread, ThreadRequest(cwd=str(guest.work), model=MODEL, approvals=policy))
                seen = await collected(runtime, thread, DENY)
                made = (guest.work / "made.txt").exists()
                asked.append(([event.subject for event in seen if isinstance(event, ApprovalRequested)], made))
    assert asked == [(["command"], False), ([], True)]


@real
@pytest.mark.anyio
@pytest.mark.unprivileged
async def test_a_thread_that_never_asks_does_not(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The default: the sandbox is the boundary, and nobody is kept waiting."""
    async with MessagesServer(script_for(guest)) as model, open_runtime(guest, model) as runtime:
        thread = provider_identity((await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))).identity)
        events = await collected(runtime, thread, DENY)
    assert not any(isinstance(event, ApprovalRequested | Notice) for event in events)
    assert (guest.work / "made.txt").exists()


def asked(tool: str, **given: object) -> dict[str, object]:
    """Return a question as Claude Code asks it."""
    return {"subtype": "can_use_tool", "tool_use_id": "i", "tool_name": tool, "input": given}


def test_a_command_that_wants_more_is_something_else() -> None:
    """With an option that changes how it is run, no rule that covers the command covers it."""
    plain = asked("Bash", command="ls", description="look", timeout=5)
    because = {**plain, "decision_reason": "it is new", "blocked_path": "/etc"}
    assert question(because) == ApprovalRequested(
        item="i", subject="command", detail="ls", preview="because it is new\noutside /etc"
    )
    assert question(asked("Bash", command="ls", dangerouslyDisableSandbox=True)).subject == "other"
    assert question(asked("Bash", command="x" * (EVENT_TEXT + 1))).subject == "other"
    assert question(asked("Bash")).subject == "other"
    assert question({"tool_use_id": "i"}).subject == "other"


def test_a_change_of_a_file_names_it() -> None:
    """What a rule would compare is which file; what would be in it is to look at."""
    for tool, place in (("Write", "file_path"), ("Edit", "file_path"), ("NotebookEdit", "notebook_path")):
        about = question(asked(tool, **{place: "/w/a", "content": "x"}))
        assert (about.subject, about.detail) == ("file-change", "update /w/a")
        assert '"content": "x"' in about.preview
    assert question(asked("Write", content="x")).subject == "other"
    assert question(asked("Write", file_path="/" + "x" * EVENT_TEXT)).subject == "other"


def test_anything_else_is_shown_whole() -> None:
    """Reading outside the workspace, an unknown tool: its name and all that it was given."""
    about = question(asked("Read", file_path="/etc/hostname"))
    assert (about.subject, about.detail) == ("other", 'Read {"file_path": "/etc/hostname"}')


def test_only_this_once_or_no_is_ever_said() -> None:
    """Exactly what was asked about, none of the rules, directories and modes that are suggested with it."""
    suggested = {**asked("Bash", command="ls"), "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits"}]}
    assert reply(suggested, ALLOW) == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    assert reply(suggested, DENY) == {"behavior": "deny", "message": DENIED}


def test_what_nobody_could_see_whole_is_not_granted() -> None:
    """A question whose words were cut is denied, whatever the answer; one that was shown whole is granted as it is."""
    hidden = asked("Read", file_path="/" + "a" * EVENT_TEXT)
    assert reply(hidden, ALLOW)["behavior"] == "deny"
    assert reply(asked("Read", file_path="/a"), ALLOW)["updatedInput"] == {"file_path": "/a"}
