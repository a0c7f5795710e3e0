"""Programs that are not Codex, or no longer well: every kind of nonsense becomes one typed error, and the process is gone."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from jam_codex.opening import open_codex
from jam_codex.plugin import CodexPlugin
from jamcore.api import (
    ApprovalPolicy,
    ExecRefusedError,
    JamError,
    ProviderEvent,
    ProviderGoneError,
    ProviderProtocolError,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

LIMIT_S = 20.0

PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time

def send(message):
    sys.stdout.buffer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\\n")
    sys.stdout.buffer.flush()

def told(method, **params):
    send({"method": method, "params": {"threadId": "t", "turnId": "u", **params}})

for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            {initialize}
            send({"id": asked["id"], "result": {"userAgent": "jam/0.163.0 (x)"}})
        case "thread/start" | "thread/resume":
            {thread}
            send({"id": asked["id"], "result": {"thread": {"id": "t"}}})
        case "thread/turns/list":
            {turns}
            send({"id": asked["id"], "result": {"data": [], "nextCursor": None}})
        case "turn/start":
            {turn}
            send({"id": asked["id"], "result": {"turn": {"id": "u"}}})
            told("item/completed", item={"type": "userMessage", "id": "i"})
            told("item/agentMessage/delta", itemId="m", delta="kept")
            {running}
            told("turn/completed", turn={"id": "u", "status": "completed"})
        case "turn/interrupt":
            {interrupt}
            send({"id": asked["id"], "result": {}})
            told("turn/completed", turn={"id": "u", "status": "interrupted"})
        case "thread/backgroundTerminals/clean":
            send({"id": asked["id"], "result": {}})
"""

Fake = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]


@pytest.fixture
def fake(guest: LocalGuest, tmp_path: Path) -> Fake:
    """Open the runtime over a program with one misbehaviour: Python statements by the place where they run."""

    def opened(expected_version: str | None = None, **places: str) -> AbstractAsyncContextManager[ProviderRuntime]:
        program = tmp_path / "tools" / "bin" / "codex"
        program.parent.mkdir(parents=True)
        text = PROGRAM
        for place in ("initialize", "thread", "turns", "turn", "running", "interrupt"):
            text = text.replace("{" + place + "}", places.get(place, "pass"))
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return _context(guest, tmp_path / "tools", expected_version)

    return opened


def _context(guest: LocalGuest, tools: Path, expected_version: str | None) -> AbstractAsyncContextManager[ProviderRuntime]:
    return open_codex(guest.runtime_request(tools, "http://127.0.0.1:9", expected_version), guest)


NONSENSE: dict[str, tuple[str, type[JamError]]] = {
    "a line that is no JSON": ('send(b"thread main panicked\\n"); continue', ProviderProtocolError),
    "a line of 10 MB": ('send(b"{" + b"x" * 10_000_000 + b"}\\n"); continue', ProviderProtocolError),
    "a wrong id": ('send({"id": 4711, "result": {}}); continue', ProviderProtocolError),
    "an array": ('send(b"[]\\n"); continue', ProviderProtocolError),
    "half a message, then the end": ('send(b\'{"id": 3, "res\'); sys.exit(1)', ProviderGoneError),
    "the end": ("sys.exit(0)", ProviderGoneError),
    "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
    "an answer without a thread": ('send({"id": asked["id"], "result": {}}); continue', ProviderProtocolError),
    "a thread's id that is no text": (
        'send({"id": asked["id"], "result": {"thread": {"id": 7}}}); continue',
        ProviderProtocolError,
    ),
    "a thread's id of a megabyte": (
        'send({"id": asked["id"], "result": {"thread": {"id": "x" * 1_000_000}}}); continue',
        ProviderProtocolError,
    ),
    "an error": ('send({"id": asked["id"], "error": {"code": -32600, "message": "no"}}); continue', ProviderRefusedError),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_instead_of_a_thread(guest: LocalGuest, fake: Fake, name: str) -> None:
    """Opening and resuming raise the typed error; nothing hangs, and the program is gone afterwards."""
    statement, expected = NONSENSE[name]
    with anyio.fail_after(LIMIT_S):
        async with fake(thread=statement) as runtime:
            with pytest.raises(expected):
                await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            with pytest.raises(JamError):
                await runtime.resume_thread(provider_identity("t"), ThreadRequest(cwd=str(guest.work)))


IN_A_TURN = {name: case for name, case in NONSENSE.items() if case[1] is not ProviderRefusedError and "thread" not in name}


async def collect(runtime: ProviderRuntime, seen: list[ProviderEvent]) -> None:
    """Run a turn and keep each event as it comes, so that what came before an error can be looked at."""
    async with runtime.turn(provider_identity("t"), "hello") as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - an error in between must not lose them


@pytest.mark.parametrize("name", IN_A_TURN)
async def test_nonsense_in_a_turn_cuts_it_after_what_was_delivered(guest: LocalGuest, fake: Fake, name: str) -> None:
    """The delta before the nonsense arrives, then the iterator raises; `closed` says why the program is of no use any more."""
    statement, expected = IN_A_TURN[name]
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=statement) as runtime:
            await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            with pytest.raises(expected):
                await collect(runtime, seen)
            assert await runtime.closed()
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]


