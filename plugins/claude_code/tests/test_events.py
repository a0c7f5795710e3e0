"""Frames of the program, as they come or as they never should, and the events that they stand for."""

from __future__ import annotations

import pytest

from jam_claude_code.events import Translator
from jam_claude_code.transcript import Remembered
from jamcore.api import (
    CUT,
    EVENT_TEXT,
    SHOWN_TEXT,
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    Reasoning,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnFailure,
    TurnOutcome,
    UsageReported,
    Working,
)

pytestmark = pytest.mark.unprivileged


def events(*frames: dict[str, object]) -> list[ProviderEvent]:
    """Return the events of one turn with these frames that a room would have."""
    translator = Translator("/w", Remembered())
    told = (event for frame in frames for event in translator.translate(str(frame.get("type")), frame))
    return [event for event in told if not isinstance(event, Working)]


def said(*blocks: dict[str, object], message: str = "m", **more: object) -> dict[str, object]:
    """Return the frame of an answer's blocks."""
    return {"type": "assistant", "message": {"id": message, "model": "claude", "content": list(blocks)}, **more}


def call(name: str, call_id: str = "c", **given: object) -> dict[str, object]:
    """Return the block of a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(content: object, details: object = None, call_id: str = "c", **more: object) -> dict[str, object]:
    """Return the frame of a call's result."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}
    return {"type": "user", "message": {"content": [block]}, "tool_use_result": details}


def text(words: str) -> dict[str, object]:
    """Return a block of text."""
    return {"type": "text", "text": words}


def test_a_block_has_one_name_in_deltas_and_whole() -> None:
    """Its place in the message, which the frame of the whole block does not tell."""
    delta = {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "b"}}
    thinking: dict[str, object] = {"type": "thinking", "thinking": "a"}
    found = events(
        said(thinking),
        {"type": "stream_event", "event": delta, "api_message_id": "m"},
        said(text("b")),
        said(text("c"), message="n"),
    )
    assert found == [
        Reasoning(item="m.0", text="a"),
        TextDelta(item="m.1", text="b"),
        Message(item="m.1", text="b"),
        Message(item="n.0", text="c"),
    ]


def test_words_of_a_sub_agent_are_not_the_agents() -> None:
    """What it does is shown; what it says reaches its caller as a result."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
    inner = said(text("inner"), call("Bash", command="ls"), parent_tool_use_id="p")
    streamed: dict[str, object] = {"type": "stream_event", "event": delta, "parent_tool_use_id": "p"}
    assert events(inner, streamed) == [CommandStarted(item="c", command="ls", cwd="/w")]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (result("out", {"interrupted": False}, is_error=False), 0),
        (result("out", {"interrupted": True}), None),
        (result("Exit code 3\nout", "Error", is_error=True), 3),
        (result("something new", "Error", is_error=True), None),
    ],
    ids=["done", "interrupted", "failed", "failed in other words"],
)
def test_the_code_of_a_command(frame: dict[str, object], code: int | None) -> None:
    """Told by the first words of the result alone; where it is not known it is absent, never a guess."""
    finished = events(said(call("Bash", command="x")), frame)[-1]
    assert isinstance(finished, CommandFinished)
    assert finished.exit_code == code


def test_a_file_that_was_not_changed_is_a_call_that_failed() -> None:
    """And not a change."""
    (failed,) = events(said(call("Edit", file_path="/w/a")), result("not found", is_error=True))
    assert failed == ToolCall(item="c", name="Edit", arguments='{"file_path": "/w/a"}', result="not found", ok=False)
    (changed,) = events(said(call("Edit", file_path="/w/a")), result("fine", {"structuredPatch": "odd"}))
    assert changed == FileChanged(item="c", path="/w/a", change="update", diff="")


def test_a_picture_is_shown_as_one() -> None:
    """Nobody reads a megabyte of its letters."""
    picture = [{"type": "image", "source": {"data": "x" * 100}}, text("and words")]
    (shown,) = events(said(call("Read", file_path="/w/a.png")), result(picture))
    assert isinstance(shown, ToolCall)
    assert shown.result == "[image]\nand words"


def test_long_texts_are_cut_and_marked() -> None:
    """A message to a million characters, a tool's result to what people read."""
    long = "x" * (EVENT_TEXT + 1)
    message, called = events(said(text(long), call("Other")), result(long))
    assert isinstance(message, Message)
    assert isinstance(called, ToolCall)
    assert (len(message.text), len(called.result)) == (EVENT_TEXT, SHOWN_TEXT)
    assert message.text.endswith(CUT)
    assert called.result.endswith(CUT)


