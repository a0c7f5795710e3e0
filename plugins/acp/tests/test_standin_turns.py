"""Ends of turns, of agents that are a few lines of Python."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from jam_acp.runtime import AcpRuntime
from jamcore.api import (
    Message,
    Notice,
    ProviderEvent,
    ProviderGoneError,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.provider_turns import run_turn
from jamcore.testing.providers.bad_programs import LIMIT_S, collect
from jamcore.testing.providers.standin import Bad, waits_for

pytestmark = [pytest.mark.unprivileged]

QUIET = ThreadRequest(cwd="/")


async def test_a_turn_starts_with_the_first_sign_of_work(fake: Bad) -> None:
    """An agent that keeps nothing before has not taken the turn until then; an error before is an end without a start."""
    seen: list[ProviderEvent] = []
    async with fake(prompt='error(-32603, "no"); continue') as runtime:
        await runtime.open_thread(QUIET)
        await collect(runtime, "s", seen)
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
async def test_every_reason_to_stop_is_told_apart(fake: Bad, reason: str, outcome: TurnOutcome, code: str) -> None:
    """Only the end of a turn is a completed turn."""
    async with fake(running=f'result({{"stopReason": {reason}}}); continue') as runtime:
        await runtime.open_thread(QUIET)
        end = (await run_turn(runtime, "s", "hello"))[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.code) == (outcome, code)


async def test_a_cancelled_turn_that_ends_as_if_it_were_complete_is_told_as_what_it_was(fake: Bad) -> None:
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


async def test_an_agent_that_lost_a_session_in_a_turn_is_of_no_use_any_more(fake: Bad) -> None:
    """The program counts as gone: else the room would look well, and every further turn fail.

    The turn has no end of its own: after one, what the agent has now would be captured, without the session, as the newest generation.
    """
    async with fake(prompt='error(-32002, "no such session"); continue') as runtime:
        await runtime.open_thread(QUIET)
        with pytest.raises(ProviderGoneError, match=r"does not know the session any more.*no such session"):
            await run_turn(runtime, "s", "hello")
        with anyio.fail_after(LIMIT_S):
            why = await runtime.closed()
    assert "does not know the session any more" in why


async def test_an_agent_that_goes_on_by_itself_is_said_to_and_not_taken_for_the_answer(fake: Bad, tmp_path: Path) -> None:
    """What it says between two turns is in neither; the next one says that there was something."""
    ended = tmp_path / "ended"
    second_turn = f"import os\nagain = os.path.exists({str(ended)!r})"  # read before the answer: after it the file may be there
    by_itself = f'if again: continue\n{waits_for(ended)}\nsay("agent_message_chunk", "by myself")\ncontinue'
    after = f'{second_turn}\nresult({{"stopReason": "end_turn"}})\n{by_itself}'
    async with fake(running=after) as runtime:
        assert isinstance(runtime, AcpRuntime)
        await runtime.open_thread(QUIET)
        first = await run_turn(runtime, "s", "hello")
        ended.touch()
        with anyio.fail_after(LIMIT_S):
            while not runtime._sessions["s"].stray:  # noqa: ASYNC110 - nobody else is told
                await anyio.sleep(0.01)
        second = await run_turn(runtime, "s", "hello")
    assert not [event for event in first if isinstance(event, Notice)]
    assert [event.text for event in second if isinstance(event, TextDelta)] == ["kept"]
    [notice] = [event for event in second if isinstance(event, Notice)]
    assert "went on by itself" in notice.text


async def test_what_follows_the_end_mark_at_once_is_no_last_word_of_the_turn(fake: Bad) -> None:
    """An agent that goes on in the same breath: its answer is the end, though nobody has had the time to take note of it."""
    more = '{"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "and more"}}}'
    in_one_breath = (
        'answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"stopReason": "end_turn"}}\n'
        f'more = {{"jsonrpc": "2.0", "method": "session/update", "params": {more}}}\n'
        'send(json.dumps(answer).encode() + b"\\n" + json.dumps(more).encode() + b"\\n")\ncontinue'
    )
    async with fake(running=in_one_breath) as runtime:
        await runtime.open_thread(QUIET)
        first = await run_turn(runtime, "s", "hello")
        second = await run_turn(runtime, "s", "hello")
    assert [event.text for event in first if isinstance(event, TextDelta | Message)] == ["kept", "kept"]
    [notice] = [event for event in second if isinstance(event, Notice)]
    assert "went on by itself" in notice.text
