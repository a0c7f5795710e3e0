"""Bringing a session of the real OpenCode back: exactly, from the captured database alone, or not at all."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing
from hashlib import sha256

import anyio
import pytest

from jam_acp.profiles.opencode import DATABASE, OPENCODE
from jamcore.api import (
    CommandStarted,
    ProviderEvent,
    ProviderGoneError,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    ThreadState,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.history import AssistantText, Item, ToolCall, ToolOutput, UserText, contains_in_order, conversation
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Script, Text, say
from jamcore.testing.servers.server import ModelServer

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.slow]

OpenRuntime = Callable[[LocalGuest, ModelServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
MODEL = "mock-model"
LIMIT_S = 60.0
UNKNOWN = "ses_dd42c930cffe9QnJMC2uY5hKY7"

SCRIPT = Script(
    rules=(
        say("answer-4", match=Match(last_user_contains="fourth")),
        Rule(
            match=Match(last_user_contains="third"),
            answer=(Text(deltas=("half ", "never said"), hold=Hold(gate="never", after=1)),),
        ),
        Rule(
            match=Match(last_user_contains="first", last_is_tool_output=False),
            answer=(Call(name="bash", arguments={"command": "echo tool-4411", "description": "x"}, call_id="c1"),),
            times=1,
        ),
        say("answer-1", match=Match(last_user_contains="first")),
        say("answer-2", match=Match(last_user_contains="second")),
    )
)


def asked(guest: LocalGuest) -> ThreadRequest:
    """Return what each session here asks for."""
    return ThreadRequest(cwd=str(guest.work), model=MODEL)


async def two_turns_then_killed_in_the_third(
    guest: LocalGuest, model: ModelServer, open_runtime: OpenRuntime
) -> tuple[ThreadState, list[str]]:
    """Return the session, and what its two finished turns are called."""
    turns = []
    async with open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(asked(guest))
        for text in ("first", "second"):
            events = await run_turn(runtime, thread.identity, text)
            assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
            turns += [event.provider_turn for event in events if isinstance(event, TurnStarted)]
        with pytest.raises(ProviderGoneError):
            await killed_at(TextDelta, runtime, thread.identity, "third", guest)
        with anyio.fail_after(LIMIT_S):
            assert "provider.gone" in await runtime.closed()
    return thread, turns


async def killed_at(kind: type[ProviderEvent], runtime: ProviderRuntime, identity: str, text: str, guest: LocalGuest) -> None:
    """Run a turn and kill the program with SIGKILL at its first event of this kind."""
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(provider_identity(identity), text) as events:
            async for event in events:
                if isinstance(event, kind):
                    await guest.processes[-1].signal(signal.SIGKILL)


def told(model: ModelServer) -> tuple[Item, ...]:
    """Return the conversation in the last request that the model got."""
    return conversation(model.model_requests[-1].body)


def restore(source: LocalGuest, target: LocalGuest) -> None:
    """Place what the plugin captures, as the core does: a backup of the database, in an empty home."""
    place = target.home / DATABASE
    place.parent.mkdir(parents=True)
    with closing(sqlite3.connect(source.home / DATABASE)) as old, closing(sqlite3.connect(place)) as new:
        old.backup(new)


@pytest.mark.guarantee("CONT-1", "CONT-11")
async def test_a_session_killed_in_a_turn_comes_back_exactly(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """After SIGKILL in the middle of an answer the same id comes back with its turns, and the model is told all that was said before.

    The cut turn reads as interrupted; the half answer is in no later request.
    """
    async with ChatServer(SCRIPT) as model:
        thread, turns = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        before = told(model)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), asked(guest))
            events = await run_turn(runtime, thread.identity, "fourth")
        after = told(model)
    assert again.identity == thread.identity
    assert [turn.provider_turn for turn in again.turns[:2]] == turns
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED, TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED]
    assert [turn.text_digest for turn in again.turns] == [sha256(text).hexdigest() for text in (b"first", b"second", b"third")]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert contains_in_order(before, after) is None
    assert [item.text for item in after if isinstance(item, UserText)] == ["first", "second", "third", "fourth"]
    assert [item.text for item in after if isinstance(item, AssistantText)] == ["answer-1", "answer-2"]
    assert [item.call_id for item in after if isinstance(item, ToolCall)] == ["c1"]
    assert ["tool-4411" in item.output for item in after if isinstance(item, ToolOutput)] == [True]
    assert not model.unmatched


@pytest.mark.guarantee("CONT-3", "CONT-5")
async def test_the_captured_database_alone_brings_the_session_back(make_guest: MakeGuest, open_runtime: OpenRuntime) -> None:
    """In another home that holds nothing but the copied database, the same session goes on with the same history."""
    assert OPENCODE.capture is not None
    [entry] = OPENCODE.capture.entries
    old, new = await make_guest("old"), await make_guest("new")
    async with ChatServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(old, model, open_runtime)
        before = told(model)
        assert list(old.home.glob(entry.pattern)) == [old.home / DATABASE]
        restore(old, new)
        for directory in (old.home, old.state):
            shutil.rmtree(directory)
        async with open_runtime(new, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), asked(old))
            await run_turn(runtime, thread.identity, "fourth")
        after = told(model)
    assert again.identity == thread.identity
    assert len(again.turns) == 3
    assert contains_in_order(before, after) is None


@pytest.mark.guarantee("CONT-5")
async def test_no_database_lies_in_the_state_root(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """It lies on the guest's own disk, where it is declared; nothing in the state root is a credential, a database or a conversation."""
    async with ChatServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(asked(guest))
        await run_turn(runtime, thread.identity, "second")
        assert (guest.home / DATABASE).stat().st_size
    with closing(sqlite3.connect(guest.home / DATABASE)) as database:
        assert database.execute("select count(*) from session").fetchone() == (1,)
    prepared = {file.path for file in OPENCODE.prepared}
    assert {str(path.relative_to(guest.state)) for path in guest.state.rglob("*") if path.is_file()} - prepared <= {
        "config/opencode/.gitignore"
    }
    assert not list(guest.home.rglob("*.npm*"))


