"""Cursor's profile against a stand-in that was written from public facts: its program is on no registry and needs an account.

That the facts hold is proven by its live test alone (LIVE-1), not here.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import anyio
import pytest

from jam_acp.profile import Profile
from jam_acp.profiles.cursor import CURSOR, DIRECTORY
from jamcore.api import (
    ApprovalAnswer,
    ApprovalPolicy,
    ApprovalRequested,
    FileChanged,
    Notice,
    ProviderGoneError,
    ProviderIdentity,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.history import contains_in_order, conversation, said_in
from jamcore.testing.servers.script import Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

OpenProfile = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
STANDIN = (sys.executable, str(Path(__file__).with_name("cursor_standin.py")))
SCRIPT = Script(rules=(say("answer"),))
LIMIT_S = 30.0
TOOLS = Path("/nowhere")


def standin(profile: Profile = CURSOR) -> Profile:
    """Return Cursor's profile with the stand-in as its program."""
    assert profile.argv[0] == profile.version_argv[0] == "cursor-agent"
    return profile.model_copy(update={"argv": (*STANDIN, *profile.argv[1:]), "version_argv": (*STANDIN, *profile.version_argv[1:])})


def without_key() -> Profile:
    """Return the profile of a guest in which the key is missing."""
    environment = tuple(pair for pair in CURSOR.environment if pair[0] != "CURSOR_API_KEY")
    return standin(CURSOR.model_copy(update={"environment": environment}))


async def test_a_turn_changes_a_file_and_the_key_is_a_sentinel(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """It asks by the options' kinds, is allowed once, and its requests carry what the relay replaces."""
    async with ChatServer(SCRIPT) as model, open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
        events = await run_turn(runtime, thread.identity, "write new.txt")
        version = runtime.version
    [changed] = [event for event in events if isinstance(event, FileChanged)]
    assert (changed.path, changed.change) == (str(guest.work / "new.txt"), "add")
    assert (guest.work / "new.txt").read_text() == "one\n"
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    assert version == "2026.08.31-standin"
    assert {request.header("authorization") for request in model.requests} == {"Bearer proxy-managed"}


@pytest.mark.parametrize(("answer", "made"), [(ApprovalAnswer.ALLOW, True), (ApprovalAnswer.DENY, False)])
async def test_a_change_is_asked_about(guest: LocalGuest, open_profile: OpenProfile, answer: ApprovalAnswer, *, made: bool) -> None:
    """Allowed, it is made; denied, it is not, and the turn goes on."""
    async with ChatServer(SCRIPT) as model, open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
        request = ThreadRequest(cwd=str(guest.work), approvals=ApprovalPolicy.ASK)
        identity = provider_identity((await runtime.open_thread(request)).identity)
        seen = []
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "write new.txt") as events:
                async for event in events:
                    seen.append(event)
                    if isinstance(event, ApprovalRequested):
                        await runtime.answer(identity, event.request, answer)
    [question] = [event for event in seen if isinstance(event, ApprovalRequested)]
    assert (question.subject, question.detail) == ("file-change", f"add {guest.work / 'new.txt'}")
    assert (guest.work / "new.txt").exists() is made
    assert seen[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


async def test_its_own_question_is_answered_politely_and_shown(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """Left without an answer it would block the turn."""
    async with ChatServer(SCRIPT) as model, open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))
        events = await run_turn(runtime, thread.identity, "ask me")
    assert '"outcome": "skipped"' in "".join(event.text for event in events if isinstance(event, TextDelta))
    [notice] = [event for event in events if isinstance(event, Notice)]
    assert "cursor/ask_question" in notice.text


async def test_an_interrupt_ends_the_turn(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """And the session takes the next one."""
    async with ChatServer(SCRIPT) as model, open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
        identity = provider_identity((await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))).identity)
        last = None
        with anyio.fail_after(LIMIT_S):
            async with runtime.turn(identity, "wait") as events, anyio.create_task_group() as tasks:
                async for event in events:
                    last = event
                    if isinstance(event, TextDelta):
                        tasks.start_soon(runtime.interrupt, identity)
        assert last == TurnEnded(outcome=TurnOutcome.INTERRUPTED)
        assert (await run_turn(runtime, identity, "next"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)


@pytest.mark.guarantee("ENV-3")
async def test_without_a_key_it_is_refused_with_what_to_set(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """It is never asked to authenticate: it would open a browser."""
    async with ChatServer(SCRIPT) as model, open_profile(without_key(), guest, model.base_url, TOOLS) as runtime:
        with pytest.raises(ProviderRefusedError, match="CURSOR_API_KEY"):
            await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))


