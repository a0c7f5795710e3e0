"""Turns of the real Codex: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from jamcore.api import (
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    ProviderRefusedError,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    provider_identity,
)
from jamcore.testing.guards import descendants, settle
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.servers.responses import Call, Hold, Match, ResponsesServer, Rule, Script, Text, held_at, say

pytestmark = [pytest.mark.needs("codex"), pytest.mark.anyio]

OpenRuntime = Callable[[LocalGuest, ResponsesServer], AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
MODEL = "mock-model"
LIMIT_S = 30.0

PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\nEOF"


def shell(call_id: str, command: str, match: Match) -> Rule:
    return Rule(match=match, answer=(Call(name="exec_command", arguments={"cmd": command}, call_id=call_id),), times=1)


async def run_turn(runtime: ProviderRuntime, identity: str, text: str) -> list[ProviderEvent]:
    events = []
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(provider_identity(identity), text) as stream:
            async for event in stream:
                events.append(event)
    return events


async def test_a_turn_is_typed_and_in_order(guest: LocalGuest, open_runtime: OpenRuntime) -> None:
    """Start, command, file change, deltas, message, usage, end: each once, in the order in which they happened, and the files are there."""
    script = Script(
        rules=(
            shell("c1", "echo hi > made.txt; cat made.txt", Match(nth=1)),
            shell("c2", PATCH, Match(tool_output="c1")),
            say("all ", "done", match=Match(tool_output="c2")),
        )
    )
    async with ResponsesServer(script) as model, open_runtime(guest, model) as runtime:
        thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=MODEL))
        events = await run_turn(runtime, thread.identity, "please")
    assert isinstance(events[0], TurnStarted)
    assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
    kinds = [event.kind for event in events if not isinstance(event, UsageReported | Notice)]
    expected = ["turn.started", "command.started", "command.finished", "file.changed"]
    assert kinds == [*expected, "text.delta", "text.delta", "message", "turn.ended"]
    finished = next(event for event in events if isinstance(event, CommandFinished))
    assert (finished.item, finished.output, finished.exit_code) == ("c1", "hi\n", 0)
    assert "echo hi" in finished.command
    started = next(event for event in events if isinstance(event, CommandStarted))
    assert (started.item, started.cwd) == ("c1", str(guest.work))
    changed = next(event for event in events if isinstance(event, FileChanged))
    assert (changed.path, changed.change, changed.diff) == (str(guest.work / "new.txt"), "add", "one\n")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "all done"
    assert [event.text for event in events if isinstance(event, Message)] == ["all done"]
    assert [event for event in events if isinstance(event, UsageReported)][-1].total_tokens > 0
    assert (guest.work / "made.txt").read_text() == "hi\n"
    assert (guest.work / "new.txt").read_text() == "one\n"
    assert not model.unmatched