@pytest.mark.guarantee("CONT-1")
async def test_a_session_killed_before_its_first_turn_comes_back(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """It is in the database when it is opened: without a turn there is nothing to tell again, and the agent lists it all the same."""
    async with ChatServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(asked(guest))
            await guest.processes[-1].signal(signal.SIGKILL)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), asked(guest))
            assert (again.identity, again.turns) == (thread.identity, ())
            assert (await run_turn(runtime, thread.identity, "second"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("identity", [UNKNOWN, "no-id", "../../etc/passwd"])
async def test_an_unknown_session_is_refused_and_no_other_is_begun(
    guest: LocalGuest, open_runtime: OpenRuntime, identity: str
) -> None:
    """The refusal is typed, and nothing new appears in the database."""
    async with ChatServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        with pytest.raises(ProviderRefusedError) as caught:
            await runtime.resume_thread(provider_identity(identity), asked(guest))
        with pytest.raises(ProviderRefusedError):
            await run_turn(runtime, identity, "hello")
    assert caught.value.request == "session/load"
    assert not model.requests
    with closing(sqlite3.connect(guest.home / DATABASE)) as database:
        assert database.execute("select count(*) from session").fetchone() == (0,)


@pytest.mark.guarantee("CONT-1")
async def test_files_that_the_agent_writes_cannot_lock_it_out_or_redirect_it(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Broken and hostile configuration in the repository, the home and the state root changes neither the resume nor where requests go."""
    async with ChatServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        before = told(model)
        hostile = '{"model": "other/x", "provider": {"jam": {"options": {"baseURL": "http://127.0.0.1:9/v1"}}}}'
        for place, content in {
            guest.work / "opencode.json": "garbage [[[",
            guest.work / ".opencode" / "opencode.json": "garbage [[[",
            guest.home / ".opencode" / "opencode.json": "garbage [[[",
            guest.state / "config" / "opencode" / "opencode.json": hostile,
            guest.state / "config" / "opencode" / "config.json": "garbage [[[",
        }.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), asked(guest))
            assert (await run_turn(runtime, thread.identity, "fourth"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert contains_in_order(before, told(model)) is None
    assert again.identity == thread.identity


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize(
    "text",
    ["second", "second \u00e9\r\n  two lines \t", "/second", "second " + "x" * 300_000],
    ids=["short", "marks", "slash", "long"],
)
async def test_a_turn_is_known_by_its_place_and_its_text(guest: LocalGuest, open_runtime: OpenRuntime, text: str) -> None:
    """OpenCode keeps the person's text to the byte, so its digest says whether a turn that Jam does not know is the one that was sent."""
    async with ChatServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(asked(guest))
            events = await run_turn(runtime, thread.identity, text)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), asked(guest))
    digest = sha256(text.encode()).hexdigest()
    assert [turn.text_digest for turn in again.turns] == [digest]
    assert [turn.provider_turn for turn in again.turns] == [f"1-{digest[:16]}"]
    assert events[0] == TurnStarted(provider_turn=again.turns[0].provider_turn)


@pytest.mark.guarantee("CONT-1")
async def test_a_session_whose_directory_is_another_one_is_refused(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """OpenCode would go on in the old directory, which is another workspace's or nobody's."""
    async with ChatServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(asked(guest))
        elsewhere = guest.work / "elsewhere"
        elsewhere.mkdir()
        with pytest.raises(ProviderRefusedError, match="keeps the session's directory"):
            await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(elsewhere), model=MODEL))


