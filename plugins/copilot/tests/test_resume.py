"""Bringing a thread of the real Copilot back: exactly, from the captured file alone, or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from pathlib import Path

import anyio
import pytest

from jam_copilot.state import ACTIVATION, CAPTURE, EVENTS
from jamcore.api import (
    CommandOutput,
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
from jamcore.testing.guards import descendants, kill
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.history import AssistantText, Item, ToolCall, ToolOutput, UserText, contains_in_order, conversation
from jamcore.testing.servers.responses import Call, Hold, Match, ResponsesServer, Rule, Script, Text, say

pytestmark = [pytest.mark.needs("copilot"), pytest.mark.anyio, pytest.mark.unprivileged]

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
MODEL = "mock-model"
CAPTURED = tuple(entry.pattern for entry in CAPTURE.entries)
LIMIT_S = 30.0
UNKNOWN = "01a2f000-0000-4000-8000-000000000000"


def shell(call_id: str, command: str) -> Call:
    """Return a call of the shell."""
    return Call(name="bash", arguments={"command": command, "description": "what it does"}, call_id=call_id)


SCRIPT = Script(
    rules=(
        Rule(
            match=Match(last_user_contains="third"),
            answer=(Text(deltas=("half ", "never said"), hold=Hold(gate="never", after=1)),),
        ),
        Rule(
            match=Match(last_user_contains="first", last_is_tool_output=False),
            answer=(Text(deltas=("I look",)), shell("c1", "echo tool-4411; exit 3")),
            times=1,
        ),
        say("answer-1", match=Match(last_user_contains="first")),
        say("answer-2", match=Match(last_user_contains="second")),
        say("answer-4", match=Match(last_user_contains="fourth")),
    )
)


async def two_turns_then_killed_in_the_third(
    guest: LocalGuest, model: ResponsesServer, open_runtime: OpenRuntime
) -> tuple[ThreadState, list[str]]:
    """Return the thread, and the provider's ids of its two finished turns."""
    turns = []
    async with open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
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


def told(model: ResponsesServer) -> tuple[Item, ...]:
    """Return the conversation in the last request that the model got."""
    return conversation(model.model_requests[-1].body)


def journal(guest: LocalGuest) -> Path:
    """Return the one journal below the state root."""
    [found] = guest.state.glob(EVENTS)
    return found


def restore(source: Path, target: Path, patterns: Sequence[str] = CAPTURED) -> None:
    """Place what the plugin captures, as the core does, into a fresh state root."""
    for pattern in patterns:
        for path in source.glob(pattern):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


@pytest.mark.guarantee("CONT-1")
async def test_a_thread_killed_in_a_turn_comes_back_exactly(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """After SIGKILL in the middle of an answer the same id comes back with its turns, and the model is told all that was said before.

    The cut turn reads as interrupted; the half answer is in no later request.
    """
    async with ResponsesServer(SCRIPT) as model:
        thread, turns = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        before = told(model)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            events = await run_turn(runtime, thread.identity, "fourth")
        after = told(model)
    assert again.identity == thread.identity
    assert [turn.provider_turn for turn in again.turns[:2]] == turns
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED, TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED]
    assert [turn.text_digest for turn in again.turns] == [None, None, sha256(b"third").hexdigest()]
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert contains_in_order(before, after) is None
    texts = [item.text for item in after if isinstance(item, UserText)]
    assert texts == ["first", "second", "third", "fourth"]
    assert [item.text for item in after if isinstance(item, AssistantText)] == ["I look", "answer-1", "answer-2"]
    assert [item.call_id for item in after if isinstance(item, ToolCall)] == ["c1"]
    assert ["tool-4411" in item.output for item in after if isinstance(item, ToolOutput)] == [True]
    assert not model.unmatched


@pytest.mark.guarantee("CONT-3", "CONT-5")
async def test_the_captured_files_alone_bring_the_thread_back(make_guest: MakeGuest, open_runtime: OpenRuntime) -> None:
    """In another home that holds nothing but the captured file, the same thread goes on with the same history."""
    old, new = await make_guest("old"), await make_guest("new")
    async with ResponsesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(old, model, open_runtime)
        before = told(model)
        restore(old.state, new.state)
        shutil.rmtree(old.state)
        async with open_runtime(new, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(new.work), model=MODEL))
            await run_turn(runtime, thread.identity, "fourth")
        after = told(model)
    assert again.identity == thread.identity
    assert len(again.turns) == 3
    assert contains_in_order(before, after) is None


