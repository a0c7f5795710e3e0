"""Copilot's events as Jam's, as a table; the samples were recorded from the pinned program (docs/facts-copilot.md)."""

from __future__ import annotations

from typing import Any

import pytest

from jam_copilot.events import Translator
from jam_copilot.protocol import Event, event_of
from jamcore.api import (
    CUT,
    EVENT_TEXT,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    Reasoning,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    UsageReported,
    Working,
)

pytestmark = pytest.mark.unprivileged

Told = tuple[str, dict[str, Any]]


def starts(name: str, arguments: object) -> Told:
    """A tool starts."""
    return "tool.execution_start", {"toolCallId": "c", "toolName": name, "arguments": arguments, "turnId": "0"}


def completes(**data: Any) -> Told:
    """A tool completes."""
    return "tool.execution_complete", {"toolCallId": "c", "turnId": "0", "success": True, **data}


BASH = starts("bash", {"command": "echo hi", "description": "Say hi"})
BEGUN = CommandStarted(item="c", command="echo hi", cwd="/w")
CREATE = starts("create", {"path": "/w/n", "file_text": "one\n"})
IDLE = ("session.idle", {"mode": "interactive"})
DIFF = "\ndiff --git a/w/n b/w/n\n--- a/dev/null\n+++ b/w/n\n@@ -1,0 +1,1 @@\n+one\n"

TABLE: dict[str, tuple[tuple[Told, ...], tuple[ProviderEvent, ...]]] = {
    "a delta": ((("assistant.message_delta", {"messageId": "m", "deltaContent": "Hel"}),), (TextDelta(item="m", text="Hel"),)),
    "a message": (
        (("assistant.message", {"messageId": "m", "content": "Hello", "toolRequests": []}),),
        (Message(item="m", text="Hello"),),
    ),
    "a message that only calls tools": ((("assistant.message", {"messageId": "m", "content": "", "toolRequests": [{}]}),), ()),
    "reasoning": ((("assistant.reasoning", {"reasoningId": "r", "content": "thinking"}),), (Reasoning(item="r", text="thinking"),)),
    "reasoning without words": ((("assistant.reasoning", {"reasoningId": "r", "content": ""}),), ()),
    "usage adds up": (
        (("assistant.usage", {"inputTokens": 10, "outputTokens": 5}), ("assistant.usage", {"inputTokens": 11, "outputTokens": 2})),
        (
            UsageReported(input_tokens=10, output_tokens=5, total_tokens=15),
            UsageReported(input_tokens=21, output_tokens=7, total_tokens=28),
        ),
    ),
    "a command": (
        (
            BASH,
            ("tool.shell_output", {"toolCallId": "c", "stream": "stdout", "text": "hi\n", "sequence": 0}),
            ("tool.execution_partial_result", {"toolCallId": "c", "partialOutput": "hi\n"}),
            completes(
                shellExecution={"exitCode": 3},
                result={"content": "hi\n<shellId: 0 completed with exit code 3>", "detailedContent": "…"},
            ),
        ),
        (BEGUN, CommandOutput(item="c", text="hi\n"), CommandFinished(item="c", command="echo hi", output="hi\n", exit_code=3)),
    ),
    "a command that was not allowed": (
        (BASH, completes(success=False, error={"message": "The user rejected this tool call.", "code": "rejected"})),
        (BEGUN, CommandFinished(item="c", command="echo hi", output="The user rejected this tool call.", exit_code=None)),
    ),
    "a command that an interrupt ends": (
        (BASH, ("abort", {"reason": "user_initiated"}), ("session.idle", {"aborted": True, "mode": "interactive"})),
        (
            BEGUN,
            CommandFinished(item="c", command="echo hi", output="", exit_code=None),
            TurnEnded(outcome=TurnOutcome.INTERRUPTED),
        ),
    ),
    "a new file": (
        (CREATE, completes(fileEdits=[{"path": "/w/n", "kind": "create"}], result={"content": "…", "detailedContent": DIFF})),
        (FileChanged(item="c", path="/w/n", change="add", diff=DIFF),),
    ),
    "several files": (
        (
            starts("apply_patch", "*** Begin Patch"),
            completes(
                fileEdits=[{"path": "/w/u", "kind": "edit"}, {"path": "/w/d", "kind": "delete"}, {"path": "/w/x", "kind": "?"}],
                result={"content": "…", "detailedContent": DIFF},
            ),
        ),
        (
            FileChanged(item="c", path="/w/u", change="update", diff=DIFF),
            FileChanged(item="c", path="/w/d", change="delete", diff=""),
            FileChanged(item="c", path="/w/x", change="update", diff=""),
        ),
    ),
    "a change that was not made": (
        (CREATE, completes(success=False, error={"message": "Path exists", "code": "failure"})),
        (Notice(level="warning", text="A change of files was not made: Path exists"),),
    ),
    "another tool": (
        (starts("view", {"path": "/w/ö"}), completes(result={"content": "two\n"})),
        (ToolCall(item="c", name="view", arguments='{"path": "/w/ö"}', result="two\n", ok=True),),
    ),
    "another tool that fails": (
        (starts("view", {"path": "/w/a"}), completes(success=False, error={"message": "Path does not exist"})),
        (ToolCall(item="c", name="view", arguments='{"path": "/w/a"}', result="Path does not exist", ok=False),),
    ),
    "the end of a tool that nobody saw begin": (
        (completes(result={"content": "x"}),),
        (ToolCall(item="c", name="", arguments="", result="x"),),
    ),
    "a retry": (
        (("session.info", {"infoType": "model_retry", "message": "Request failed. Retrying..."}),),
        (Notice(level="warning", text="Request failed. Retrying..."),),
    ),
    "other information": ((("session.info", {"infoType": "configuration", "message": "Disabled tools: sql"}),), ()),
    "a warning": ((("session.warning", {"warningType": "w", "message": "mind"}),), (Notice(level="warning", text="mind"),)),
    "a compaction": (
        (("session.compaction_complete", {"success": True}), ("session.compaction_complete", {"success": False})),
        (Notice(level="info", text="Copilot replaced the older part of the conversation by a summary."),),
    ),
    "completed": ((IDLE,), (TurnEnded(outcome=TurnOutcome.COMPLETED),)),
    "failed": (
        (("session.error", {"errorType": "authentication", "message": "no", "statusCode": 401}), IDLE, IDLE),
        (
            TurnEnded(outcome=TurnOutcome.FAILED, code="unauthorised", detail="no"),
            TurnEnded(outcome=TurnOutcome.COMPLETED),
        ),
    ),
    "unknown events": ((("hologram.shown", {"a": 1}), ("model.log", {})), ()),
}