async def test_another_model_is_used_when_it_comes_back_with_one(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """OpenCode remembers the model of the last message; the one that a person chose since then wins."""
    async with ChatServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(asked(guest))
            await run_turn(runtime, thread.identity, "second")
        async with open_runtime(guest, model) as runtime:
            request = ThreadRequest(cwd=str(guest.work), model="another/model")
            await runtime.resume_thread(provider_identity(thread.identity), request)
            await run_turn(runtime, thread.identity, "fourth")
        names = [request.body["model"] for request in model.model_requests if isinstance(request.body, dict)]
    assert names == [MODEL, "another/model"]


async def test_a_damaged_database_is_refused(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """OpenCode ends before it answers, and says why; never is a fresh session begun instead."""
    async with ChatServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        for path in (guest.home / DATABASE).parent.iterdir():
            path.unlink()
        (guest.home / DATABASE).write_bytes(b"garbage" * 1_000)
        async with open_runtime(guest, model) as runtime:
            with pytest.raises(ProviderGoneError, match="not a database"):
                await runtime.resume_thread(provider_identity(thread.identity), asked(guest))


async def test_a_command_cut_by_the_kill_is_told_to_the_model_as_interrupted(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Killed while a command runs, the call stays in the history and gets an output that says so."""
    call = Call(name="bash", arguments={"command": "echo begun; sleep 974", "description": "x"}, call_id="c9")
    script = Script(
        rules=(
            say("ok", match=Match(last_user_contains="next")),
            Rule(match=Match(last_user_contains="run"), answer=(call,), times=1),
        )
    )
    async with ChatServer(script) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(asked(guest))
            with pytest.raises(ProviderGoneError):
                await killed_at(CommandStarted, runtime, thread.identity, "run", guest)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), asked(guest))
            await run_turn(runtime, thread.identity, "next")
        [output] = [item for item in told(model) if isinstance(item, ToolOutput)]
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.INTERRUPTED]
    assert output.call_id == "c9"
    assert "interrupted" in output.output