@pytest.mark.guarantee("CONT-1", "WS-5")
async def test_the_files_of_one_conversation_bring_it_back_without_its_sibling(
    make_guest: MakeGuest, open_runtime: OpenRuntime
) -> None:
    """What the patterns of a conversation find is its own, and all that it needs in a home where the other never was."""
    old, new = await make_guest("old"), await make_guest("new")
    async with ResponsesServer(SCRIPT) as model:
        async with open_runtime(old, model) as runtime:
            one, other = [await runtime.open_thread(ThreadRequest(cwd=str(old.work), model=MODEL)) for _ in range(2)]
            await run_turn(runtime, other.identity, "second")
            await run_turn(runtime, one.identity, "first")
        before = told(model)
        restore(old.state, new.state, [pattern.format(identity=one.identity) for pattern in CAPTURE.conversation_patterns])
        assert len(list(old.state.glob(EVENTS))) == 2
        shutil.rmtree(old.state)
        async with open_runtime(new, model) as runtime:
            again = await runtime.resume_thread(provider_identity(one.identity), ThreadRequest(cwd=str(new.work), model=MODEL))
            await run_turn(runtime, one.identity, "fourth")
            with pytest.raises(ProviderRefusedError):
                await runtime.resume_thread(provider_identity(other.identity), ThreadRequest(cwd=str(new.work), model=MODEL))
        after = told(model)
    assert (again.identity, len(again.turns)) == (one.identity, 1)
    assert contains_in_order(before, after) is None
    assert [item.text for item in after if isinstance(item, UserText)] == ["first", "fourth"]


