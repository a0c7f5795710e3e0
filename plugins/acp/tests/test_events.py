"""An agent's updates as typed events: a table of what is told and what it stands for."""

from __future__ import annotations

from typing import Any

import pytest

from jam_acp.diffs import diff_of
from jam_acp.replay import Replay, digest_of, turn_id
from jam_acp.updates import Updates
from jamcore.api import (
    CUT,
    EVENT_TEXT,
    SHOWN_TEXT,
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
    TurnOutcome,
    Working,
)

pytestmark = pytest.mark.unprivileged

Told = dict[str, Any]


def said(kind: str, words: str, **more: object) -> Told:
    """Return a piece of a message."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": words}, **more}


def tool(status: str, *, first: bool = False, **more: object) -> Told:
    """Return what is told of the call ``c``."""
    return {"sessionUpdate": "tool_call" if first else "tool_call_update", "toolCallId": "c", "status": status, **more}


def content(words: str) -> list[Told]:
    return [{"type": "content", "content": {"type": "text", "text": words}}]


def events_of(*told: Told) -> list[ProviderEvent]:
    """Return all events that a room would have of a turn in which this was told."""
    updates = Updates()
    seen = [event for update in told for event in updates.take(update) if not isinstance(event, Working)]
    return [*seen, *updates.finish()]


CASES: dict[str, tuple[tuple[Told, ...], list[ProviderEvent]]] = {
    "a message": (
        (said("agent_message_chunk", "one "), said("agent_message_chunk", "two")),
        [
            TextDelta(item="message-1", text="one "),
            TextDelta(item="message-1", text="two"),
            Message(item="message-1", text="one two"),
        ],
    ),
    "two messages with names": (
        (said("agent_message_chunk", "one", messageId="a"), said("agent_message_chunk", "two", messageId="b")),
        [
            TextDelta(item="a", text="one"),
            Message(item="a", text="one"),
            TextDelta(item="b", text="two"),
            Message(item="b", text="two"),
        ],
    ),
    "a thought before a message": (
        (said("agent_thought_chunk", "hm"), said("agent_thought_chunk", "m"), said("agent_message_chunk", "so")),
        [Reasoning(item="thought-1", text="hmm"), TextDelta(item="message-2", text="so"), Message(item="message-2", text="so")],
    ),
    "a picture": (
        ({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}},),
        [],
    ),
    "a command as OpenCode tells it": (
        (
            tool("pending", first=True, kind="execute", title="bash", locations=[{"path": "/w"}], rawInput={"cwd": "/w"}),
            tool("in_progress", kind="execute", title="ls", rawInput={"command": "ls", "cwd": "/w"}),
            tool("in_progress", content=content("a\n")),
            tool("in_progress", content=content("a\nb\n")),
            tool("completed", content=content("a\nb\n"), rawOutput={"output": "a\nb\n", "metadata": {"exit": 2}}),
        ),
        [
            CommandStarted(item="c", command="ls", cwd="/w"),
            CommandOutput(item="c", text="a\n"),
            CommandOutput(item="c", text="b\n"),
            CommandFinished(item="c", command="ls", output="a\nb\n", exit_code=2),
        ],
    ),
    "a command told at its end": (
        (tool("completed", first=True, kind="execute", title="ls", rawOutput={"output": "x", "exit_code": True}),),
        [
            CommandStarted(item="c", command="ls", cwd=""),
            CommandFinished(item="c", command="ls", output="x", exit_code=None),
        ],
    ),
    "a command that was never heard of again": (
        (tool("in_progress", first=True, kind="execute", title="ls"),),
        [CommandStarted(item="c", command="ls", cwd=""), CommandFinished(item="c", command="ls", output="", exit_code=None)],
    ),
    "a change with its lines": (
        (
            said("agent_message_chunk", "see"),
            tool("pending", first=True, kind="edit", title="edit"),
            tool("completed", content=[{"type": "diff", "path": "/w/a", "oldText": "x\ny\nz\n", "newText": "x\nY\nz\n"}]),
        ),
        [
            TextDelta(item="message-1", text="see"),
            Message(item="message-1", text="see"),
            FileChanged(item="c", path="/w/a", change="update", diff="@@ -2,1 +2,1 @@\n-y\n+Y"),
        ],
    ),
    "a new file and one that goes": (
        (
            tool(
                "completed",
                first=True,
                kind="edit",
                content=[
                    {"type": "diff", "path": "/w/a", "newText": "x\n"},
                    {"type": "diff", "path": "/w/b", "oldText": "x\n", "newText": None},
                ],
            ),
        ),
        [
            FileChanged(item="c", path="/w/a", change="add", diff="@@ -1,0 +1,1 @@\n+x"),
            FileChanged(item="c", path="/w/b", change="delete", diff="@@ -1,1 +1,0 @@\n-x"),
        ],
    ),
    "a change of which only the place is told": (
        (tool("completed", first=True, kind="delete", locations=[{"path": "/w/a"}]),),
        [FileChanged(item="c", path="/w/a", change="delete", diff="")],
    ),
    "a change that was not made": (
        (tool("failed", first=True, kind="edit", title="edit a"),),
        [Notice(level="warning", text="A change was not made: edit a")],
    ),
    "a change of nothing that is known": (
        (tool("completed", first=True, kind="edit", title="edit"),),
        [ToolCall(item="c", name="edit", arguments="", result="", ok=True)],
    ),
    "another tool": (
        (
            tool("pending", first=True, kind="search", title="grep", rawInput={"pattern": "x"}),
            tool("failed", rawOutput={"error": "no"}),
        ),
        [ToolCall(item="c", name="grep", arguments='{"pattern": "x"}', result='{"error": "no"}', ok=False)],
    ),
    "an end that is told twice": (
        (tool("completed", first=True, kind="read", title="r"), tool("completed", title="r")),
        [ToolCall(item="c", name="r", arguments="", result="", ok=True)],
    ),
    "a plan": (
        ({"sessionUpdate": "plan", "entries": [{"content": "do", "status": "pending"}]},),
        [ToolCall(item="plan-1", name="plan", arguments='[{"content": "do", "status": "pending"}]')],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_told_is_what_happened(name: str) -> None:
    """Each once, whole, and in order."""
    told, expected = CASES[name]
    assert events_of(*told) == expected


def test_a_turn_that_works_is_told_from_a_silent_one() -> None:
    """A thought that grows, a call that is written, one that runs until it ends, however it ends: the core's deadline knows by these."""
    updates = Updates()
    thought = said("agent_thought_chunk", "hm")
    assert updates.take(thought) == (Working(),)
    updates.flush()
    for told, expected in (
        (tool("pending", first=True, kind="edit", title="edit a"), Working()),
        (tool("in_progress"), Working(item="c")),
        (tool("failed"), Working(item="c", over=True)),
    ):
        assert updates.take(told)[-1] == expected
    assert updates.take({"sessionUpdate": "usage_update", "used": 1}) == ()