@pytest.mark.parametrize("statement", ["send({'id': asked['id'], 'result': {}}); continue", "sys.exit(3)", "send(b'oops\\n')"])
async def test_a_program_that_does_not_come_up(fake: Fake, statement: str) -> None:
    """No version, an early end, a banner on the output: entering the context raises a typed error."""
    with anyio.fail_after(LIMIT_S), pytest.raises((ProviderGoneError, ProviderProtocolError)):
        async with fake(initialize=statement):
            pytest.fail("entered")


async def test_another_version_than_the_pinned_one_is_refused(fake: Fake) -> None:
    """The version is the running program's own answer, and it is compared before any thread is touched."""
    with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match=r"0\.163\.0, not 0\.164\.0"):
        async with fake(expected_version="0.164.0"):
            pytest.fail("entered")


async def test_a_program_that_is_not_there(guest: LocalGuest, tmp_path: Path) -> None:
    """The launcher's own refusal passes through."""
    with pytest.raises(ExecRefusedError):
        async with _context(guest, tmp_path / "empty", None):
            pytest.fail("entered")


async def test_an_odd_status_among_the_turns_is_nonsense(guest: LocalGuest, fake: Fake) -> None:
    """A turn whose end Jam cannot read must not pass for a finished one."""
    odd = 'send({"id": asked["id"], "result": {"data": [{"id": "u", "status": "sleeping"}]}}); continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(turns=odd) as runtime:
            with pytest.raises(ProviderProtocolError, match="sleeping"):
                await runtime.resume_thread(provider_identity("t"), ThreadRequest(cwd=str(guest.work)))


async def test_another_identity_is_returned_as_it_is(guest: LocalGuest, fake: Fake) -> None:
    """The plugin never papers over a wrong thread: the core compares (CONT-7)."""
    other = 'send({"id": asked["id"], "result": {"thread": {"id": "another"}}}); continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(thread=other) as runtime:
            state = await runtime.resume_thread(provider_identity("t"), ThreadRequest(cwd=str(guest.work)))
    assert state.identity == "another"


async def test_an_interrupt_that_is_never_answered_still_ends_with_the_turn(guest: LocalGuest, fake: Fake) -> None:
    """Codex may not answer an interrupt of a turn that just ended; the end mark counts."""
    silent = 'told("turn/completed", turn={"id": "u", "status": "interrupted"}); continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(running="continue", interrupt=silent) as runtime:
            await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            async with runtime.turn(provider_identity("t"), "hello") as events:
                kinds = []
                async for event in events:
                    kinds.append(event.kind)
                    if event.kind == "text.delta":
                        await runtime.interrupt(provider_identity("t"))
    assert kinds == ["turn.started", "text.delta", "turn.ended"]


@pytest.mark.slow
async def test_a_program_that_hangs_is_left_within_bounds(guest: LocalGuest, fake: Fake) -> None:
    """It answers neither the interrupt nor the end of its input: leaving takes the sum of the two bounds, and then it is gone."""
    with anyio.fail_after(LIMIT_S):
        async with fake(running="time.sleep(100)") as runtime:
            await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            async with runtime.turn(provider_identity("t"), "hello") as events:
                assert (await anext(events)).kind == "turn.started"
    assert not (await guest.processes[-1].wait()).ok


