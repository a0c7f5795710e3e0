"""Programs that are not Claude Code, or no longer well: every kind of nonsense becomes one typed error, and the process is gone."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from jam_claude_code import thread as threads
from jam_claude_code.pins import PROGRAM_VERSION, VERSION
from jam_claude_code.plugin import ClaudeCodePlugin
from jam_claude_code.runtime import open_claude_code
from jamcore.api import (
    ApprovalPolicy,
    ApprovalRequested,
    ExecRefusedError,
    JamError,
    Notice,
    ProviderEvent,
    ProviderGoneError,
    ProviderProtocolError,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

LIMIT_S = 30.0

PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time

options = dict(word.partition("=")[::2] for word in sys.argv[1:])
if "--version" in options:
    {version}
    print("{VERSION} (Claude Code)")
    sys.exit(0)
thread = options.get("--session-id") or options["--resume"]
place = os.environ["CLAUDE_CONFIG_DIR"]
{start}

def send(message):
    sys.stdout.buffer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\\n")
    sys.stdout.buffer.flush()

def state(word):
    send({"type": "system", "subtype": "session_state_changed", "state": word})

def delta(text):
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    send({"type": "stream_event", "event": event, "api_message_id": "m", "parent_tool_use_id": None})

def result(turn, **more):
    send({"type": "result", "user_message_uuids": [turn], "is_error": False, "terminal_reason": "completed", **more})

def keep(line):
    os.makedirs(place + "/projects/p", exist_ok=True)
    with open(f"{place}/projects/p/{thread}.jsonl", "a") as transcript:
        transcript.write(line)

turn = ""
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "user":
        turn = asked["uuid"]
        {turn}
        state("running")
        send({"type": "command_lifecycle", "command_uuid": turn, "state": "started"})
        send({"type": "system", "subtype": "init", "session_id": thread})
        keep(json.dumps({"type": "user", "uuid": turn, "promptSource": "sdk"}, separators=(",", ":")) + "\\n")
        delta("kept")
        {running}
        result(turn)
        state("idle")
    elif asked["type"] == "control_request":
        done = {"subtype": "success", "request_id": asked["request_id"], "response": {"pid": os.getpid()}}
        if asked["request"]["subtype"] == "initialize":
            os.makedirs(place + "/sessions", exist_ok=True)
            with open(f"{place}/sessions/{os.getpid()}.json", "w") as registry:
                registry.write(json.dumps({"sessionId": thread}))
            {initialize}
        else:
            {interrupt}
            result(turn, terminal_reason="aborted_streaming", is_error=True)
            state("idle")
        send({"type": "control_response", "response": done})
"""

PLACES = ("version", "start", "turn", "running", "initialize", "interrupt")
Fake = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]


@pytest.fixture
def fake(guest: LocalGuest, tmp_path: Path) -> Fake:
    """Open the runtime over a program with one misbehaviour: Python statements by the place where they run."""

    def opened(expected_version: str | None = None, **places: str) -> AbstractAsyncContextManager[ProviderRuntime]:
        program = tmp_path / "tools" / "claude"
        program.parent.mkdir(parents=True, exist_ok=True)
        text = PROGRAM.replace("{VERSION}", PROGRAM_VERSION)
        for place in PLACES:
            text = text.replace("{" + place + "}", places.get(place, "pass"))
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return open_claude_code(guest.runtime_request(tmp_path / "tools", "http://127.0.0.1:9", expected_version), guest)

    return opened