ODD: tuple[Told, ...] = (
    {},
    {"sessionUpdate": 7},
    {"sessionUpdate": "_auth/status_update"},
    {"sessionUpdate": "agent_message_chunk"},
    {"sessionUpdate": "agent_message_chunk", "content": "text"},
    {"sessionUpdate": "tool_call"},
    {"sessionUpdate": "tool_call", "toolCallId": 7, "status": [], "kind": {}, "content": 7, "locations": {}, "rawInput": "x"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "completed", "kind": "edit", "content": [{"type": "diff"}]},
    {"sessionUpdate": "tool_call_update", "toolCallId": "y", "status": "completed", "kind": "execute", "rawOutput": [1]},
    {"sessionUpdate": "plan", "entries": 7},
)


def test_nothing_odd_raises() -> None:
    """What has another shape becomes fewer events or emptier ones."""
    events_of(*ODD)
    replay = Replay()
    for update in ODD:
        replay.take("s", update)
    assert replay.turns() == ()


def test_what_is_kept_is_bounded() -> None:
    """Texts are cut and marked; calls that are never ended are forgotten, the oldest first."""
    piece = said("agent_message_chunk", "x" * 600_000)
    message = events_of(piece, piece)[-1]
    assert isinstance(message, Message)
    assert len(message.text) == EVENT_TEXT
    assert message.text.endswith(CUT)
    [call] = events_of(tool("completed", first=True, kind="fetch", title="f", rawInput={"x": "y" * 100_000}))
    assert isinstance(call, ToolCall)
    assert len(call.arguments) == SHOWN_TEXT
    updates = Updates()
    for number in range(2_000):
        updates.take({"sessionUpdate": "tool_call", "toolCallId": str(number), "kind": "execute", "status": "in_progress"})
    assert len(updates.finish()) == 1_024


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ("a\n", "a\n", ""),
        ("", "a\nb\n", "@@ -1,0 +1,2 @@\n+a\n+b"),
        ("a\nb\n", "", "@@ -1,2 +1,0 @@\n-a\n-b"),
        ("a\na\n", "a\n", "@@ -2,1 +2,0 @@\n-a"),
        ("a\nb\nc\n", "a\nc\n", "@@ -2,1 +2,0 @@\n-b"),
        ("a\nc\n", "a\nb\nc\n", "@@ -2,0 +2,1 @@\n+b"),
    ],
)
def test_a_change_is_shown_by_its_lines(old: str, new: str, diff: str) -> None:
    """What is the same before and after stays out, and no line counts twice."""
    assert diff_of(old, new) == diff


