"""Bringing a thread of the real Claude Code back: exactly, from the captured files alone, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from hashlib import sha256
from pathlib import Path

import anyio
import pytest

from jam_claude_code.state import ACTIVATION, CAPTURE, TRANSCRIPTS
from jamcore.api import (
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
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
    UsageReported,
    provider_identity,
)
from jamcore.testing.guards import descendants, kill
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.faults import HttpFault
from jamcore.testing.servers.history import AssistantText, Item, ToolCall, ToolOutput, UserText, contains_in_order, conversation
from jamcore.testing.servers.messages import MessagesServer
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Script, Text, say

pytestmark = [pytest.mark.needs("claude_code"), pytest.mark.anyio, pytest.mark.unprivileged]

OpenRuntime = Callable[[LocalGuest, MessagesServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
MODEL = "claude-sonnet-5-5"
CAPTURED = tuple(entry.pattern for entry in CAPTURE.entries)
LIMIT_S = 30.0
GAP = "No response requested."
"""What Claude Code itself puts into the gap that a cut turn left."""
UNKNOWN = "01a2f000-0000-7000-8000-000000000000"

SCRIPT = Script(
    rules=(
        Rule(
            match=Match(last_user_contains="third"),
            answer=(Text(deltas=("half ", "never said"), hold=Hold(gate="never", after=1)),),
        ),
        Rule(
            match=Match(last_user_contains="first", last_is_tool_output=False),
            answer=(Call(name="Bash", arguments={"command": "echo tool-4411"}, call_id="c1"),),
            times=1,
        ),
        say("answer-1", match=Match(last_user_contains="first")),
        say("answer-2", match=Match(last_user_contains="second")),
        say("answer-4", match=Match(last_user_contains="fourth")),
    )
)


async def two_turns_then_killed_in_the_third(
    guest: LocalGuest, model: MessagesServer, open_runtime: OpenRuntime
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


def told(model: MessagesServer) -> tuple[Item, ...]:
    """Return the conversation in the last request that the model got."""
    return conversation(model.model_requests[-1].body)


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
    async with MessagesServer(SCRIPT) as model:
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
    assert [item.text for item in after if isinstance(item, AssistantText)] == ["answer-1", "answer-2", GAP]
    assert [item.call_id for item in after if isinstance(item, ToolCall)] == ["c1"]
    assert ["tool-4411" in item.output for item in after if isinstance(item, ToolOutput)] == [True]
    assert not model.unmatched


BOUNDARIES = (TurnStarted, TextDelta, Message, CommandStarted, CommandFinished, FileChanged, UsageReported, TurnEnded)


@pytest.mark.guarantee("CONT-1", "CONT-11")
@pytest.mark.parametrize("kind", BOUNDARIES, ids=lambda kind: str(kind.__name__))
async def test_a_kill_at_any_event_loses_no_finished_turn_and_no_text_of_the_person(
    guest: LocalGuest, open_runtime: OpenRuntime, kind: type[ProviderEvent]
) -> None:
    """Whatever the last event was, the thread comes back, and the next request holds all finished turns and what the cut one was asked.

    What the cut turn had done is there as far as the program had written it down, which it does some 0.1 s late.
    """
    write = Call(name="Write", arguments={"file_path": str(guest.work / "new.txt"), "content": "x"}, call_id="c2")
    script = Script(
        rules=(
            say("answer-1", match=Match(last_user_contains="first")),
            Rule(
                match=Match(last_user_contains="second", last_is_tool_output=False),
                answer=(Text(deltas=("words",)), Call(name="Bash", arguments={"command": "echo hi"}, call_id="c1")),
            ),
            Rule(match=Match(tool_output="c1", last_is_tool_output=True, last_user_contains="second"), answer=(write,), times=1),
            say("answer-2", match=Match(last_user_contains="second")),
            say("answer-3", match=Match(last_user_contains="third")),
        )
    )
    async with MessagesServer(script) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "first")
            finished = told(model)
            with suppress(ProviderGoneError):  # after the last event nothing is left to fail
                await killed_at(kind, runtime, thread.identity, "second", guest)
            with anyio.fail_after(LIMIT_S):
                await runtime.closed()
        kill(descendants())
        finished = told(model) if kind is TurnEnded else finished
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            events = await run_turn(runtime, thread.identity, "third")
        after = told(model)
    assert again.identity == thread.identity
    ended = TurnOutcome.COMPLETED if kind is TurnEnded else again.turns[-1].outcome
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED, ended]
    assert again.turns[-1].text_digest == sha256(b"second").hexdigest()
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    texts = [item.text for item in after if isinstance(item, UserText)]
    assert texts == ["first", "second", "third"]
    assert contains_in_order(finished, after) is None


def as_sent(body: object) -> tuple[object, list[object]]:
    """Return what a request says besides its messages, and these; without what says how it is cached and whose it is.

    A text is the same whether it stands alone or as the only block.
    """

    def plain(value: object) -> object:
        if isinstance(value, dict):
            kept = {key: plain(entry) for key, entry in value.items() if key != "cache_control"}
            content = kept.get("content")
            return {**kept, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else kept
        return [plain(entry) for entry in value] if isinstance(value, list) else value

    assert isinstance(body, dict)
    sent = plain({key: body[key] for key in ("model", "system", "tools", "max_tokens")})
    messages = plain(body["messages"])
    assert isinstance(messages, list)
    return sent, messages


@pytest.mark.guarantee("CONT-1")
async def test_after_a_resume_the_model_is_sent_the_same_request_to_the_byte(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Not only what was said: system text, tools, reminders and all, the next request begins as the one before the kill."""
    async with MessagesServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            for text in ("first", "second"):
                await run_turn(runtime, thread.identity, text)
            before, messages = as_sent(model.model_requests[-1].body)
            await guest.processes[-1].signal(signal.SIGKILL)
            await runtime.closed()
        async with open_runtime(guest, model) as runtime:
            await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "fourth")
        after, later = as_sent(model.model_requests[-1].body)
    assert after == before
    assert later[: len(messages)] == messages


