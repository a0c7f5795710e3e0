"""What the real Copilot asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from jam_copilot.questions import only_reads, question, reply
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
    ToolCall,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.servers.history import ToolOutput, conversation
from jamcore.testing.servers.responses import Call, Match, ResponsesServer, Rule, Script, say

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
Test = TypeVar("Test", bound=Callable[..., object])
MODEL = "mock-model"
LIMIT_S = 30.0
ALLOW, DENY = ApprovalAnswer.ALLOW, ApprovalAnswer.DENY


def real(test: Test) -> Test:
    """Mark a test that runs the real program."""
    for mark in (pytest.mark.needs("copilot"), pytest.mark.anyio, pytest.mark.unprivileged):
        test = mark(test)
    return test


def calls(*made: Call, match: Match, times: int | None = 1) -> Rule:
    """Return the rule by which the model calls tools."""
    return Rule(match=match, answer=made, times=times)


def shell(call_id: str, command: str) -> Call:
    """Return a call of the shell."""
    return Call(name="bash", arguments={"command": command, "description": "Make it"}, call_id=call_id)


def script_of(work: Path) -> Script:
    """A look, a command and two changes of one file, each on its own, then an answer."""
    path = str(work / "new.txt")
    steps = (
        Call(name="view", arguments={"path": str(work)}, call_id="c0"),
        shell("c1", "touch made.txt"),
        Call(name="create", arguments={"path": path, "file_text": "one\n"}, call_id="c2"),
        Call(name="edit", arguments={"path": path, "old_str": "one", "new_str": "two"}, call_id="c3"),
    )
    first, *rest = (
        calls(step, match=Match(tool_output=f"c{place - 1}") if place else Match(nth=1)) for place, step in enumerate(steps)
    )
    return Script(rules=(first, *rest, say("done", match=Match(tool_output="c3"))))


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
async def test_what_is_allowed_is_done(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """A command and each change of a file are asked about once, with all that they would do, and then done; to look is not asked about."""
    path = str(guest.work / "new.txt")
    async with ResponsesServer(script_of(guest.work)) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        events = await collected(runtime, thread, ALLOW)
    first, second, third = [event for event in events if isinstance(event, ApprovalRequested)]
    assert (first.item, first.subject, first.detail) == ("c1", "command", "touch made.txt")
    assert "Make it" in first.preview
    assert (second.item, second.subject, second.detail) == ("c2", "file-change", f"add {path}")
    assert "+one" in second.preview
    assert (third.item, third.subject, third.detail) == ("c3", "file-change", f"update {path}")
    assert len({first.request, second.request, third.request}) == 3
    shown = [event.kind for event in events if event.kind in {"tool.call", "command.started", "approval.requested", "file.changed"}]
    asked = "approval.requested"
    assert shown == ["tool.call", "command.started", asked, asked, "file.changed", asked, "file.changed"]
    assert [event.exit_code for event in events if isinstance(event, CommandFinished)] == [0]
    assert [event.ok for event in events if isinstance(event, ToolCall)] == [True]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert sorted(path.name for path in guest.work.iterdir()) == ["made.txt", "new.txt"]
    assert (guest.work / "new.txt").read_text() == "two\n"


@real
async def test_what_is_denied_is_not_done_and_the_model_is_told(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The turn goes on: the model reads the refusal as the result of its call. Without words of ours Copilot would end it there."""
    made = (
        shell("c1", "touch made.txt"),
        Call(name="create", arguments={"path": str(guest.work / "a"), "file_text": "x"}, call_id="c2"),
    )
    script = Script(rules=(calls(*made, match=Match(nth=1)), say("done", match=Match(tool_output="c2"))))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        events = await collected(runtime, thread, DENY)
        told = [item.output for item in conversation(model.requests[-1].body) if isinstance(item, ToolOutput)]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert list(guest.work.iterdir()) == []
    assert len(told) == 2
    assert all("rejected" in output for output in told)
    assert not any(isinstance(event, FileChanged) for event in events)


@real
async def test_an_interrupt_ends_a_turn_that_waits_for_an_answer(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Nothing is done, an answer that comes too late is passed over, and the thread takes the next turn."""
    script = Script(
        rules=(calls(shell("c1", "touch made.txt"), match=Match(nth=1)), say("fine", match=Match(last_user_contains="again")))
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        request = ""
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(thread, "please") as events:
                async for event in events:
                    if isinstance(event, ApprovalRequested):
                        request = event.request
                        await runtime.interrupt(thread)
                        await runtime.answer(thread, request, ALLOW)
            assert event == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
            await runtime.answer(thread, request, ALLOW)
            async with runtime.turn(thread, "again") as events:
                last = [event async for event in events][-1]
    assert last == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert list(guest.work.iterdir()) == []


@real
async def test_a_thread_asks_as_it_is_resumed(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Whether it asks is said at each resume, since Copilot forgets it: one that asked does not when Jam says so, and back again."""
    script = Script(
        rules=(
            say("hi", match=Match(last_user_contains="hello")),
            calls(shell("c1", "touch made.txt"), match=Match(last_user_contains="please", last_is_tool_output=False), times=None),
            say("done", match=Match(last_user_contains="please")),
        )
    )
    asked = []
    async with ResponsesServer(script) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await open_asking(runtime, guest)
            async with runtime.turn(thread, "hello") as events:
                assert [event async for event in events][-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        for policy in (ApprovalPolicy.ASK, ApprovalPolicy.NEVER, ApprovalPolicy.ASK):
            async with open_runtime(guest, model) as runtime:
                await runtime.resume_thread(thread, ThreadRequest(cwd=str(guest.work), model=MODEL, approvals=policy))
                seen = await collected(runtime, thread, DENY)
                made = (guest.work / "made.txt").exists()
                asked.append(([event.subject for event in seen if isinstance(event, ApprovalRequested)], made))
            (guest.work / "made.txt").unlink(missing_ok=True)
    assert asked == [(["command"], False), ([], True), (["command"], False)]


@real
async def test_a_thread_that_never_asks_does_not(guest: LocalGuest, open_runtime: OpenRuntime, tmp_path: Path) -> None:
    """The default: the sandbox is the boundary, also outside the workspace, and nobody is kept waiting."""
    beside = tmp_path / "beside.txt"
    made = (shell("c1", "touch made.txt"), Call(name="create", arguments={"path": str(beside), "file_text": "x"}, call_id="c2"))
    script = Script(rules=(calls(*made, match=Match(nth=1)), say("done", match=Match(tool_output="c2"))))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = provider_identity((await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))).identity)
        events = await collected(runtime, thread, DENY)
    assert [event for event in events if isinstance(event, ApprovalRequested | Notice)] == []
    assert (guest.work / "made.txt").exists()
    assert beside.exists()


