"""Programs that are no good agents, or no longer well: every kind of nonsense becomes one typed error, and the process is gone.

They are stand-ins: a few lines of Python that speak the protocol, with one misbehaviour each.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from jam_acp.opening import open_acp
from jam_acp.plugin import plugin_of
from jam_acp.profile import Authentication, Extension, Profile, Resume
from jam_acp.runtime import AcpRuntime
from jamcore.api import (
    ApprovalPolicy,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    CredentialSpec,
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
    TurnStarted,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

LIMIT_S = 30.0

PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time

def send(message):
    sys.stdout.buffer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\\n")
    sys.stdout.buffer.flush()

def result(value):
    send({"jsonrpc": "2.0", "id": asked["id"], "result": value})

def error(code, message, data=None):
    send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": message, "data": data}})

def told(kind, session="s", **more):
    update = {"sessionUpdate": kind, **more}
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})

def say(kind, words, **more):
    told(kind, content={"type": "text", "text": words}, **more)

def ask(method, **params):
    send({"jsonrpc": "2.0", "id": 70, "method": method, "params": {"sessionId": "s", **params}})
    return json.loads(sys.stdin.readline())

CAPABLE = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}}}
authenticated = False

for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            #initialize
            result({"protocolVersion": 1, "agentCapabilities": CAPABLE, "agentInfo": {"name": "x", "version": "1.2.3"}})
        case "authenticate":
            #authenticate
            authenticated = True
            result({})
        case "session/new":
            #new
            result({"sessionId": "s"})
        case "session/load" | "session/resume":
            #load
            say("user_message_chunk", "hello")
            say("agent_message_chunk", "old answer")
            result({})
        case "session/list":
            #list
            result({"sessions": []})
        case "session/set_config_option" | "session/set_mode" | "session/set_model":
            #choose
            result({})
        case "session/prompt":
            #prompt
            say("agent_message_chunk", "kept")
            #running
            result({"stopReason": "end_turn"})
        case "session/cancel":
            #cancel
            pass
"""
PLACES = ("initialize", "authenticate", "new", "load", "list", "choose", "prompt", "running", "cancel")

PLAIN = Profile(
    name="plain",
    title="Plain",
    argv=("{tools_root}/agent",),
    capture=CaptureList(entries=(CaptureEntry(pattern="sessions/*", kind=CaptureKind.WHOLE),)),
    resume=Resume.LOAD,
)

Fake = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]
ASKING = ThreadRequest(cwd="/", approvals=ApprovalPolicy.ASK)
QUIET = ThreadRequest(cwd="/")