@pytest.mark.guarantee("CONT-3", "CONT-5")
async def test_the_captured_files_alone_bring_the_thread_back(
    make_guest: Callable[[str], Awaitable[LocalGuest]], open_runtime: OpenRuntime
) -> None:
    """In another home that holds nothing but the captured files, the same thread goes on with the same history."""
    old, new = await make_guest("old"), await make_guest("new")
    async with MessagesServer(SCRIPT) as model:
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
    make_guest: Callable[[str], Awaitable[LocalGuest]], open_runtime: OpenRuntime
) -> None:
    """What the patterns of a conversation find is its own, and all that it needs in a home where the other never was."""
    old, new = await make_guest("old"), await make_guest("new")
    async with MessagesServer(SCRIPT) as model:
        async with open_runtime(old, model) as runtime:
            one, other = [await runtime.open_thread(ThreadRequest(cwd=str(old.work), model=MODEL)) for _ in range(2)]
            await run_turn(runtime, other.identity, "second")
            await run_turn(runtime, one.identity, "first")
        before = told(model)
        restore(old.state, new.state, [pattern.format(identity=one.identity) for pattern in CAPTURE.conversation_patterns])
        assert len(list(old.state.glob(TRANSCRIPTS))) == 2
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
async def test_a_transcript_only_ever_grows(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Declared append-only, so the bytes before a kill, a resume and a turn are a prefix of those after."""
    async with MessagesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        [transcript] = guest.state.glob(TRANSCRIPTS)
        before = transcript.read_bytes()
        async with open_runtime(guest, model) as runtime:
            await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "fourth")
        assert list(guest.state.glob(TRANSCRIPTS)) == [transcript]
    assert transcript.read_bytes().startswith(before)


@pytest.mark.guarantee("CONT-5", "SEC-7")
async def test_what_is_captured_holds_no_credential_and_no_lock(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """The keys of the program's own sockets lie outside what is captured, and its scratch files outside the state root."""
    async with MessagesServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        await run_turn(runtime, thread.identity, "first")
        captured = {path for pattern in CAPTURED for path in guest.state.glob(pattern)}
        (guest.state / "threads" / thread.identity / ".credentials.json").write_text("{}")  # as a login would leave it
        secret = {path for pattern in CAPTURE.credential_patterns for path in guest.state.glob(pattern)}
    assert len(captured) == 1
    assert secret
    assert not captured & secret
    [scratch] = CAPTURE.guest_scratch
    assert list((guest.home / scratch).iterdir())
    assert [path for pattern in ACTIVATION.check for path in guest.state.glob(pattern)]


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("identity", [UNKNOWN, "no-uuid", "../../etc/passwd", UNKNOWN.upper()])
async def test_an_unknown_thread_is_refused_and_no_other_is_begun(
    guest: LocalGuest, open_runtime: OpenRuntime, identity: str
) -> None:
    """The refusal is typed, no program is started for it, and nothing new appears in the state."""
    async with MessagesServer(SCRIPT) as model, open_runtime(guest, model) as runtime:
        with pytest.raises(ProviderRefusedError) as caught:
            await runtime.resume_thread(provider_identity(identity), ThreadRequest(cwd=str(guest.work)))
        with pytest.raises(ProviderRefusedError):
            await run_turn(runtime, identity, "hello")
    assert caught.value.request == "resume"
    assert not list(guest.state.iterdir())
    assert not model.requests


@pytest.mark.guarantee("CONT-1")
async def test_a_thread_without_a_turn_left_nothing_to_resume(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Claude Code writes a transcript with the first turn: a session killed before never bound an identity, and starts fresh."""
    async with MessagesServer(SCRIPT) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
        async with open_runtime(guest, model) as runtime:
            with pytest.raises(ProviderRefusedError):
                await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work)))


@pytest.mark.guarantee("CONT-1")
async def test_files_that_the_agent_writes_cannot_lock_it_out_or_redirect_it(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Broken and hostile settings in the repository and in the thread's own directory change neither the resume nor where requests go."""
    elsewhere = json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "cleanupPeriodDays": 1})
    async with MessagesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        before = told(model)
        own = guest.state / "threads" / thread.identity
        for place in (guest.work / ".claude", own, guest.home / ".claude"):
            place.mkdir(exist_ok=True)
            (place / "settings.json").write_text(elsewhere)
            (place / "settings.local.json").write_text("garbage [[[")
        (own / ".claude.json").write_text(elsewhere)
        (guest.home / ".claude.json").write_text(elsewhere)
        (guest.work / ".mcp.json").write_text("garbage [[[")
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            assert (await run_turn(runtime, thread.identity, "fourth"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert contains_in_order(before, told(model)) is None
    assert again.identity == thread.identity


@pytest.mark.guarantee("CONT-1")
async def test_a_transcript_is_not_deleted_for_its_age(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Claude Code on its own deletes what is older than a month when it starts, a conversation that rested like any other."""
    async with MessagesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        [transcript] = guest.state.glob(TRANSCRIPTS)
        os.utime(transcript, (1_000_000_000, 1_000_000_000))
        async with open_runtime(guest, model) as runtime:
            await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            assert (await run_turn(runtime, thread.identity, "fourth"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
    assert len(again.turns) == 4


@pytest.mark.guarantee("CONT-1", "CONT-11")
async def test_a_compacted_thread_comes_back_as_it_went_on(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """A full context is replaced by a summary within the turn; after a resume the model is told the same one, and every turn is known."""
    full = HttpFault(status=400, message="prompt is too long: 250000 tokens > 200000 maximum")
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="four"), answer=(Text(deltas=("x",)),), fault=full, times=1),
            *(say(f"answer-{word}", match=Match(last_user_contains=word)) for word in ("one", "two", "three", "five")),
            say("summary-6612", match=Match(last_user_contains="summary")),
            say("answer-four"),
        )
    )
    async with MessagesServer(script) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            ends = [(await run_turn(runtime, thread.identity, word)) for word in ("one", "two", "three", "four")]
        before = told(model)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "five")
        after = told(model)
    assert [events[-1] for events in ends] == [TurnEnded(outcome=TurnOutcome.COMPLETED)] * 4
    assert ["summary" in event.text for event in ends[-1] if isinstance(event, Notice)] == [True]
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED] * 4
    assert contains_in_order(before, after) is None
    assert UserText("one") not in after


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize(
    "text",
    ["two\nlines\r\n ", "/clear", "<b>&\u00e9\U0001f600\x01 \u2028", "first " + "x" * 300_000],
    ids=["short", "slash", "marks", "long"],
)
async def test_the_last_text_is_known_by_its_digest(guest: LocalGuest, open_runtime: OpenRuntime, text: str) -> None:
    """The transcript keeps the person's text, so its digest says whether a turn that Jam does not know is the one that was sent."""
    async with MessagesServer(Script(rules=(say("hi"),))) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, text)
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
    assert [turn.text_digest for turn in again.turns] == [sha256(text.encode()).hexdigest()]


@pytest.mark.guarantee("CONT-1")
async def test_a_thread_that_another_program_holds_is_refused(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Claude Code lets two programs write one transcript, and each loses the other's turns; Jam does not."""
    async with MessagesServer(SCRIPT) as model, open_runtime(guest, model) as first:
        thread = await first.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        await run_turn(first, thread.identity, "second")
        async with open_runtime(guest, model) as second:
            with pytest.raises(ProviderRefusedError, match="another program"):
                await second.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work)))
        with pytest.raises(ProviderRefusedError, match="loaded"):
            await first.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work)))
        assert (await run_turn(first, thread.identity, "fourth"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("damage", [b"", b"\0" * 4096, b"garbage\n{}\n"], ids=["empty", "zeros", "garbage"])
async def test_a_damaged_transcript_is_refused(guest: LocalGuest, open_runtime: OpenRuntime, damage: bytes) -> None:
    """What holds nothing that was said is a typed refusal, not a fresh thread."""
    async with MessagesServer(SCRIPT) as model:
        thread, _ = await two_turns_then_killed_in_the_third(guest, model, open_runtime)
        [transcript] = guest.state.glob(TRANSCRIPTS)
        transcript.write_bytes(damage)
        async with open_runtime(guest, model) as runtime:
            with pytest.raises(ProviderRefusedError, match="transcript"):
                await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work)))
    assert transcript.read_bytes() == damage


