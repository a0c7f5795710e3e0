"""A program that is not the one that was expected: every nonsense becomes a typed error, nothing hangs, and the process is gone."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from jam_copilot import runtime as runtime_module
from jam_copilot.opening import MESSAGE_BYTES, open_copilot
from jam_copilot.pins import PROGRAM, VERSION
from jam_copilot.plugin import CopilotPlugin
from jamcore.api import (
    ApprovalAnswer,
    ApprovalPolicy,
    ExecRefusedError,
    JamError,
    Notice,
    ProviderEvent,
    ProviderGoneError,
    ProviderProtocolError,
    ProviderRefusedError,
    ProviderRuntime,
    ProviderTimeoutError,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

LIMIT_S = 20.0

FAKE = """#!/usr/bin/env python3
import json, os, sys, time

def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

def send(message):
    body = json.dumps(message).encode()
    raw(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)

def told(kind, session="s", **data):
    send({"method": "session.event", "params": {"sessionId": session, "event": {"type": kind, "data": data}}})

def receive():
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\\r\\n", b""):
        length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if line else sys.exit(0)

while True:
    asked = receive()
    def answer(result):
        send({"id": asked["id"], "result": result})
    match asked["method"]:
        case "connect":
            PLACE_connect
            answer({"ok": True, "protocolVersion": 3, "version": "1.0.102"})
        case "session.create" | "session.resume":
            PLACE_session
            answer({"sessionId": "s"})
        case "sessions.checkInUse":
            PLACE_in_use
            answer({"inUse": []})
        case "session.eventLog.read":
            PLACE_journal
            answer({"events": [], "hasMore": False, "cursor": "0", "cursorStatus": "ok"})
        case "session.send":
            PLACE_send
            answer({"messageId": "m"})
            told("user.message", messageId="m", content="hello")
        case "sessions.save":
            PLACE_save
            answer({})
            told("assistant.turn_start", turnId="0")
            told("assistant.message_delta", messageId="a", deltaContent="kept")
            PLACE_running
            told("session.idle", mode="interactive")
        case "session.abort":
            PLACE_abort
            answer({"success": True})
            told("session.idle", aborted=True)
        case "session.tasks.list":
            answer({"tasks": []})
        case _:
            answer({"success": True})