@pytest.fixture
def fake(guest: LocalGuest, tmp_path: Path) -> Fake:
    """Open the runtime over a program with one misbehaviour: Python statements by the place where they run."""

    def opened(
        profile: Profile = PLAIN, *, expected_version: str | None = None, **places: str
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        program = tmp_path / "tools" / "agent"
        program.parent.mkdir(parents=True, exist_ok=True)
        text = PROGRAM
        assert set(places) <= set(PLACES)
        for place in PLACES:
            text = text.replace(f"#{place}\n", places.get(place, "pass").replace("\n", "\n            ") + "\n")
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return _opened(profile, guest, program.parent, expected_version)

    return opened


def _opened(profile: Profile, guest: LocalGuest, tools: Path, version: str | None) -> AbstractAsyncContextManager[ProviderRuntime]:
    return open_acp(profile, guest.runtime_request(tools, "http://127.0.0.1:9", version), guest)


async def collect(runtime: ProviderRuntime, seen: list[ProviderEvent], text: str = "hello") -> None:
    """Run a turn and keep each event as it comes, so that what came before an error can be looked at."""
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(provider_identity("s"), text) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - an error in between must not lose them


NONSENSE: dict[str, tuple[str, type[JamError]]] = {
    "a line that is no JSON": ('send(b"thread main panicked\\n"); continue', ProviderProtocolError),
    "a line of 10 MB": ('send(b"{" + b"x" * 10_000_000 + b"}\\n"); continue', ProviderProtocolError),
    "a wrong id": ('send({"id": 4711, "result": {}}); continue', ProviderProtocolError),
    "an array": ('send(b"[]\\n"); continue', ProviderProtocolError),
    "half a message, then the end": ('send(b\'{"id": 3, "res\'); sys.exit(1)', ProviderGoneError),
    "the end": ("sys.exit(0)", ProviderGoneError),
    "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
}
NO_SESSION: dict[str, tuple[str, type[JamError]]] = {
    "an answer without a session": ("result({}); continue", ProviderProtocolError),
    "a session's id that is no text": ('result({"sessionId": 7}); continue', ProviderProtocolError),
    "a session's id of a megabyte": ('result({"sessionId": "x" * 1_000_000}); continue', ProviderProtocolError),
    "an error": ('error(-32603, "no"); continue', ProviderRefusedError),
}


@pytest.mark.parametrize("name", [*NONSENSE, *NO_SESSION])
async def test_nonsense_instead_of_a_session(fake: Fake, name: str) -> None:
    """Opening raises the typed error; nothing hangs, and the program is gone afterwards."""
    statement, expected = {**NONSENSE, **NO_SESSION}[name]
    with anyio.fail_after(LIMIT_S):
        async with fake(new=statement) as runtime:
            with pytest.raises(expected):
                await runtime.open_thread(QUIET)


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_instead_of_a_session_that_comes_back(fake: Fake, name: str) -> None:
    """The same for a resume, which begins no other session."""
    statement, expected = NONSENSE[name]
    with anyio.fail_after(LIMIT_S):
        async with fake(load=statement) as runtime:
            with pytest.raises(expected):
                await runtime.resume_thread(provider_identity("s"), QUIET)


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_in_a_turn_cuts_it_after_what_was_delivered(fake: Fake, name: str) -> None:
    """The delta before the nonsense arrives, then the iterator raises; `closed` says why the program is of no use any more."""
    statement, expected = NONSENSE[name]
    seen: list[ProviderEvent] = []
    with anyio.fail_after(LIMIT_S):
        async with fake(running=statement) as runtime:
            await runtime.open_thread(QUIET)
            with pytest.raises(expected):
                await collect(runtime, seen)
            assert await runtime.closed()
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("sys.exit(3)", ProviderGoneError),
        ("send(b'oops\\n')", ProviderProtocolError),
        ('result({"protocolVersion": 2}); continue', ProviderProtocolError),
        ("result([]); continue", ProviderProtocolError),
        ('error(-32603, "no"); continue', ProviderRefusedError),
    ],
    ids=["an early end", "a banner", "another protocol", "no object", "an error"],
)
async def test_a_program_that_does_not_come_up(fake: Fake, statement: str, expected: type[JamError]) -> None:
    """Entering the context raises a typed error."""
    with anyio.fail_after(LIMIT_S), pytest.raises(expected):
        async with fake(initialize=statement):
            pytest.fail("entered")


async def test_another_version_than_the_pinned_one_is_refused(fake: Fake) -> None:
    """The version is the running program's own answer, and it is compared before any session is touched."""
    with anyio.fail_after(LIMIT_S), pytest.raises(ProviderRefusedError, match=r"1\.2\.3, not 1\.2\.4"):
        async with fake(expected_version="1.2.4"):
            pytest.fail("entered")


async def test_a_program_that_is_not_there(guest: LocalGuest, tmp_path: Path) -> None:
    """The launcher's own refusal passes through."""
    with pytest.raises(ExecRefusedError):
        async with _opened(PLAIN, guest, tmp_path / "empty", None):
            pytest.fail("entered")


async def test_the_plugin_opens_nothing_before_its_context_is_entered(guest: LocalGuest, tmp_path: Path) -> None:
    """The hook returns at once; a context that is never entered has started no program."""
    await plugin_of(PLAIN).jam_open_runtime(guest.runtime_request(tmp_path, "http://127.0.0.1:9"), guest)
    assert guest.processes == []


# ------------------------------------------------------------------------------------------------------------------ coming back