async def test_events_of_other_threads_and_turns_are_not_mixed_in(guest: LocalGuest, fake: Fake) -> None:
    """A stray end mark of another turn ends nothing, and another thread's text is nobody's."""
    stray = (
        'told("turn/completed", turn={"id": "old", "status": "failed"});'
        'told("item/agentMessage/delta", turnId="old", itemId="m", delta="x");'
        'told("item/agentMessage/delta", threadId="other", itemId="m", delta="y"); told("who/knows", a=1)'
    )
    with anyio.fail_after(LIMIT_S):
        async with fake(running=stray) as runtime:
            await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            async with runtime.turn(provider_identity("t"), "hello") as events:
                seen = [event async for event in events]
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]
    assert [event.kind for event in seen] == ["turn.started", "text.delta", "turn.ended"]


async def test_a_request_for_approval_is_declined_and_told(guest: LocalGuest, fake: Fake) -> None:
    """None should come; if one does, Codex gets a refusal and the person a notice."""
    ask = (
        'send({"id": 0, "method": "item/commandExecution/requestApproval", "params": {"threadId": "t", "command": "rm -rf /"}});'
        'answer = json.loads(sys.stdin.readline()); told("item/agentMessage/delta", itemId="m", delta=json.dumps(answer))'
    )
    with anyio.fail_after(LIMIT_S):
        async with fake(running=ask) as runtime:
            await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            async with runtime.turn(provider_identity("t"), "hello") as events:
                seen = [event async for event in events]
    assert '"decision": "decline"' in "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert [event.text for event in seen if event.kind == "notice"] == [
        "Codex asked Jam (item/commandExecution/requestApproval) and was refused: rm -rf /"
    ]


ASKING = ThreadRequest(cwd="/", approvals=ApprovalPolicy.ASK)
QUESTION = '{"threadId": "t", "turnId": "%s", "itemId": "i", "command": "rm -rf /"}'


@pytest.mark.parametrize(
    ("method", "turn", "answer"),
    [
        ("item/commandExecution/requestApproval", "old", '"decision": "decline"'),
        ("who/knows", "u", '"code": -32601'),
        ("mcpServer/elicitation/request", "u", '"action": "decline"'),
    ],
    ids=["of a turn that is over", "unknown", "not a person's to answer"],
)
async def test_what_no_person_is_asked_is_refused_at_once(fake: Fake, method: str, turn: str, answer: str) -> None:
    """Also in a thread that asks: nothing that the program may send is left without an answer."""
    ask = (
        f'send({{"id": 0, "method": "{method}", "params": {QUESTION % turn}}});'
        'answer = json.loads(sys.stdin.readline()); told("item/agentMessage/delta", itemId="m", delta=json.dumps(answer))'
    )
    with anyio.fail_after(LIMIT_S):
        async with fake(running=ask) as runtime:
            await runtime.open_thread(ASKING)
            async with runtime.turn(provider_identity("t"), "hello") as events:
                seen = [event async for event in events]
    assert answer in "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert not any(event.kind == "approval.requested" for event in seen)


async def test_a_question_that_its_turn_does_not_wait_for_is_denied(fake: Fake, tmp_path: Path) -> None:
    """A program that asks and ends the turn without an answer gets one all the same, and it is no."""
    said = tmp_path / "answer"
    ask = (
        'told("item/started", item={"type": "commandExecution", "id": "i", "command": "rm -rf /", "cwd": "/"});'
        f'send({{"id": 0, "method": "item/commandExecution/requestApproval", "params": {QUESTION % "u"}}}); time.sleep(0.2);'
        'told("turn/completed", turn={"id": "u", "status": "completed"});'
        f'open({str(said)!r}, "w").write(sys.stdin.readline())'
    )
    with anyio.fail_after(LIMIT_S):
        async with fake(running=ask) as runtime:
            await runtime.open_thread(ASKING)
            async with runtime.turn(provider_identity("t"), "hello") as events:
                seen = [event.kind async for event in events]
            while not said.exists() or not said.read_text():  # noqa: ASYNC110 - the program's own file
                await anyio.sleep(0.01)
    assert seen == ["turn.started", "text.delta", "command.started", "approval.requested", "turn.ended"]
    assert '"decline"' in said.read_text()


async def test_the_plugin_opens_nothing_before_its_context_is_entered(guest: LocalGuest, tmp_path: Path) -> None:
    """The hook returns at once; a context that is never entered has started no program."""
    await CodexPlugin().jam_open_runtime(guest.runtime_request(tmp_path, "http://127.0.0.1:9"), guest)
    assert guest.processes == []