NONSENSE: dict[str, tuple[str, type[JamError]]] = {
    "a line that is no JSON": ('send(b"thread main panicked\\n"); continue', ProviderProtocolError),
    "a line of 100 MB": ('send(b"{" + b"x" * 100_000_000 + b"}\\n"); continue', ProviderProtocolError),
    "an answer to nothing": (
        'send({"type": "control_response", "response": {"subtype": "success", "request_id": "4711"}}); continue',
        ProviderProtocolError,
    ),
    "another protocol's answer": ('send({"id": 1, "result": {}}); continue', ProviderProtocolError),
    "an array": ('send(b"[]\\n"); continue', ProviderProtocolError),
    "half a frame, then the end": ('send(b\'{"type": "resul\'); os.kill(os.getpid(), 9)', ProviderGoneError),
    "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_instead_of_a_thread(guest: LocalGuest, fake: Fake, name: str) -> None:
    """Opening raises the typed error; nothing hangs, and the program is gone afterwards."""
    statement, expected = NONSENSE[name]
    with anyio.fail_after(LIMIT_S):
        async with fake(initialize=statement) as runtime:
            with pytest.raises(expected):
                await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
        await guest.processes[-1].wait()


REFUSALS = {
    "words on its error output": ('print("Error: no such thing", file=sys.stderr); sys.exit(1)', "no such thing"),
    "an end mark": (
        'send({"type": "result", "is_error": True, "errors": ["No conversation found"]}); sys.exit(1)',
        "No conversation",
    ),
    "an answer": (
        'done = {"subtype": "error", "request_id": asked["request_id"], "error": "not this"}',
        "not this",
    ),
}


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("name", REFUSALS)
async def test_a_program_that_does_not_take_a_thread_refuses_it(guest: LocalGuest, fake: Fake, name: str) -> None:
    """In each of the forms that a refusal has, it is one, and nothing else is begun in its place."""
    statement, words = REFUSALS[name]
    with anyio.fail_after(LIMIT_S):
        async with fake(initialize=statement) as runtime:
            with pytest.raises(ProviderRefusedError, match=words):
                await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))


async def collect(runtime: ProviderRuntime, identity: str, seen: list[ProviderEvent], text: str = "hello") -> None:
    """Run a turn and keep each event as it comes, so that what came before an error can be looked at."""
    async with runtime.turn(provider_identity(identity), text) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - an error in between must not lose them


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_in_a_turn_cuts_it_after_what_was_delivered(guest: LocalGuest, fake: Fake, name: str) -> None:
    """The delta before the nonsense arrives, then the iterator raises; `closed` says why the program is of no use any more."""
    statement, expected = NONSENSE[name]
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=statement) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            with pytest.raises(expected):
                await collect(runtime, thread.identity, seen)
            assert await runtime.closed()
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]


@pytest.mark.parametrize("statement", ['print("nonsense"); sys.exit(0)', "sys.exit(3)", "os.kill(os.getpid(), 9)"])
async def test_a_program_that_does_not_say_its_version(fake: Fake, statement: str) -> None:
    """Entering the context raises a typed error."""
    with anyio.fail_after(LIMIT_S), pytest.raises((ProviderGoneError, ProviderProtocolError)):
        async with fake(version=statement):
            pytest.fail("entered")


@pytest.mark.parametrize(
    ("expected", "statement"),
    [("0.2.188", "pass"), (VERSION, 'print("2.1.331 (Claude Code)"); sys.exit(0)')],
    ids=["pin", "program"],
)
async def test_another_version_than_the_pinned_one_is_refused(fake: Fake, expected: str, statement: str) -> None:
    """The version is the program's own answer, and it is compared before any thread is touched."""
    with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match="not 2"):
        async with fake(expected_version=expected, version=statement):
            pytest.fail("entered")


async def test_a_program_that_is_not_there(guest: LocalGuest, tmp_path: Path) -> None:
    """The launcher's own refusal passes through; of this launcher it is the system's."""
    with pytest.raises((ExecRefusedError, FileNotFoundError)):
        async with open_claude_code(guest.runtime_request(tmp_path / "empty", "http://127.0.0.1:9"), guest):
            pytest.fail("entered")


@pytest.mark.guarantee("CONT-7")
async def test_another_identity_is_returned_as_it_is(guest: LocalGuest, fake: Fake) -> None:
    """The plugin never papers over a wrong thread: the core compares. Nothing can be said in it."""
    async with fake() as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
        await collect(runtime, thread.identity, [])
    with anyio.fail_after(LIMIT_S):
        async with fake(start='thread = "another"') as runtime:
            state = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work)))
            with pytest.raises(ProviderRefusedError):
                await collect(runtime, thread.identity, [])
    assert state.identity == "another"


@pytest.mark.guarantee("CONT-1")
async def test_a_program_that_changes_its_thread_is_cut_off(guest: LocalGuest, fake: Fake) -> None:
    """Each turn says which thread it is in; another one ends the connection, and says so."""
    with anyio.fail_after(LIMIT_S):
        async with fake(turn='thread = "another"') as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            with pytest.raises(ProviderProtocolError, match="another"):
                await collect(runtime, thread.identity, [])