@pytest.mark.parametrize(
    ("mark", "end"),
    [
        ({"is_error": False, "subtype": "success"}, TurnEnded(outcome=TurnOutcome.COMPLETED)),
        (
            {"is_error": True, "subtype": "success", "result": "no", "api_error_status": 429},
            TurnEnded(outcome=TurnOutcome.FAILED, code=TurnFailure.RATE_LIMITED, detail="no"),
        ),
        (
            {"is_error": True, "subtype": "error_during_execution", "terminal_reason": "aborted_tools", "errors": ["x"]},
            TurnEnded(outcome=TurnOutcome.INTERRUPTED),
        ),
        (
            {"is_error": True, "errors": ["a", "b"]},
            TurnEnded(outcome=TurnOutcome.FAILED, code=TurnFailure.OTHER, detail='["a", "b"]'),
        ),
    ],
    ids=["completed", "failed, which says success", "interrupted", "failed without words"],
)
def test_how_a_turn_ends(mark: dict[str, object], end: TurnEnded) -> None:
    """By the flag and the reason, never by the subtype."""
    used, ended = events({"type": "result", **mark})
    assert isinstance(used, UsageReported)
    assert ended == end


def test_the_kind_of_a_failure_is_in_the_programs_own_words() -> None:
    """They are a message of no model; the end mark has them too, so they are not shown twice."""
    words: dict[str, object] = {"id": "s", "model": "<synthetic>", "content": [text("Credit balance is too low")]}
    end: dict[str, object] = {"type": "result", "is_error": True, "result": "Credit balance is too low", "api_error_status": 400}
    used, ended = events({"type": "assistant", "message": words, "error": "billing_error"}, end)
    assert isinstance(used, UsageReported)
    assert ended == TurnEnded(outcome=TurnOutcome.FAILED, code=TurnFailure.USAGE_LIMIT, detail="Credit balance is too low")


def test_a_retry_and_a_summary_are_told() -> None:
    """What a person would else wonder about."""
    retry: dict[str, object] = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 3, "error": "overloaded"}
    told = events(
        {**retry, "error_status": 529}, {**retry, "error_status": None}, {"type": "system", "subtype": "compact_boundary"}
    )
    assert [event.text for event in told if isinstance(event, Notice)] == [
        "The model endpoint failed (overloaded, status 529); Claude Code tries again (1 of 3).",
        "The model endpoint failed (overloaded); Claude Code tries again (1 of 3).",
        "Claude Code replaced the older part of the conversation by a summary.",
    ]


ODD: list[object] = [None, 7, "x", [], {}, [[]], {"content": 7}, {"content": [7, {"type": "tool_use"}]}, {"delta": 7}]


@pytest.mark.parametrize("kind", ["system", "stream_event", "assistant", "user", "result", "who_knows", "command_lifecycle"])
@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_frame_of_another_shape_hurts_nobody(kind: str, odd: object) -> None:
    """Whatever lies where something is read, it is passed over or shown as nothing."""
    names = ("message", "event", "subtype", "modelUsage", "model_usage_since_last_result", "result", "errors", "tool_use_result")
    events({"type": kind, **dict.fromkeys(names, odd)})