"""
PLACES = ("connect", "session", "in_use", "journal", "send", "save", "running", "abort")

Fake = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]


@pytest.fixture
def fake(guest: LocalGuest, tmp_path: Path) -> Fake:
    """Open the runtime over a program with one misbehaviour: Python statements by the place where they run."""

    def opened(expected_version: str | None = None, **places: str) -> AbstractAsyncContextManager[ProviderRuntime]:
        program = tmp_path / "tools" / PROGRAM
        program.parent.mkdir(parents=True)
        text = FAKE
        assert set(places) <= set(PLACES)
        for place in PLACES:
            text = text.replace(f"PLACE_{place}\n", places.get(place, "pass") + "\n")
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return _context(guest, tmp_path / "tools", expected_version)

    return opened


def _context(guest: LocalGuest, tools: Path, expected_version: str | None) -> AbstractAsyncContextManager[ProviderRuntime]:
    return open_copilot(guest.runtime_request(tools, "http://127.0.0.1:9", expected_version), guest)


def wanted(approvals: ApprovalPolicy = ApprovalPolicy.NEVER) -> ThreadRequest:
    """Return what a thread needs."""
    return ThreadRequest(cwd="/", model="m", approvals=approvals)


NONSENSE: dict[str, tuple[str, type[JamError]]] = {
    "a line of a log": ('raw(b"thread main panicked\\n\\r\\n\\r\\n"); continue', ProviderProtocolError),
    "a message that is too long": (f'raw(b"Content-Length: {MESSAGE_BYTES + 1}\\r\\n\\r\\n"); continue', ProviderProtocolError),
    "a wrong id": ('send({"id": 4711, "result": {}}); continue', ProviderProtocolError),
    "an array": ("send([]); continue", ProviderProtocolError),
    "half a message, then the end": ('raw(b"Content-Length: 99\\r\\n\\r\\n{"); sys.exit(1)', ProviderGoneError),
    "the end": ("sys.exit(0)", ProviderGoneError),
    "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
    "an answer without a session": ("answer({}); continue", ProviderProtocolError),
    "a session's id that is no text": ('answer({"sessionId": 7}); continue', ProviderProtocolError),
    "a session's id of a megabyte": ('answer({"sessionId": "x" * 1_000_000}); continue', ProviderProtocolError),
    "an error": ('send({"id": asked["id"], "error": {"code": -32603, "message": "no"}}); continue', ProviderRefusedError),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_instead_of_a_thread(fake: Fake, name: str) -> None:
    """Opening and resuming raise the typed error; nothing hangs, and the program is gone afterwards."""
    statement, expected = NONSENSE[name]
    with anyio.fail_after(LIMIT_S):
        async with fake(session=statement) as runtime:
            with pytest.raises(expected):
                await runtime.open_thread(wanted())
            with pytest.raises(JamError):
                await runtime.resume_thread(provider_identity("s"), wanted())


IN_A_TURN = {name: case for name, case in NONSENSE.items() if case[1] is not ProviderRefusedError and "session" not in name}


async def collect(runtime: ProviderRuntime, seen: list[ProviderEvent]) -> None:
    """Run a turn and keep each event as it comes, so that what came before an error can be looked at."""
    async with runtime.turn(provider_identity("s"), "hello") as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - an error in between must not lose them


@pytest.mark.parametrize("name", IN_A_TURN)
async def test_nonsense_in_a_turn_cuts_it_after_what_was_delivered(fake: Fake, name: str) -> None:
    """The delta before the nonsense arrives, then the iterator raises; `closed` says why the program is of no use any more."""
    statement, expected = IN_A_TURN[name]
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=statement) as runtime:
            await runtime.open_thread(wanted())
            with pytest.raises(expected):
                await collect(runtime, seen)
            assert await runtime.closed()
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]


@pytest.mark.parametrize("statement", ["answer({}); continue", "sys.exit(3)", "raw(b'oops\\r\\n\\r\\n')"])
async def test_a_program_that_does_not_come_up(fake: Fake, statement: str) -> None:
    """No version, an early end, a banner on the output: entering the context raises a typed error."""
    with anyio.fail_after(LIMIT_S), pytest.raises((ProviderGoneError, ProviderProtocolError)):
        async with fake(connect=statement):
            pytest.fail("entered")


async def test_another_version_than_the_pinned_one_is_refused(fake: Fake) -> None:
    """The version is the running program's own answer, and it is compared before any session is touched."""
    with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match=rf"{VERSION}, not 1\.0\.103"):
        async with fake(expected_version="1.0.103"):
            pytest.fail("entered")


async def test_another_protocol_is_refused(fake: Fake) -> None:
    """Whatever the version says: what is spoken must be what the plugin knows."""
    other = 'answer({"ok": True, "protocolVersion": 4, "version": "1.0.102"}); continue'
    with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match="protocol 4, not 3"):
        async with fake(connect=other):
            pytest.fail("entered")


async def test_a_program_that_is_not_there(guest: LocalGuest, tmp_path: Path) -> None:
    """The launcher's own refusal passes through."""
    with pytest.raises(ExecRefusedError):
        async with _context(guest, tmp_path / "empty", None):
            pytest.fail("entered")


async def test_a_state_that_cannot_be_swept_starts_nothing(guest: LocalGuest, tmp_path: Path) -> None:
    """What the agent may have written there would decide how the program starts."""
    guest.state.rmdir()
    with pytest.raises(ProviderRefusedError, match="swept"):
        async with _context(guest, tmp_path, None):
            pytest.fail("entered")
    assert guest.processes == []