async def killed(runtime: ProviderRuntime, identity: ProviderIdentity, guest: LocalGuest) -> None:
    """Run a turn that does not end, and kill the program in it."""
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(identity, "wait") as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    await guest.processes[-1].signal(signal.SIGKILL)


async def test_a_session_comes_back_where_it_was(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """After a kill in a turn, in the same home, the endpoint is told all that was said; what is told again is shown to nobody."""
    request = ThreadRequest(cwd=str(guest.work))
    async with ChatServer(SCRIPT) as model:
        identity = await cut_in_its_second_turn(guest, open_profile, model)
        before = conversation(model.model_requests[-1].body)
        async with open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
            again = await runtime.resume_thread(identity, request)
            events = await run_turn(runtime, identity, "second")
    assert again.identity == identity
    assert [turn.outcome for turn in again.turns] == [TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED]
    assert contains_in_order(before, conversation(model.model_requests[-1].body)) is None
    assert said_in(model.model_requests[-1].body) == ["first", "wait", "second"]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["answer"]


@pytest.mark.guarantee("CONT-1")
async def test_what_is_captured_is_no_session_yet_in_another_home(make_guest: MakeGuest, open_profile: OpenProfile) -> None:
    """The database alone lacks the file beside it (README, "What is not known of Cursor"): it is refused, and nothing begins instead."""
    assert CURSOR.capture is not None
    [entry] = CURSOR.capture.entries
    old, new = await make_guest("old"), await make_guest("new")
    async with ChatServer(SCRIPT) as model:
        identity = await cut_in_its_second_turn(old, open_profile, model)
        [path] = old.home.glob(entry.pattern)
        place = new.home / path.relative_to(old.home)
        place.parent.mkdir(parents=True)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(place)) as target:
            source.backup(target)
        asked = len(model.model_requests)
        async with open_profile(standin(), new, model.base_url, TOOLS) as runtime:
            with pytest.raises(ProviderRefusedError, match="not found"):
                await runtime.resume_thread(identity, ThreadRequest(cwd=str(old.work)))
        assert len(model.model_requests) == asked
    assert [found.name for found in place.parent.parent.iterdir()] == [identity]


@pytest.mark.guarantee("CONT-1")
async def test_a_session_is_not_brought_back_in_another_directory(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """It would go on in the old one."""
    async with ChatServer(SCRIPT) as model:
        identity = await cut_in_its_second_turn(guest, open_profile, model)
        async with open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
            with pytest.raises(ProviderRefusedError, match="it keeps the session's directory"):
                await runtime.resume_thread(identity, ThreadRequest(cwd=str(guest.home)))


async def cut_in_its_second_turn(guest: LocalGuest, open_profile: OpenProfile, model: ChatServer) -> ProviderIdentity:
    """Begin a session, run a turn in it, and kill the program in the next."""
    async with open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
        identity = provider_identity((await runtime.open_thread(ThreadRequest(cwd=str(guest.work)))).identity)
        await run_turn(runtime, identity, "first")
        with pytest.raises(ProviderGoneError):
            await killed(runtime, identity, guest)
    return identity


@pytest.mark.guarantee("CONT-1")
async def test_an_unknown_session_is_refused_and_no_other_is_begun(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """Nothing new appears where its sessions lie."""
    async with ChatServer(SCRIPT) as model, open_profile(standin(), guest, model.base_url, TOOLS) as runtime:
        with pytest.raises(ProviderRefusedError, match="not found"):
            await runtime.resume_thread(provider_identity("a-b-c"), ThreadRequest(cwd=str(guest.work)))
    assert not (guest.home / DIRECTORY / "acp-sessions").exists()


async def test_two_sessions_have_a_process_each(guest: LocalGuest, open_profile: OpenProfile) -> None:
    """On a Shared host each has its own directory and its own turn at the same time (SHARE-5)."""
    for name in ("a", "b"):
        (guest.work / name).mkdir()
    async with ChatServer(SCRIPT) as model, open_profile(standin(), guest, model.base_url, TOOLS) as runtime:

        async def one(name: str) -> None:
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work / name)))
            assert (await run_turn(runtime, thread.identity, "write here"))[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "a")
            tasks.start_soon(one, "b")
    assert len(guest.processes) == 2
    assert all((guest.work / name / "here").exists() for name in ("a", "b"))