def asked(**request: object) -> ApprovalRequested:
    """Return the event for a request."""
    return question({"requestId": "r", "permissionRequest": {"toolCallId": "i", **request}})


def test_a_command_that_wants_more_is_something_else() -> None:
    """Out of Copilot's own sandbox, or too long to be shown: no rule that covers the command covers that."""
    plain = {"kind": "shell", "fullCommandText": "ls", "intention": "need it", "resolvedWorkingDirectory": "/w"}
    about = asked(**plain)
    assert about == ApprovalRequested(item="i", subject="command", detail="ls", request="r", preview="in /w\nbecause need it")
    for more in ({"requestSandboxBypass": True}, {"requestSandboxPermissive": True}, {"sandboxPathGrant": {"path": "/"}}):
        about = asked(**plain, **more)
        assert about.subject == "other"
        assert about.detail.startswith("ls\n{")
    assert asked(kind="shell").subject == "other"
    assert asked(kind="shell", fullCommandText="x" * (EVENT_TEXT + 1)).subject == "other"


def test_a_change_of_files_names_every_file() -> None:
    """What a rule would compare holds kinds and paths; what cannot be listed whole, moves, or lies elsewhere is something else."""
    added, changed = {"after": {"path": "/w/a"}}, {"before": {"path": "/w/b"}, "after": {"path": "/w/b"}}
    removed, moved = {"before": {"path": "/w/c"}}, {"before": {"path": "/w/d"}, "after": {"path": "/w/e"}}
    write = {"kind": "write", "fileName": "/w/a", "diff": "\n+x\n"}
    about = asked(**write, fileEdits=[added, changed, removed])
    assert (about.subject, about.detail, about.preview) == ("file-change", "add /w/a\nupdate /w/b\ndelete /w/c", "+x")
    assert asked(**write).subject == "other"
    assert asked(**write, fileEdits=[added, moved]).subject == "other"
    assert asked(**write, fileEdits=[added], requestSandboxBypass=True).subject == "other"
    linked = asked(**write, fileEdits=[added], resolvedPath="/etc/passwd")
    assert (linked.subject, linked.detail) == ("other", "add /w/a\nreally /etc/passwd")
    assert asked(**write, fileEdits=[{"after": {"path": "/" + "x" * EVENT_TEXT}}]).subject == "other"


def test_anything_else_is_shown_whole() -> None:
    """An address, a server's tool, something nobody has heard of."""
    about = asked(kind="url", url="http://h/")
    assert (about.subject, about.item) == ("other", "i")
    assert '"http://h/"' in about.detail
    assert asked().subject == "other"


@pytest.mark.parametrize(
    ("request_", "isolated", "alone"),
    [
        ({"kind": "read", "path": "/w/a"}, True, True),
        ({"kind": "read", "path": "/etc/hostname"}, True, True),
        ({"kind": "read", "path": "/w/a"}, False, True),
        ({"kind": "read", "path": "/etc/hostname"}, False, False),
        ({"kind": "read", "path": "/w/../etc/hostname"}, False, False),
        ({"kind": "read", "path": "/w/a", "resolvedPath": "/etc/hostname"}, False, False),
        ({"kind": "read", "path": "/w/a", "requestSandboxBypass": True}, True, False),
        ({"kind": "read"}, False, False),
        ({"kind": "write", "fileName": "/w/a"}, True, False),
        ({}, True, False),
    ],
)
def test_to_look_is_asked_about_only_where_no_sandbox_is(request_: dict[str, object], isolated: bool, alone: bool) -> None:
    """In a sandbox there is nothing to hide; on the machine itself there is, outside the workspace."""
    assert only_reads(request_, "/w", isolated=isolated) is alone


def test_only_this_once_or_no_is_ever_said() -> None:
    """Nothing for the session, nothing for this place; and no with words, so that the turn goes on."""
    assert reply(ALLOW) == {"kind": "approve-once"}
    assert reply(DENY)["kind"] == "reject"
    assert reply(DENY)["feedback"]