async def test_what_is_told_again_is_not_shown(fake: Fake) -> None:
    """The old answer is in no turn's events; the turns that it makes are known."""
    seen: list[ProviderEvent] = []
    async with fake() as runtime:
        again = await runtime.resume_thread(provider_identity("s"), QUIET)
        await collect(runtime, seen, "next")
    assert (again.identity, [turn.outcome for turn in again.turns]) == ("s", [TurnOutcome.COMPLETED])
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["kept"]
    assert isinstance(seen[0], TurnStarted)
    assert seen[0].provider_turn.startswith("2-")


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({"load": "result({}); continue"}, "a new, blank one"),
        ({"load": "result({}); continue", "list": 'error(-32603, "no"); continue'}, "a new, blank one"),
        ({"load": "result({}); continue", "list": 'result({"sessions": [{"sessionId": "t"}]}); continue'}, "a new, blank one"),
        ({"load": 'result({"sessionId": "s"}); continue'}, "a new, blank one"),
        ({"load": 'error(-32002, "Resource not found"); continue'}, "Resource not found"),
        ({"initialize": "CAPABLE = {}"}, "does not offer to bring sessions back"),
        ({"initialize": 'CAPABLE = {"loadSession": False}'}, "does not offer to bring sessions back"),
    ],
    ids=["blank", "blank and no list", "blank and not listed", "blank under its name", "unknown", "cannot", "says no"],
)
async def test_a_session_that_is_not_the_old_one_is_refused(fake: Fake, places: dict[str, str], words: str) -> None:
    """An existing name that begins blank, a name that nobody knows, an agent that cannot: a refusal, and no turn in anything else."""
    async with fake(**places) as runtime:
        with pytest.raises(ProviderRefusedError, match=words):
            await runtime.resume_thread(provider_identity("s"), QUIET)
        with pytest.raises(ProviderRefusedError, match="not loaded"):
            await run_turn(runtime, "s", "hello")


async def test_a_session_without_a_turn_is_proven_by_the_list(fake: Fake) -> None:
    """There is nothing to tell again; the list of sessions, page by page, says that it is there."""
    pages = (
        'page = asked["params"].get("cursor")\n'
        'result({"sessions": [{"sessionId": "s"}]} if page else {"sessions": [{"sessionId": "t"}], "nextCursor": "2"})\n'
        "continue"
    )
    async with fake(load="result({}); continue", list=pages) as runtime:
        again = await runtime.resume_thread(provider_identity("s"), QUIET)
    assert (again.identity, again.turns) == ("s", ())


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize(
    ("listed", "accepted"),
    [('[{"sessionId": "s", "cwd": "/"}]', True), ('[{"sessionId": "s", "cwd": "/old"}]', False), ("[]", False)],
    ids=["the same", "another", "not said"],
)
async def test_an_agent_that_keeps_a_sessions_directory_must_have_the_right_one(fake: Fake, listed: str, *, accepted: bool) -> None:
    """It would go on in files that are not this session's."""
    profile = PLAIN.model_copy(update={"keeps_cwd": True})
    async with fake(profile, list=f'result({{"sessions": {listed}}}); continue') as runtime:
        if accepted:
            assert (await runtime.resume_thread(provider_identity("s"), QUIET)).identity == "s"
            return
        with pytest.raises(ProviderRefusedError, match="directory"):
            await runtime.resume_thread(provider_identity("s"), QUIET)


async def test_another_identity_is_returned_as_it_is(fake: Fake) -> None:
    """The plugin never papers over a wrong session: the core compares (CONT-7)."""
    other = 'told("user_message_chunk", session="another", content={"type": "text", "text": "x"}); result({}); continue'
    async with fake(load=other) as runtime:
        again = await runtime.resume_thread(provider_identity("s"), QUIET)
    assert again.identity == "another"