@pytest.mark.parametrize("statement", ["answer({}); continue", 'answer({"inUse": "s"}); continue'])
async def test_who_does_not_say_whether_it_is_in_use_is_not_resumed(fake: Fake, statement: str) -> None:
    """Unknown is not free."""
    with anyio.fail_after(LIMIT_S):
        async with fake(in_use=statement) as runtime:
            with pytest.raises(ProviderProtocolError, match="in use"):
                await runtime.resume_thread(provider_identity("s"), wanted())


async def test_a_session_that_was_in_use_when_it_was_resumed_is_refused(fake: Fake) -> None:
    """Two programs may ask at the same moment; the second learns it from its own journal."""
    taken = 'answer({"events": [{"type": "session.resume", "data": {"alreadyInUse": True}}], "hasMore": False}); continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(journal=taken) as runtime:
            with pytest.raises(ProviderRefusedError, match="another program"):
                await runtime.resume_thread(provider_identity("s"), wanted())
            with pytest.raises(ProviderRefusedError, match="not loaded"):
                await collect(runtime, [])


async def test_another_identity_is_returned_as_it_is(fake: Fake) -> None:
    """The plugin never papers over a wrong session: the core compares (CONT-7)."""
    with anyio.fail_after(LIMIT_S):
        async with fake(session='answer({"sessionId": "another"}); continue') as runtime:
            state = await runtime.resume_thread(provider_identity("s"), wanted())
    assert state.identity == "another"


async def test_an_interrupt_that_is_never_answered_still_ends_with_the_turn(fake: Fake) -> None:
    """The end mark counts."""
    with anyio.fail_after(LIMIT_S):
        async with fake(running="continue", abort='told("session.idle", aborted=True); continue') as runtime:
            await runtime.open_thread(wanted())
            async with runtime.turn(provider_identity("s"), "hello") as events:
                kinds = []
                async for event in events:
                    kinds.append(event.kind)
                    if event.kind == "text.delta":
                        await runtime.interrupt(provider_identity("s"))
    assert kinds == ["turn.started", "text.delta", "turn.ended"]


@pytest.mark.slow
async def test_a_program_that_hangs_is_left_within_bounds(guest: LocalGuest, fake: Fake) -> None:
    """It answers neither the interrupt nor the end of its input: leaving takes the sum of the bounds, and then it is gone."""
    with anyio.fail_after(LIMIT_S):
        async with fake(running="time.sleep(100)") as runtime:
            await runtime.open_thread(wanted())
            async with runtime.turn(provider_identity("s"), "hello") as events:
                assert (await anext(events)).kind == "turn.started"
    assert not (await guest.processes[-1].wait()).ok


async def test_a_message_that_is_never_taken_is_taken_back(guest: LocalGuest, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """So Copilot is when its configuration is broken: it waits without an end. What it may wait for is swept, and the turn says so."""
    monkeypatch.setattr(runtime_module, "ACCEPT_S", 0.2)
    heard = guest.state.parent / "heard"
    silent = 'answer({"messageId": "m"}); continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(send=silent, abort=f'open({str(heard)!r}, "w").close()') as runtime:
            await runtime.open_thread(wanted())
            (guest.state / "config.json").write_text("{broken")
            with pytest.raises(ProviderTimeoutError):
                await collect(runtime, [])
            assert heard.exists()
            assert not (guest.state / "config.json").exists()


async def test_another_message_than_the_one_that_was_sent_is_nonsense(fake: Fake) -> None:
    """Its turn would be nobody's."""
    other = 'answer({"messageId": "m"}); told("user.message", messageId="other", content="x"); continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(send=other) as runtime:
            await runtime.open_thread(wanted())
            with pytest.raises(ProviderProtocolError, match="another message"):
                await collect(runtime, [])


async def test_a_turn_that_fails_before_it_begins_has_no_start(fake: Fake) -> None:
    """The error is in its end mark all the same."""
    failing = 'answer({"messageId": "m"}); told("session.error", errorType="quota", message="no"); told("session.idle"); continue'
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(send=failing) as runtime:
            await runtime.open_thread(wanted())
            await collect(runtime, seen)
    assert seen == [TurnEnded(outcome=TurnOutcome.FAILED, code="usage_limit", detail="no")]


async def test_what_the_agent_did_before_is_not_of_the_turn(fake: Fake) -> None:
    """It may still be at work by itself when the message is sent: its words and its end are not the turn's."""
    late = (
        'answer({"messageId": "m"}); told("assistant.turn_start"); told("assistant.message_delta", messageId="b", deltaContent="x");'
        'told("session.idle", mode="interactive"); told("user.message", messageId="m", content="hello"); continue'
    )
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(send=late) as runtime:
            await runtime.open_thread(wanted())
            await collect(runtime, seen)
    assert [event.kind for event in seen] == ["turn.started", "text.delta", "turn.ended"]
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]


