"""What the real Codex asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jam_codex.questions import CHANGE, COMMAND, PERMISSIONS, change, command, permissions, reply
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
    RemoteError,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.servers.history import ToolOutput, conversation
from jamcore.testing.servers.responses import Call, Match, ResponsesServer, Rule, Script, say

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MODEL = "mock-model"
LIMIT_S = 30.0
ALLOW, DENY = ApprovalAnswer.ALLOW, ApprovalAnswer.DENY
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\nEOF"
real = pytest.mark.needs("codex")


def shell(call_id: str, words: str, match: Match, *, times: int | None = 1) -> Rule:
    """Return the rule by which the model calls the shell."""
    return Rule(match=match, answer=(Call(name="exec_command", arguments={"cmd": words}, call_id=call_id),), times=times)


SCRIPT = Script(
    rules=(
        shell("c1", "touch made.txt", Match(nth=1)),
        shell("c2", PATCH, Match(tool_output="c1")),
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
    """A command and a change of files are each asked about once, with all that they would do, and then done."""
    async with ResponsesServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        events = await collected(runtime, thread, ALLOW)
    first, second = [event for event in events if isinstance(event, ApprovalRequested)]
    assert (first.item, first.subject) == ("c1", "command")
    assert first.detail.endswith("/bash -lc 'touch made.txt'")  # where the shell lies is the machine's
    assert first.preview == f"in {guest.work}"
    assert (second.item, second.subject, second.detail) == ("c2", "file-change", f"add {guest.work / 'new.txt'}")
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
    async with ResponsesServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        thread = await open_asking(runtime, guest)
        events = await collected(runtime, thread, DENY)
        told = [item.output for item in conversation(model.requests[-1].body) if isinstance(item, ToolOutput)]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert list(guest.work.iterdir()) == []
    assert len(told) == 2
    assert all("rejected" in output for output in told)
    assert not any(isinstance(event, FileChanged) for event in events)


@real
@pytest.mark.anyio
@pytest.mark.unprivileged
async def test_an_interrupt_ends_a_turn_that_waits_for_an_answer(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Nothing is done, an answer that comes too late is passed over, and the thread takes the next turn."""
    script = Script(rules=(shell("c1", "touch made.txt", Match(nth=1)), say("fine", match=Match(last_user_contains="again"))))
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
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
    async with ResponsesServer(script) as model:
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
    async with ResponsesServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        thread = provider_identity((await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))).identity)
        events = await collected(runtime, thread, DENY)
    assert not any(isinstance(event, ApprovalRequested | Notice) for event in events if not _warning(event))
    assert (guest.work / "made.txt").exists()


def _warning(event: ProviderEvent) -> bool:
    return isinstance(event, Notice) and "refused" not in event.text


def test_a_command_that_wants_more_is_something_else() -> None:
    """More permissions, a network host, input to a running terminal: no rule that covers the command covers that."""
    plain = {"command": "ls", "cwd": "/w", "reason": "need it"}
    assert command("i", plain) == ApprovalRequested(item="i", subject="command", detail="ls", preview="in /w\nbecause need it")
    for more in (
        {"additionalPermissions": {"network": {"enabled": True}}},
        {"networkApprovalContext": {"host": "h"}},
        {"kind": "writeStdin"},
    ):
        about = command("i", {**plain, **more})
        assert about.subject == "other"
        assert about.detail.startswith("ls\n{")
    assert command("i", {}).subject == "other"
    assert command("i", {"command": "x" * (EVENT_TEXT + 1)}).subject == "other"


def test_a_change_of_files_names_every_file() -> None:
    """What a rule would compare holds kinds and paths; what cannot be listed whole is something else."""
    changes = [{"path": "/w/a", "kind": {"type": "add"}, "diff": "x"}, {"path": "/w/b", "kind": {"type": "delete"}, "diff": "y"}]
    about = change("i", {}, changes)
    assert (about.subject, about.detail) == ("file-change", "add /w/a\ndelete /w/b")
    assert about.preview == "add /w/a\nx\ndelete /w/b\ny"
    assert change("i", {}, None).subject == "other"
    assert change("i", {}, [{**changes[0], "path": f"/{n}" + "x" * 4000} for n in range(300)]).subject == "other"
    assert change("i", {"grantRoot": "/"}, changes).subject == "other"
    assert change("i", {}, [{"path": "/w/a", "kind": {"type": "update", "move_path": "/w/c"}, "diff": ""}]).subject == "other"


def test_only_this_once_or_no_is_ever_said() -> None:
    """Nothing for the session, no amendment of Codex's own rules, no more than was asked for."""
    for method in (COMMAND, CHANGE):
        assert reply(method, {}, ALLOW) == {"decision": "accept"}
        assert reply(method, {}, DENY) == {"decision": "decline"}
    wanted = {"permissions": {"network": {"enabled": True}}}
    assert reply(PERMISSIONS, wanted, ALLOW) == {**wanted, "scope": "turn"}
    with pytest.raises(RemoteError):
        reply(PERMISSIONS, wanted, DENY)
    assert permissions("i", wanted).detail == '{"network": {"enabled": true}}'


def test_what_nobody_could_see_whole_is_not_granted() -> None:
    """A grant whose words were cut is denied, whatever the answer; one that was shown whole is granted as it is."""
    shown: dict[str, object] = {"permissions": {"fileSystem": {"write": ["/a"]}}}
    hidden: dict[str, object] = {"permissions": {"fileSystem": {"write": ["/" + "a" * EVENT_TEXT, "/etc"]}}}
    assert reply(PERMISSIONS, shown, ApprovalAnswer.ALLOW)["permissions"] == shown["permissions"]
    with pytest.raises(RemoteError):
        reply(PERMISSIONS, hidden, ApprovalAnswer.ALLOW)
