"""What an agent asks before it acts, in a session that asks; and what it hears: this once, or no."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jam_acp.calls import Call as AgentCall
from jam_acp.questions import CANCELLED, reply
from jamcore.api import (
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
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Call, Match, Rule, Script, say
from jamcore.testing.servers.server import ModelServer

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
MODEL = "mock-model"
LIMIT_S = 60.0
ALLOW, DENY = ApprovalAnswer.ALLOW, ApprovalAnswer.DENY


def shell(call_id: str, words: str, match: Match) -> Rule:
    """Return the rule by which the model calls the shell."""
    return Rule(match=match, answer=(Call(name="bash", arguments={"command": words, "description": "x"}, call_id=call_id),))


SCRIPT = Script(
    rules=(
        say("done", match=Match(tool_output="c2")),
        Rule(
            match=Match(tool_output="c1"),
            answer=(Call(name="write", arguments={"filePath": "new.txt", "content": "one\n"}, call_id="c2"),),
        ),
        shell("c1", "touch made.txt", Match(last_user_contains="please")),
        say("fine", match=Match(last_user_contains="again")),
    )
)


async def open_asking(runtime: ProviderRuntime, guest: LocalGuest) -> ProviderIdentity:
    """Open a session that asks."""
    request = ThreadRequest(cwd=str(guest.work), model=MODEL, approvals=ApprovalPolicy.ASK)
    return provider_identity((await runtime.open_thread(request)).identity)


async def collected(
    runtime: ProviderRuntime, thread: ProviderIdentity, answer: ApprovalAnswer, text: str = "please"
) -> list[ProviderEvent]:
    """Run a turn, answer every question in the same way, and return all events."""
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(thread, text) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ApprovalRequested):
                    await runtime.answer(thread, event.request, answer)
    return seen


@pytest.mark.needs("opencode")
@pytest.mark.anyio
@pytest.mark.unprivileged
@pytest.mark.slow
class TestOpenCode:
    """The real program."""

    async def test_what_is_allowed_is_done(self, guest: LocalGuest, open_runtime: OpenRuntime) -> None:
        """A command and a change of files are each asked about once, with all that they would do, and then done."""
        async with ChatServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
            thread = await open_asking(runtime, guest)
            events = await collected(runtime, thread, ALLOW)
        first, second = [event for event in events if isinstance(event, ApprovalRequested)]
        assert (first.item, first.subject, first.detail) == ("c1", "command", "touch made.txt")
        assert first.preview == f"in {guest.work}"
        assert (second.item, second.subject, second.detail) == ("c2", "file-change", f"add {guest.work / 'new.txt'}")
        assert "+one" in second.preview
        assert first.request != second.request
        shown = [event.kind for event in events if event.kind in {"command.started", "approval.requested", "file.changed"}]
        assert shown == ["command.started", "approval.requested", "approval.requested", "file.changed"]
        assert [event.exit_code for event in events if isinstance(event, CommandFinished)] == [0]
        assert [event.change for event in events if isinstance(event, FileChanged)] == ["add"]
        assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert sorted(path.name for path in guest.work.iterdir()) == ["made.txt", "new.txt"]

    async def test_what_is_denied_is_not_done(self, guest: LocalGuest, open_runtime: OpenRuntime) -> None:
        """OpenCode ends the turn there, without asking the model again; the session takes the next turn."""
        async with ChatServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
            thread = await open_asking(runtime, guest)
            events = await collected(runtime, thread, DENY)
            requests = len(model.model_requests)
            after = await collected(runtime, thread, DENY, "again")
        assert [event.item for event in events if isinstance(event, ApprovalRequested)] == ["c1"]
        assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert list(guest.work.iterdir()) == []
        assert requests == 1
        assert after[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)

    async def test_an_interrupt_ends_a_turn_that_waits_for_an_answer(self, guest: LocalGuest, open_runtime: OpenRuntime) -> None:
        """Nothing is done, an answer that comes too late is passed over, and the session takes the next turn."""
        async with ChatServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
            thread = await open_asking(runtime, guest)
            request, last = "", None
            with anyio.fail_after(LIMIT_S):
                async with runtime.turn(thread, "please") as events, anyio.create_task_group() as tasks:
                    async for event in events:
                        last = event
                        if isinstance(event, ApprovalRequested):
                            request = event.request
                            tasks.start_soon(runtime.interrupt, thread)
            assert last == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
            await runtime.answer(thread, request, ALLOW)
            after = await collected(runtime, thread, DENY, "again")
        assert after[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert list(guest.work.iterdir()) == []

    async def test_a_session_asks_as_it_is_resumed(self, guest: LocalGuest, open_runtime: OpenRuntime) -> None:
        """Whether it asks is said at each resume: one that asked does not when Jam says so."""
        asked = []
        async with ChatServer(SCRIPT) as model:
            async with open_runtime(guest, model) as runtime:
                thread = await open_asking(runtime, guest)
                await collected(runtime, thread, DENY, "again")
            for policy in (ApprovalPolicy.ASK, ApprovalPolicy.NEVER):
                async with open_runtime(guest, model) as runtime:
                    await runtime.resume_thread(thread, ThreadRequest(cwd=str(guest.work), model=MODEL, approvals=policy))
                    seen = await collected(runtime, thread, DENY)
                    made = bool(list(guest.work.iterdir()))
                    asked.append(([event.subject for event in seen if isinstance(event, ApprovalRequested)], made))
        assert asked == [(["command"], False), ([], True)]

    async def test_a_session_that_never_asks_does_not(self, guest: LocalGuest, open_runtime: OpenRuntime) -> None:
        """The default: the sandbox is the boundary, and nobody is kept waiting."""
        async with ChatServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
            thread = provider_identity((await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))).identity)
            events = await collected(runtime, thread, DENY)
        assert not any(isinstance(event, ApprovalRequested | Notice) for event in events)
        assert sorted(path.name for path in guest.work.iterdir()) == ["made.txt", "new.txt"]


OPTIONS = [
    {"optionId": "1", "name": "Always", "kind": "allow_always"},
    {"optionId": "2", "name": "Yes", "kind": "allow_once"},
    {"optionId": "3", "name": "Never", "kind": "reject_always"},
    {"optionId": "4", "name": "No", "kind": "reject_once"},
]


def test_an_option_is_chosen_by_its_kind_and_never_for_good() -> None:
    """Whatever the options are called and wherever they stand; without a "once" the question is cancelled."""
    assert reply(OPTIONS, ALLOW) == {"outcome": {"outcome": "selected", "optionId": "2"}}
    assert reply(OPTIONS, DENY) == {"outcome": {"outcome": "selected", "optionId": "4"}}
    for options in (OPTIONS[::2], [], None, "once", [7], [{"kind": "allow_once"}], [{"optionId": 2, "kind": "allow_once"}]):
        assert reply(options, ALLOW) == CANCELLED
        assert reply(options, DENY) == CANCELLED
    assert reply(OPTIONS, None) == CANCELLED
    assert reply([{"optionId": "5"}], None) == CANCELLED


def call_of(**told: object) -> AgentCall:
    """Return a call of which this was told."""
    call = AgentCall("i")
    call.learn(told)
    return call


def test_a_question_says_all_that_would_be_done() -> None:
    """A command is its words; a change names each file and how; what cannot be said whole is something that no rule covers."""
    command = call_of(kind="execute", rawInput={"command": "ls", "cwd": "/w"}).question()
    assert command == ApprovalRequested(item="i", subject="command", detail="ls", preview="in /w")
    listed = call_of(kind="execute", rawInput={"command": ["echo", "a b"]}).question()
    assert (listed.subject, listed.detail) == ("command", "echo 'a b'")
    diffs = [
        {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x\n"},
        {"type": "diff", "path": "/w/b", "oldText": "y\n", "newText": "z\n"},
    ]
    change = call_of(kind="edit", content=diffs).question()
    assert (change.subject, change.detail) == ("file-change", "add /w/a\nupdate /w/b")
    assert change.preview == "add /w/a\n@@ -1,0 +1,1 @@\n+x\nupdate /w/b\n@@ -1,1 +1,1 @@\n-y\n+z"
    gone = call_of(kind="delete", locations=[{"path": "/w/c"}]).question()
    assert (gone.subject, gone.detail) == ("file-change", "delete /w/c")


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "execute", "title": "run it"},
        {"kind": "execute", "rawInput": {"command": "x" * (1 << 20)}},
        {"kind": "edit", "title": "edit"},
        {"kind": "move", "title": "move", "locations": [{"path": "/a"}, {"path": "/b"}]},
        {"kind": "fetch", "title": "get it", "rawInput": {"url": "https://example.org"}},
        {"kind": "edit", "locations": [{"path": f"/{n}" + "x" * 4_000} for n in range(200)]},
        {},
    ],
    ids=["no command", "too long", "no path", "a move", "another kind", "too many", "nothing"],
)
def test_what_is_neither_a_command_nor_a_change_is_something_else(told: dict[str, object]) -> None:
    """Then no rule of a person covers it."""
    assert call_of(**told).question().subject == "other"