@pytest.mark.guarantee("CONT-1")
async def test_an_agent_that_cannot_bring_sessions_back_is_never_asked_to(fake: Fake, guest: LocalGuest) -> None:
    """Its plugin declares no continuity, and a resume is refused before anything is started."""
    forgetful = PLAIN.model_copy(update={"capture": None, "resume": Resume.NONE})
    plugin = plugin_of(forgetful)
    assert not plugin.jam_describe_provider().continuity
    assert not any(hasattr(plugin, hook) for hook in ("jam_declare_capture", "jam_declare_activation", "jam_accepts_version"))
    async with fake(forgetful) as runtime:
        started = len(guest.processes)
        with pytest.raises(ProviderRefusedError, match="cannot bring a session back"):
            await runtime.resume_thread(provider_identity("s"), QUIET)
        assert len(guest.processes) == started
        await runtime.open_thread(QUIET)
        assert (await run_turn(runtime, "s", "hello"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


# ----------------------------------------------------------------------------------------------------------- mode, model, login

OPTIONS = (
    'result({"sessionId": "s", "configOptions": [{"id": "m", "category": "model", "currentValue": "old"},'
    ' {"id": "k", "category": "mode", "currentValue": "plan"}]}); continue'
)
CHOSEN = "send({'jsonrpc': '2.0', 'method': 'chosen', 'params': {}}); open('chosen', 'a').write(line)"
MODAL = PLAIN.model_copy(update={"mode": "agent"})


def chosen(guest: LocalGuest) -> list[str]:
    """Return what was chosen, in order."""
    path = guest.home / "chosen"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [f"{line['method']} {sorted(line['params'].items())}" for line in lines]


async def test_mode_and_model_are_chosen_also_when_the_session_comes_back(fake: Fake, guest: LocalGuest) -> None:
    """Agents forget both; what is so already is not chosen again."""
    wanted = ThreadRequest(cwd="/", model="new")
    replayed = 'say("user_message_chunk", "hello"); ' + OPTIONS.replace('"plan"', '"agent"')
    async with fake(MODAL, new=OPTIONS, load=replayed, choose=CHOSEN) as runtime:
        await runtime.open_thread(wanted)
        await runtime.resume_thread(provider_identity("s"), wanted)
    model = "session/set_config_option [('configId', 'm'), ('sessionId', 's'), ('value', 'new')]"
    assert chosen(guest) == [model, "session/set_config_option [('configId', 'k'), ('sessionId', 's'), ('value', 'agent')]", model]


async def test_the_older_form_of_a_choice_is_known(fake: Fake, guest: LocalGuest) -> None:
    """An agent without options may have modes and models of their own."""
    older = (
        'result({"sessionId": "s", "modes": {"currentModeId": "plan", "availableModes": []},'
        ' "models": {"currentModelId": "old"}}); continue'
    )
    async with fake(MODAL, new=older, choose=CHOSEN) as runtime:
        await runtime.open_thread(ThreadRequest(cwd="/", model="new"))
    assert chosen(guest) == [
        "session/set_model [('modelId', 'new'), ('sessionId', 's')]",
        "session/set_mode [('modeId', 'agent'), ('sessionId', 's')]",
    ]


@pytest.mark.parametrize(
    "places", [{}, {"new": OPTIONS, "choose": 'error(-32602, "model not found: new"); continue'}], ids=["no choice", "refused"]
)
async def test_a_model_that_cannot_be_had_is_refused(fake: Fake, places: dict[str, str]) -> None:
    """Never is another one used instead."""
    async with fake(**places) as runtime:
        with pytest.raises(ProviderRefusedError, match="model"):
            await runtime.open_thread(ThreadRequest(cwd="/", model="new"))


KEY = CredentialSpec(
    name="plain", environment_names=("PLAIN_KEY",), header="authorization", prefix="Bearer ", origin="https://example.org"
)
LOGIN = 'if not authenticated: error(-32000, "Authentication required"); continue'


async def test_an_agent_that_wants_a_login_is_refused_with_what_to_set(fake: Fake) -> None:
    """It is not asked to authenticate, which could open a browser and wait for somebody; the variable to set is named."""
    profile = PLAIN.model_copy(update={"credential": KEY})
    async with fake(profile, new=LOGIN, authenticate="time.sleep(1000)") as runtime:
        with pytest.raises(ProviderRefusedError, match="PLAIN_KEY"):
            await runtime.open_thread(QUIET)


async def test_an_agent_may_be_authenticated_once_after_it_refused(fake: Fake) -> None:
    """Where its profile says so; and a refusal afterwards is the person's to read."""
    profile = PLAIN.model_copy(update={"authentication": Authentication.WHEN_REFUSED, "auth_method": "key"})
    async with fake(profile, new=LOGIN) as runtime:
        assert (await runtime.open_thread(QUIET)).identity == "s"
    async with fake(profile, new=LOGIN, authenticate='error(-32602, "bad key"); continue') as runtime:
        with pytest.raises(ProviderRefusedError, match="bad key"):
            await runtime.open_thread(QUIET)


# ------------------------------------------------------------------------------------------------------------------------ turns


async def test_a_turn_starts_with_the_first_sign_of_work(fake: Fake) -> None:
    """An agent that keeps nothing before has not taken the turn until then; an error before is an end without a start."""
    seen: list[ProviderEvent] = []
    async with fake(prompt='error(-32603, "no"); continue') as runtime:
        await runtime.open_thread(QUIET)
        await collect(runtime, seen)
    [end] = seen
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code, end.detail) == (TurnOutcome.FAILED, "other", "no")


@pytest.mark.parametrize(
    ("reason", "outcome", "code"),
    [
        ('"cancelled"', TurnOutcome.INTERRUPTED, ""),
        ('"max_tokens"', TurnOutcome.FAILED, "length_limit"),
        ('"max_turn_requests"', TurnOutcome.FAILED, "request_limit"),
        ('"refusal"', TurnOutcome.FAILED, "policy"),
        ('"something new"', TurnOutcome.FAILED, "other"),
        ("None", TurnOutcome.FAILED, "other"),
    ],
)
async def test_every_reason_to_stop_is_told_apart(fake: Fake, reason: str, outcome: TurnOutcome, code: str) -> None:
    """Only the end of a turn is a completed turn."""
    async with fake(running=f'result({{"stopReason": {reason}}}); continue') as runtime:
        await runtime.open_thread(QUIET)
        end = (await run_turn(runtime, "s", "hello"))[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code) == (outcome, code)


async def test_a_cancelled_turn_that_ends_as_if_it_were_complete_is_told_as_what_it_was(fake: Fake) -> None:
    """Some agents answer so; also one that passes over the first cancellation is ended by the next."""
    running = "open_turn, tries = asked, 0; continue"
    cancel = "tries += 1\nasked = open_turn\nif tries > 1: result({'stopReason': 'end_turn'})"
    async with fake(running=running, cancel=cancel) as runtime:
        await runtime.open_thread(QUIET)
        seen = []
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(provider_identity("s"), "hello") as events, anyio.create_task_group() as tasks:
                async for event in events:
                    seen.append(event.kind)
                    if isinstance(event, TextDelta):
                        tasks.start_soon(runtime.interrupt, provider_identity("s"))
    assert seen == ["turn.started", "text.delta", "message", "turn.ended"]
    assert event == TurnEnded(outcome=TurnOutcome.INTERRUPTED)


@pytest.mark.slow
async def test_a_program_that_hangs_is_left_within_bounds(fake: Fake, guest: LocalGuest) -> None:
    """It answers neither the cancellation nor the end of its input: leaving takes the sum of the two bounds, and then it is gone."""
    with anyio.fail_after(LIMIT_S):
        async with fake(running="time.sleep(100)") as runtime:
            await runtime.open_thread(QUIET)
            async with runtime.turn(provider_identity("s"), "hello") as events:
                assert (await anext(events)).kind == "turn.started"
            with pytest.raises(ProviderRefusedError, match="running"):
                await run_turn(runtime, "s", "again")
    assert not (await guest.processes[-1].wait()).ok


async def test_what_is_said_of_other_sessions_and_in_other_words_is_nobodys(fake: Fake) -> None:
    """Another session's text, unknown kinds and unknown notifications change nothing."""
    stray = (
        'told("agent_message_chunk", session="t", content={"type": "text", "text": "y"}); told("_auth/status_update");'
        'told("usage_update", used=1); told(7); send({"method": "who/knows", "params": {"a": 1}});'
        'send({"method": "session/update", "params": {"sessionId": "s", "update": 7}})'
    )
    async with fake(running=stray) as runtime:
        await runtime.open_thread(QUIET)
        events = await run_turn(runtime, "s", "hello")
    assert [event.kind for event in events] == ["turn.started", "text.delta", "message", "turn.ended"]


async def test_an_agent_that_goes_on_by_itself_is_said_to_and_not_taken_for_the_answer(fake: Fake) -> None:
    """What it says between two turns is in neither; the next one says that there was something."""
    after = 'result({"stopReason": "end_turn"}); time.sleep(0.2); say("agent_message_chunk", "by myself"); continue'
    async with fake(running=after) as runtime:
        assert isinstance(runtime, AcpRuntime)
        await runtime.open_thread(QUIET)
        first = await run_turn(runtime, "s", "hello")
        with anyio.fail_after(LIMIT_S):
            while not runtime._sessions["s"].stray:  # noqa: ASYNC110 - nobody else is told
                await anyio.sleep(0.01)
        second = await run_turn(runtime, "s", "hello")
    assert not [event for event in first if isinstance(event, Notice)]
    assert [event.text for event in second if isinstance(event, TextDelta)] == ["kept"]
    [notice] = [event for event in second if isinstance(event, Notice)]
    assert "went on by itself" in notice.text


# -------------------------------------------------------------------------------------------------------------------- questions

ANSWER = 'say("agent_message_chunk", json.dumps({}))'
PERMISSION = (
    'ask("session/request_permission", toolCall={"toolCallId": "c", "kind": "execute", "rawInput": {"command": "rm -rf /"}},'
    ' options=[{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}])'
)


async def test_a_session_that_does_not_ask_allows_once(fake: Fake) -> None:
    """The sandbox is the boundary: nobody is asked, and nothing is allowed for good."""
    async with fake(running=ANSWER.format(PERMISSION)) as runtime:
        await runtime.open_thread(QUIET)
        events = await run_turn(runtime, "s", "hello")
    assert '"optionId": "y"' in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert not [event for event in events if event.kind == "approval.requested"]


async def test_an_agent_without_a_once_is_not_allowed_for_good(fake: Fake) -> None:
    """The question is cancelled, and a person sees why nothing happened."""
    forever = PERMISSION.replace("allow_once", "allow_always")
    async with fake(running=ANSWER.format(forever)) as runtime:
        await runtime.open_thread(QUIET)
        events = await run_turn(runtime, "s", "hello")
    assert '"outcome": "cancelled"' in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert [event for event in events if isinstance(event, Notice)]


async def test_a_question_that_its_turn_does_not_wait_for_is_cancelled(fake: Fake, tmp_path: Path) -> None:
    """A program that asks and ends the turn without an answer gets one all the same, and it is no."""
    said = tmp_path / "answer"
    asks = PERMISSION.replace("ask(", "question(", 1)
    running = (
        "def question(method, **params):\n"
        '    send({"id": 70, "method": method, "params": {"sessionId": "s", **params}})\n'
        f"{asks}\n"
        "time.sleep(0.2)\n"
        'result({"stopReason": "end_turn"})\n'
        f'open({str(said)!r}, "w").write(sys.stdin.readline())\n'
        "continue"
    )
    async with fake(running=running) as runtime:
        await runtime.open_thread(ASKING)
        events = await run_turn(runtime, "s", "hello")
        with anyio.fail_after(LIMIT_S):
            while not said.exists() or not said.read_text():  # noqa: ASYNC110 - the program's own file
                await anyio.sleep(0.01)
    assert [event.kind for event in events][-2:] == ["approval.requested", "turn.ended"]
    assert '"cancelled"' in said.read_text()


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("fs/write_text_file", '"code": -32601', True),
        ("terminal/create", '"code": -32601', True),
        ("plain/question", '"outcome": "skipped"', True),
        ("plain/todos", '"result": {}', False),
    ],
)
async def test_every_other_request_has_an_answer(fake: Fake, method: str, answer: str, *, told: bool) -> None:
    """What the profile knows is answered politely, all else with an error; nothing blocks the turn, and a person sees what was refused."""
    profile = PLAIN.model_copy(
        update={
            "extensions": (
                Extension(method="plain/question", answer={"outcome": "skipped"}),
                Extension(method="plain/todos", answer={}, told=False),
            )
        }
    )
    async with fake(profile, running=ANSWER.format(f'ask("{method}")')) as runtime:
        await runtime.open_thread(ASKING)
        events = await run_turn(runtime, "s", "hello")
    assert answer in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert bool([event for event in events if isinstance(event, Notice)]) is told