@pytest.mark.guarantee("CONT-3")
async def test_a_journal_only_ever_grows(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Declared append-only, so the bytes before a kill, a resume and a turn are a prefix of those after."""
    async with ResponsesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        place = journal(guest)
        before = place.read_bytes()
        async with open_runtime(guest, model) as runtime:
            await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "fourth")
        assert journal(guest) == place
    assert place.read_bytes().startswith(before)


@pytest.mark.guarantee("CONT-5")
async def test_no_database_is_left_beside_the_journals(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Neither in the state root nor in the home; and what the state root holds matches no credential pattern that is captured."""
    async with ResponsesServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        await run_turn(runtime, thread.identity, "second")
    databases = [path for root in (guest.state, guest.home) for path in root.rglob("*.db*")]
    assert databases == []
    assert b"SQLite format" not in b"".join(path.read_bytes()[:16] for path in guest.state.rglob("*") if path.is_file())
    assert [path for pattern in ACTIVATION.check for path in guest.state.glob(pattern)]


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("identity", [UNKNOWN, "no-uuid", "../../etc/passwd"])
async def test_an_unknown_thread_is_refused_and_no_other_is_begun(
    guest: LocalGuest, open_runtime: OpenRuntime, identity: str
) -> None:
    """The refusal is typed, and nothing new appears in the state."""
    async with ResponsesServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        with pytest.raises(ProviderRefusedError):
            await runtime.resume_thread(provider_identity(identity), ThreadRequest(cwd=str(guest.work)))
        with pytest.raises(ProviderRefusedError):
            await run_turn(runtime, identity, "hello")
    assert not list(guest.state.glob(EVENTS))
    assert not model.requests


@pytest.mark.guarantee("CONT-1")
async def test_a_thread_without_a_turn_left_nothing_to_resume(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Copilot writes a journal with the first turn: a session killed before never bound an identity, and starts fresh."""
    request = ThreadRequest(cwd=str(guest.work), model=MODEL)
    async with ResponsesServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(request)
        async with open_runtime(guest, model) as runtime:
            with pytest.raises(ProviderRefusedError, match="not found"):
                await runtime.resume_thread(provider_identity(thread.identity), request)


async def test_a_resumed_thread_keeps_its_model_unless_another_is_named(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """What it was opened with is in the journal; what a resume names is used from then on."""
    used = []
    async with ResponsesServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "second")
        for name in (None, "other-model", None):
            async with open_runtime(guest, model) as runtime:
                await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=name))
                await run_turn(runtime, thread.identity, "fourth")
            body = model.model_requests[-1].body
            assert isinstance(body, dict)
            used.append(body["model"])
    assert used == [MODEL, "other-model", "other-model"]


SERVERS = '{{"mcpServers": {{"evil": {{"type": "local", "tools": ["*"], "command": "touch", "args": ["{mark}"]}}}}}}'
HOOKS = (
    '{{"version": 1, "hooks": {{"sessionStart": [{{"type": "command", "bash": "touch {mark}"}}], '
    '"userPromptSubmitted": [{{"type": "command", "bash": "touch {mark}"}}]}}}}'
)


@pytest.mark.guarantee("CONT-1")
async def test_files_that_the_agent_writes_cannot_lock_it_out_or_redirect_it(
    guest: LocalGuest, open_runtime: OpenRuntime, tmp_path: Path
) -> None:
    """Broken and hostile configuration in the repository and in Copilot's home changes neither the resume nor what is run at its start."""
    mark = tmp_path / "it-was-run"
    async with ResponsesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        before = told(model)
        hostile = {
            guest.state / "config.json": "{broken",
            guest.state / "settings.json": HOOKS,
            guest.state / "mcp-config.json": SERVERS,
            guest.state / "hooks" / "h.json": HOOKS,
            guest.state / "copilot-instructions.md": "instructions-9917",
            journal(guest).parent / "workspace.yaml": "{broken: [",
            guest.work / ".mcp.json": SERVERS,
            guest.work / ".github" / "mcp.json": SERVERS,
            guest.work / ".github" / "hooks" / "h.json": HOOKS,
        }
        for path, text in hostile.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(mark=mark) if "mark" in text else text)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            assert (await run_turn(runtime, thread.identity, "fourth"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert contains_in_order(before, told(model)) is None
        assert "instructions-9917" not in str(model.model_requests[-1].body)
    assert again.identity == thread.identity
    assert not mark.exists()


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize(
    "text",
    ["second", " second \u00e9\r\n  two lines \t", "second " + "x" * 300_000, "/clear second"],
    ids=["short", "marks", "long", "slash"],
)
async def test_the_last_text_is_known_by_its_digest(guest: LocalGuest, open_runtime: OpenRuntime, text: str) -> None:
    """Copilot keeps the person's text to the byte, so its digest says whether a turn that Jam does not know is the one that was sent."""
    async with ResponsesServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, text)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
    assert [turn.text_digest for turn in again.turns] == [sha256(text.encode()).hexdigest()]


@pytest.mark.guarantee("CONT-1")
async def test_a_thread_that_another_program_holds_is_refused(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Copilot would let both write one journal; the second is refused, the journal is as it was, and the first goes on."""
    async with ResponsesServer(SCRIPT) as model, open_runtime(guest, model) as first:
        thread = await first.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        await run_turn(first, thread.identity, "second")
        before = journal(guest).read_bytes()
        async with open_runtime(guest, model) as second:
            with pytest.raises(ProviderRefusedError, match="another program"):
                await second.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work)))
        assert journal(guest).read_bytes() == before
        assert (await run_turn(first, thread.identity, "fourth"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_a_lock_that_a_killed_program_left_keeps_nobody_out(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Its number may be another process's by now: in a new sandbox numbers begin anew."""
    async with ResponsesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        for old in journal(guest).parent.glob("inuse.*"):
            old.rename(old.with_name(f"inuse.{os.getpid()}{old.suffix}"))
        (journal(guest).parent / f"inuse.{os.getpid()}.lock").write_text(f"{os.getpid()}\n")
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
    assert again.identity == thread.identity
    assert "copilot" not in Path(sys.executable).name  # the test's own process took the number


DAMAGE: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "emptied": lambda lines: [],
    "its beginning lost": lambda lines: lines[1:],
    "a line in the middle broken": lambda lines: [*lines[:3], b"{broken\n", *lines[4:]],
    "its last line cut": lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]],
    "garbage": lambda lines: [bytes(range(256)) * 16],
}


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("how", DAMAGE)
async def test_a_damaged_journal_is_refused_and_left_as_it_is(guest: LocalGuest, open_runtime: OpenRuntime, how: str) -> None:
    """Also where Copilot itself would go on without the line that it cannot read: something that was said would be gone."""
    async with ResponsesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        place = journal(guest)
        place.write_bytes(b"".join(DAMAGE[how](place.read_bytes().splitlines(keepends=True))))
        before = place.read_bytes()
        async with open_runtime(guest, model) as runtime:
            with pytest.raises(ProviderRefusedError):
                await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work)))
            with pytest.raises(ProviderRefusedError):
                await run_turn(runtime, thread.identity, "fourth")
    assert place.read_bytes() == before
    assert [path.name for path in place.parent.glob("events*")] == ["events.jsonl"]


async def test_a_command_cut_by_the_kill_is_told_to_the_model_as_interrupted(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Killed while a command runs, the call stays in the history and gets an output that says so; nothing is run again."""
    script = Script(
        rules=(
            Rule(
                match=Match(last_user_contains="run"),
                answer=(shell("c9", "echo once >> ran.txt; sleep 0.5; echo begun; sleep 974"),),
                times=1,
            ),
            say("ok", match=Match(last_user_contains="next")),
        )
    )
    async with ResponsesServer(script) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            with pytest.raises(ProviderGoneError):
                await killed_at(CommandOutput, runtime, thread.identity, "run", guest)
        # A sandbox ends it; here it lives on.
        kill(frozenset(process for process in descendants() if "sleep 974" in process.command))
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "next")
        [output] = [item for item in told(model) if isinstance(item, ToolOutput)]
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.INTERRUPTED]
    assert output.call_id == "c9"
    assert "interrupted before a result was recorded" in output.output
    assert (guest.work / "ran.txt").read_text() == "once\n"
