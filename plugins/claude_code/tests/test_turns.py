"""Turns of the real Claude Code: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from jam_claude_code.config import TOOLS
from jamcore.api import (
    CommandFinished,
    FileChanged,
    Message,
    ProviderEvent,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UsageReported,
)
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.turns import ProviderTurns
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.script import Call, Match, Rule, say

pytestmark = [pytest.mark.needs("claude_code"), pytest.mark.unprivileged]

INTERRUPTED = "[Request interrupted by user"


class TestTurns(ProviderTurns):
    """Claude Code's."""

    printed = "hi"
    further = ("file.changed", "tool.call")
    cut_mark = INTERRUPTED
    told_of_interrupt = (INTERRUPTED,)
    offered = frozenset(TOOLS)
    headers = (("authorization", None), ("x-api-key", "proxy-managed"))

    def further_calls(self, work: Path) -> Sequence[Call]:
        """Change the file, and read it."""
        new = str(work / "new.txt")
        edit = {"file_path": new, "old_string": "one", "new_string": "two"}
        return (
            Call(name="Edit", arguments=dict(edit), call_id="c4"),
            Call(name="Read", arguments={"file_path": new}, call_id="c5"),
        )

    def look_at_the_turn(self, events: Sequence[ProviderEvent], work: Path) -> None:
        """A change is told apart from a new file, what was read is the tool's own, and all requests are counted."""
        updated = [event for event in events if isinstance(event, FileChanged)][-1]
        new = work / "new.txt"
        assert (updated.path, updated.change, updated.diff) == (str(new), "update", "@@ -1,1 +1,1 @@\n-one\n+two\n")
        [read] = [event for event in events if isinstance(event, ToolCall)]
        assert (read.item, read.name, read.ok) == ("c5", "Read", True)
        assert "two" in read.result
        [usage] = [event for event in events if isinstance(event, UsageReported)]
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (60, 30, 90)
        assert [event.kind for event in events][-2:] == ["usage", "turn.ended"]
        assert new.read_text() == "two\n"

    def look_at_the_start(self, started: TurnStarted, written: str) -> None:
        """The turn is called as in the transcript."""
        assert f'"uuid":"{started.provider_turn}"' in written

    @pytest.mark.parametrize("text", ["/clear", "/compact now", "/cost", "!touch bang", "# note", " /clear", "a\r\nb é 😀\t "])
    async def test_a_text_is_told_to_the_model_as_it_stands(self, case: Case, text: str) -> None:
        """Also where Claude Code has a command of that name: one of them would end the conversation, and none would ask the model."""
        async with case.running(say("hi")) as (model, runtime):
            identity = await case.begin(runtime)
            events = await case.turn(runtime, identity, text)
            again = await case.turn(runtime, identity, "again")
        assert events[-1] == again[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert isinstance(events[0], TurnStarted)
        assert said_in(model.model_requests[0].body, normalisation=case.provider.normalisation) == [text]
        assert said_in(model.model_requests[-1].body, normalisation=case.provider.normalisation) == [text, "again"]
        assert not list(case.work.iterdir())

    async def test_what_a_sub_agent_does_is_shown_and_what_it_says_is_its_callers(self, case: Case) -> None:
        """Its commands are the turn's; its words come back as the result of the call, in the same turn."""
        task: dict[str, JsonValue] = {"description": "d", "prompt": "inner task", "subagent_type": "general-purpose"}
        rules = (
            case.shell("c2", "echo in > inner.txt", Match(last_user_contains="inner task", last_is_tool_output=False)),
            say("inner words", match=Match(last_user_contains="inner task")),
            Rule(
                match=Match(last_user_contains="outer", last_is_tool_output=False),
                answer=(Call(name="Agent", arguments=task, call_id="c1"),),
                times=1,
            ),
            say("outer words", match=Match(last_user_contains="outer")),
        )
        async with case.running(*rules) as (_, runtime):
            identity = await case.begin(runtime)
            events = await case.turn(runtime, identity, "outer")
        assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert [event.text for event in events if isinstance(event, Message)] == ["outer words"]
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "outer words"
        assert [event.item for event in events if isinstance(event, CommandFinished)] == ["c2"]
        (used,) = [event for event in events if isinstance(event, ToolCall)]
        assert (used.item, used.name, used.ok) == ("c1", "Agent", True)
        assert "inner words" in used.result
        assert (case.work / "inner.txt").exists()