@pytest.mark.parametrize("name", TABLE)
def test_these_events_become_those(name: str) -> None:
    """One line of the table: what a room has of it."""
    told, expected = TABLE[name]
    translator = Translator("/w")
    events = (event for kind, data in told for event in translator.translate(Event(kind, data)))
    assert tuple(event for event in events if not isinstance(event, Working)) == expected


MALFORMED: tuple[object, ...] = (None, 7, "x", [], {}, [None], [[]], {"type": 3}, {"content": [], "path": 4, "exitCode": "1"}, True)


@pytest.mark.parametrize("kind", sorted({kind for told, _ in TABLE.values() for kind, _ in told}))
def test_malformed_data_never_raises(kind: str) -> None:
    """Every member in turn gets every kind of wrong value: events may be fewer, nothing breaks."""
    samples = [data for told, _ in TABLE.values() for name, data in told if name == kind]
    for data in samples:
        for key in (*data, "result", "error", "fileEdits", "shellExecution"):
            for wrong in MALFORMED:
                translator = Translator("/w")
                translator.translate(Event(*BASH))
                translator.translate(Event(kind, {**data, key: wrong}))
                translator.translate(Event(*IDLE))
    Translator("/w").translate(Event(kind, {}))


def test_an_overlong_text_is_cut_and_marked() -> None:
    """A message of 2 MiB arrives with a bounded text that says that it was cut."""
    [event] = Translator("/w").translate(Event("assistant.message", {"messageId": "m", "content": "x" * (2 << 20)}))
    assert isinstance(event, Message)
    assert len(event.text) == EVENT_TEXT
    assert event.text.endswith(CUT)


def test_what_an_agent_of_the_agents_own_says_is_not_of_the_conversation() -> None:
    """Nor is what has no kind."""
    event = {"type": "assistant.message_delta", "data": {"messageId": "m", "deltaContent": "x"}}
    assert event_of(event) == Event("assistant.message_delta", {"messageId": "m", "deltaContent": "x"})
    assert event_of({**event, "agentId": "a"}) is None
    assert event_of({"type": 7}) is None
    assert event_of(None) is None
    assert event_of({"type": "abort", "data": None}) == Event("abort", {})