def replayed(*told: Told) -> list[tuple[str, TurnOutcome]]:
    """Return the turns in what is told again, with the texts' digests left out of their names."""
    replay = Replay()
    for update in told:
        replay.take("s", update)
    return [(turn.provider_turn.partition("-")[0], turn.outcome) for turn in replay.turns()]


DONE, CUT_OFF = TurnOutcome.COMPLETED, TurnOutcome.INTERRUPTED


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize(
    ("told", "turns"),
    [
        ((), []),
        ((said("agent_message_chunk", "x"),), []),
        ((said("user_message_chunk", "a"),), [("1", CUT_OFF)]),
        ((said("user_message_chunk", "a"), said("agent_message_chunk", "x")), [("1", DONE)]),
        ((said("user_message_chunk", "a"), said("agent_message_chunk", "")), [("1", CUT_OFF)]),
        ((said("user_message_chunk", "a"), said("agent_message_chunk", "x"), tool("in_progress")), [("1", CUT_OFF)]),
        ((said("user_message_chunk", "a"), tool("completed"), said("agent_message_chunk", "x")), [("1", DONE)]),
        (
            (said("user_message_chunk", "a"), said("user_message_chunk", "b"), said("agent_message_chunk", "x")),
            [("1", CUT_OFF), ("2", DONE)],
        ),
        (
            (
                said("user_message_chunk", "a", messageId="1"),
                said("user_message_chunk", "b", messageId="2"),
                said("agent_message_chunk", "x"),
            ),
            [("1", CUT_OFF), ("2", DONE)],
        ),
    ],
)
def test_what_is_told_again_says_which_turns_there_were(told: tuple[Told, ...], turns: list[tuple[str, TurnOutcome]]) -> None:
    """One for each text of a person; complete when the agent had the last word."""
    assert replayed(*told) == turns


def test_a_text_in_pieces_has_the_digest_of_the_whole() -> None:
    """Also with what Jam put before it; a text with a picture has none, and its turn is known by its place alone."""
    replay = Replay()
    for words in ("\u200b/one ", "two"):
        replay.take("s", said("user_message_chunk", words, messageId="m"))
    [turn] = replay.turns()
    assert turn.text_digest == digest_of("/one two")
    assert turn.provider_turn == turn_id(1, digest_of("/one two"))
    replay.take("s", {"sessionUpdate": "user_message_chunk", "messageId": "m", "content": {"type": "image"}})
    [turn] = replay.turns()
    assert (turn.provider_turn, turn.text_digest) == ("1", None)