@pytest.mark.guarantee("CONT-11")
async def test_a_program_that_keeps_nothing_is_found_out(guest: LocalGuest, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claude Code says nothing where it cannot write: no turn counts as begun that a kill would lose."""
    monkeypatch.setattr(threads, "WRITTEN_S", 0.3)
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(turn="keep = print if 0 else (lambda line: None)") as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            with pytest.raises(ProviderProtocolError, match="does not keep"):
                await collect(runtime, thread.identity, seen)
            assert await runtime.closed()
    assert seen == []


BY_ITSELF = 'state("running"); delta("nobody asked"); time.sleep(3); result("of nobody"); state("idle")'


async def test_a_turn_that_begins_by_itself_is_waited_out(guest: LocalGuest, fake: Fake) -> None:
    """What it says is nobody's answer; the next turn begins after it, with a notice that says so."""
    by_itself = f'result(turn); state("idle"); {BY_ITSELF}; continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(running=by_itself) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            first: list[ProviderEvent] = []
            await collect(runtime, thread.identity, first)
            await anyio.sleep(0.2)  # what it begins is not asked for, so nothing tells when
            second: list[ProviderEvent] = []
            await collect(runtime, thread.identity, second)
    assert [event.kind for event in first] == ["turn.started", "text.delta", "usage", "turn.ended"]
    assert [event.text for event in second if isinstance(event, TextDelta)] == ["kept"]
    assert [event.text for event in second if isinstance(event, Notice)] == [threads.BY_ITSELF]


async def test_a_turn_that_waits_for_another_can_be_interrupted(guest: LocalGuest, fake: Fake) -> None:
    """Nothing of it was said yet, and nothing will be: it ends as interrupted without having begun."""
    by_itself = 'result(turn); state("idle"); state("running"); continue'
    with anyio.fail_after(LIMIT_S):
        async with fake(running=by_itself) as runtime:
            thread = provider_identity((await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))).identity)
            await collect(runtime, thread, [])
            await anyio.sleep(0.2)
            seen: list[ProviderEvent] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collect, runtime, thread, seen)
                await anyio.sleep(0.2)
                await runtime.interrupt(thread)
    assert seen == [TurnEnded(outcome=TurnOutcome.INTERRUPTED)]


@pytest.mark.slow
async def test_a_program_that_hangs_is_ended_within_bounds(guest: LocalGuest, fake: Fake) -> None:
    """It answers neither the interrupt nor the end of its input: leaving the turn ends it, and then it is gone."""
    with anyio.fail_after(LIMIT_S):
        async with fake(running="time.sleep(100)") as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
            async with runtime.turn(provider_identity(thread.identity), "hello") as events:
                assert (await anext(events)).kind == "turn.started"
            assert await runtime.closed()
    assert not (await guest.processes[-1].wait()).ok


ASKING = ThreadRequest(cwd="/", approvals=ApprovalPolicy.ASK)
ASK = (
    'send({"type": "control_request", "request_id": "q", "request": {"subtype": "%s", "tool_name": "Bash", "tool_use_id": "t", '
    '"input": {"command": "rm -rf /"}}}); answer = json.loads(sys.stdin.readline()); delta(json.dumps(answer["response"]))'
)


@pytest.mark.parametrize(
    ("request_", "method", "answer"),
    [
        (ThreadRequest(cwd="/"), "can_use_tool", '"behavior": "deny"'),
        (ThreadRequest(cwd="/"), "hook_callback", '"subtype": "error"'),
        (ASKING, "mcp_message", '"subtype": "error"'),
    ],
    ids=["in a thread that asks nobody", "a hook", "not a person's to answer"],
)
async def test_what_no_person_is_asked_is_refused_and_told(fake: Fake, request_: ThreadRequest, method: str, answer: str) -> None:
    """Nothing that the program may ask is left without an answer, and the person can see that there was a question."""
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=ASK % method) as runtime:
            thread = await runtime.open_thread(request_)
            await collect(runtime, thread.identity, seen)
    assert answer in "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert [event.text for event in seen if isinstance(event, Notice)] == [
        f"Claude Code asked Jam ({method}) and was refused: Bash"
    ]
    assert not any(isinstance(event, ApprovalRequested) for event in seen)


async def test_the_plugin_opens_nothing_before_its_context_is_entered(guest: LocalGuest, tmp_path: Path) -> None:
    """The hook returns at once; a context that is never entered has started no program."""
    await ClaudeCodePlugin().jam_open_runtime(guest.runtime_request(tmp_path, "http://127.0.0.1:9"), guest)
    assert guest.processes == []