async def test_events_of_other_sessions_and_other_agents_are_not_mixed_in(fake: Fake) -> None:
    """A stray end mark of another session ends nothing, and what is of no session is nobody's."""
    stray = (
        'told("session.idle", session="other"); told("assistant.message_delta", session="other", messageId="a", deltaContent="x");'
        'told("who.knows", a=1); send({"method": "who/knows", "params": {}}); send({"method": "session.event", "params": {}});'
        'send({"method": "session.event", "params": {"sessionId": "s", "event": {"type": "session.idle", "agentId": "a", "data": {}}}})'
    )
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=stray) as runtime:
            await runtime.open_thread(wanted())
            await collect(runtime, seen)
    assert [event.kind for event in seen] == ["turn.started", "text.delta", "turn.ended"]


QUESTION = 'told("permission.requested", requestId="r", permissionRequest={"kind": "shell", "fullCommandText": "rm -rf /"});'
HEARD = (
    'heard = receive(); send({"id": heard["id"], "result": {}});'
    'told("assistant.message_delta", messageId="a", deltaContent=json.dumps(heard["params"]))'
)


async def test_a_question_where_none_may_be_asked_is_refused_and_told(fake: Fake) -> None:
    """None should come; if one does, Copilot gets a refusal and the person a notice."""
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=QUESTION + HEARD) as runtime:
            await runtime.open_thread(wanted())
            await collect(runtime, seen)
    assert '"kind": "reject"' in "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert [event.text for event in seen if isinstance(event, Notice)] == ["Copilot asked Jam and was refused: rm -rf /"]


async def test_a_request_of_the_program_is_refused_and_told(fake: Fake) -> None:
    """What it may ask comes as an event; nothing that it sends is left without an answer."""
    ask = (
        'send({"id": 0, "method": "hooks.invoke", "params": {"sessionId": "s"}}); heard = receive();'
        'told("assistant.message_delta", messageId="a", deltaContent=json.dumps(heard["error"]))'
    )
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=ask) as runtime:
            await runtime.open_thread(wanted(ApprovalPolicy.ASK))
            await collect(runtime, seen)
    assert '"code": -32601' in "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert [event.text for event in seen if isinstance(event, Notice)] == ["Copilot asked Jam (hooks.invoke) and was refused."]


async def test_a_question_that_its_turn_does_not_wait_for_can_be_answered_no_more(fake: Fake) -> None:
    """An answer that comes after the end is passed over."""
    with anyio.fail_after(LIMIT_S):
        async with fake(running=QUESTION) as runtime:
            await runtime.open_thread(wanted(ApprovalPolicy.ASK))
            seen: list[ProviderEvent] = []
            await collect(runtime, seen)
            [request] = [event.request for event in seen if event.kind == "approval.requested"]
            await runtime.answer(provider_identity("s"), request, ApprovalAnswer.ALLOW)
    assert [event.kind for event in seen] == ["turn.started", "text.delta", "approval.requested", "turn.ended"]


async def test_the_plugin_opens_nothing_before_its_context_is_entered(guest: LocalGuest, tmp_path: Path) -> None:
    """The hook returns at once; a context that is never entered has started no program."""
    await CopilotPlugin().jam_open_runtime(guest.runtime_request(tmp_path, "http://127.0.0.1:9"), guest)
    assert guest.processes == []
