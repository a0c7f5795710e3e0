"""Codex's notifications as Jam's events, as a table; the samples were recorded from the pinned program (docs/facts-codex.md)."""

from __future__ import annotations

from typing import Any

import pytest

from jam_codex.events import translate
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
    TurnStarted,
    UsageReported,
)

pytestmark = pytest.mark.unprivileged

HERE = {"threadId": "T", "turnId": "U"}


def started(**item: Any) -> tuple[str, dict[str, Any]]:
    """A started item."""
    return "item/started", {**HERE, "item": item}


def completed(**item: Any) -> tuple[str, dict[str, Any]]:
    """A completed item."""
    return "item/completed", {**HERE, "item": item}


def ended(status: str, error: object = None) -> tuple[str, dict[str, Any]]:
    """A turn's end mark."""
    return "turn/completed", {"threadId": "T", "turn": {"id": "U", "items": [], "status": status, "error": error}}


COMMAND = {"type": "commandExecution", "id": "c", "command": "/bin/bash -lc 'echo hi'", "cwd": "/w", "processId": "21997"}
QUOTA = {"message": "Quota exceeded.", "codexErrorInfo": "usageLimitExceeded", "additionalDetails": None}

TABLE: dict[str, tuple[tuple[str, dict[str, Any]], tuple[ProviderEvent, ...]]] = {
    "a delta": (
        ("item/agentMessage/delta", {**HERE, "itemId": "m", "delta": "Hel"}),
        (TextDelta(item="m", text="Hel"),),
    ),
    "output of a command": (
        ("item/commandExecution/outputDelta", {**HERE, "itemId": "c", "delta": "hi\n"}),
        (CommandOutput(item="c", text="hi\n"),),
    ),
    "the person's message is in the rollout": (
        completed(type="userMessage", id="I", clientId=None, content=[{"type": "text", "text": "hi", "text_elements": []}]),
        (TurnStarted(provider_turn="U"),),
    ),
    "the person's message begins": (started(type="userMessage", id="I"), ()),
    "a message": (completed(type="agentMessage", id="m", text="Hello world", phase=None), (Message(item="m", text="Hello world"),)),
    "a message begins": (started(type="agentMessage", id="m", text=""), ()),
    "reasoning": (
        completed(type="reasoning", id="r", summary=["thinking", "more"], content=[]),
        (Reasoning(item="r", text="thinking\n\nmore"),),
    ),
    "reasoning without words": (completed(type="reasoning", id="r", summary=[], content=[]), ()),
    "a command begins": (
        started(**COMMAND, status="inProgress", aggregatedOutput=None, exitCode=None),
        (CommandStarted(item="c", command="/bin/bash -lc 'echo hi'", cwd="/w"),),
    ),
    "a command ends": (
        completed(**COMMAND, status="completed", aggregatedOutput="hi\n", exitCode=0),
        (CommandFinished(item="c", command="/bin/bash -lc 'echo hi'", output="hi\n", exit_code=0),),
    ),
    "a command is cut": (
        completed(**COMMAND, status="failed", aggregatedOutput=None, exitCode=None),
        (CommandFinished(item="c", command="/bin/bash -lc 'echo hi'", output="", exit_code=None),),
    ),
    "files change": (
        completed(
            type="fileChange",
            id="f",
            status="completed",
            changes=[
                {"path": "/w/n", "kind": {"type": "add"}, "diff": "one\n"},
                {"path": "/w/d", "kind": {"type": "delete"}, "diff": "a\n"},
                {"path": "/w/u", "kind": {"type": "update", "move_path": None}, "diff": "@@ -1 +1 @@\n-a\n+c\n"},
            ],
        ),
        (
            FileChanged(item="f", path="/w/n", change="add", diff="one\n"),
            FileChanged(item="f", path="/w/d", change="delete", diff="a\n"),
            FileChanged(item="f", path="/w/u", change="update", diff="@@ -1 +1 @@\n-a\n+c\n"),
        ),
    ),
    "a change that was not made": (
        completed(type="fileChange", id="f", status="failed", changes=[{"path": "/w/n", "kind": {"type": "add"}, "diff": ""}]),
        (Notice(level="warning", text="A change of 1 file(s) was not made (failed)."),),
    ),
    "a call of an MCP tool": (
        completed(
            type="mcpToolCall",
            id="t",
            server="s",
            tool="find",
            status="completed",
            arguments={"q": "ö"},
            result={"content": [{"type": "text", "text": "x"}]},
            error=None,
        ),
        (ToolCall(item="t", name="s/find", arguments='{"q": "ö"}', result="x", ok=True),),
    ),
    "a failed call of an MCP tool": (
        completed(type="mcpToolCall", id="t", server="s", tool="find", status="failed", arguments={}, error={"message": "no"}),
        (ToolCall(item="t", name="s/find", arguments="", result='{"message": "no"}', ok=False),),
    ),
    "a viewed image": (
        completed(type="imageView", id="v", path="/w/a.png"),
        (ToolCall(item="v", name="view_image", arguments='{"path": "/w/a.png"}'),),
    ),
    "a compaction": (
        completed(type="contextCompaction", id="x"),
        (Notice(level="info", text="Codex replaced the older part of the conversation by a summary."),),
    ),
    "usage": (
        (
            "thread/tokenUsage/updated",
            {
                **HERE,
                "tokenUsage": {"total": {"totalTokens": 33, "inputTokens": 23, "outputTokens": 10}, "last": {"totalTokens": 1}},
            },
        ),
        (UsageReported(input_tokens=23, output_tokens=10, total_tokens=33),),
    ),
    "a retry": (
        ("error", {**HERE, "willRetry": True, "error": {"message": "Reconnecting... 1/1", "additionalDetails": "cut"}}),
        (Notice(level="warning", text="Reconnecting... 1/1: cut"),),
    ),
    "the last error": (("error", {**HERE, "willRetry": False, "error": {"message": "over"}}), ()),
    "a warning": (
        ("warning", {"threadId": "T", "message": "Model metadata …"}),
        (Notice(level="warning", text="Model metadata …"),),
    ),
    "a warning about the configuration": (
        ("configWarning", {"summary": "Codex rebuilt its local database", "details": None}),
        (Notice(level="warning", text="Codex rebuilt its local database"),),
    ),
    "another model answered": (
        ("model/rerouted", {**HERE, "fromModel": "a", "toModel": "b"}),
        (Notice(level="info", text="The endpoint answered with b instead of a."),),
    ),
    "completed": (ended("completed"), (TurnEnded(outcome=TurnOutcome.COMPLETED),)),
    "interrupted": (ended("interrupted"), (TurnEnded(outcome=TurnOutcome.INTERRUPTED),)),
    "failed": (ended("failed", QUOTA), (TurnEnded(outcome=TurnOutcome.FAILED, code="usage_limit", detail="Quota exceeded."),)),
    "failed without a reason": (ended("failed"), (TurnEnded(outcome=TurnOutcome.FAILED, code="other"),)),
    "an end of an unknown kind": (ended("exploded"), (TurnEnded(outcome=TurnOutcome.FAILED, code="other"),)),
    "an unknown notification": (("thread/goal/cleared", {"threadId": "T"}), ()),
    "an unknown kind of item": (completed(type="hologram", id="h"), ()),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_notification_becomes_these_events(name: str) -> None:
    """One line of the table."""
    (method, params), expected = TABLE[name]
    assert translate(method, params) == expected


MALFORMED: tuple[object, ...] = (None, 7, "x", [], {}, [None], {"type": 3}, {"type": None, "status": []}, True)


@pytest.mark.parametrize("method", sorted({case[0][0] for case in TABLE.values()}))
def test_malformed_parameters_never_raise(method: str) -> None:
    """Every member in turn, and every member of an item or a turn, gets every kind of wrong value: events may be fewer, nothing breaks."""
    samples = [params for (name, params), _ in TABLE.values() if name == method]
    for params in samples:
        for key in (*params, "item", "turn", "error", "tokenUsage"):
            for wrong in MALFORMED:
                translate(method, {**params, key: wrong})
                inner = params.get(key)
                if isinstance(inner, dict):
                    for part in inner:
                        translate(method, {**params, key: {**inner, part: wrong}})
    assert translate(method, {}) == translate(method, dict.fromkeys(("item", "turn", "error")))


def test_an_overlong_text_is_cut_and_marked() -> None:
    """A message of 2 MiB arrives with a bounded text that says that it was cut."""
    [event] = translate(*completed(type="agentMessage", id="m", text="x" * (2 << 20)))
    assert isinstance(event, Message)
    assert len(event.text) == EVENT_TEXT
    assert event.text.endswith(CUT)