async def test_what_a_thread_cost_is_counted_over_its_programs(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Each program counts from nothing; what the transcript knows is added."""
    counted = []
    async with MessagesServer(Script(rules=(say("hi"),))) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            counted += await run_turn(runtime, thread.identity, "one")
        async with open_runtime(guest, model) as runtime:
            await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            counted += await run_turn(runtime, thread.identity, "two")
    assert [event.total_tokens for event in counted if isinstance(event, UsageReported)] == [15, 30]


async def test_a_command_cut_by_the_kill_is_told_to_the_model_as_interrupted(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Killed while a command runs, the call stays in the history and gets an output that says so."""
    call = Call(name="Bash", arguments={"command": "echo begun > begun; sleep 974"}, call_id="c9")
    script = Script(
        rules=(
            Rule(match=Match(last_user_contains="run"), answer=(call,), times=1),
            say("ok", match=Match(last_user_contains="next")),
        )
    )
    async with MessagesServer(script) as model:
        async with open_runtime(guest, model) as runtime:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
            with pytest.raises(ProviderGoneError):
                await killed_once_begun(runtime, thread.identity, guest)
        kill(descendants())  # the command outlives the program here; in a sandbox it ends with it
        async with open_runtime(guest, model) as runtime:
            again = await runtime.resume_thread(provider_identity(thread.identity), ThreadRequest(cwd=str(guest.work), model=MODEL))
            await run_turn(runtime, thread.identity, "next")
        [output] = [item for item in told(model) if isinstance(item, ToolOutput)]
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.INTERRUPTED]
    assert output.call_id == "c9"
    assert "interrupted" in output.output


async def killed_once_begun(runtime: ProviderRuntime, identity: str, guest: LocalGuest) -> None:
    """Run a turn and kill the program once its command runs and the transcript holds the call."""
    transcript: Path | None = None
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(provider_identity(identity), "run") as events:
            async for event in events:
                if isinstance(event, CommandStarted):
                    while not transcript or '"c9"' not in transcript.read_text():
                        await anyio.sleep(0.05)
                        transcript = next(guest.state.glob(TRANSCRIPTS), None)
                    await guest.processes[-1].signal(signal.SIGKILL)
