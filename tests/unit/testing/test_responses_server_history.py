"""What a recorded request says about the conversation, and whether a later one lost any of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.testing.servers.history import (
    NOTHING,
    AssistantText,
    Item,
    Normalisation,
    ToolCall,
    ToolOutput,
    UserText,
    contains_in_order,
    conversation,
)


def message(role: str, text: str) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": "msg_x", "role": role, "content": [{"type": kind, "text": text}]}


# As a real client sent it (trimmed).
BODY = {
    "model": "mock-model",
    "input": [
        message("developer", "You are a coding agent"),
        message("developer", "<skills_instructions>\n## Skills"),
        message("user", "<environment_context>\n  <cwd>/w</cwd>"),
        message("user", "run echo"),
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        {"type": "function_call", "id": "fc_1", "name": "exec_command", "arguments": '{"cmd": "echo hi"}', "call_id": "call_1"},
        {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "hi\n"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "Done"}]},
        message("assistant", "done"),
        message("user", "<turn_aborted>\nThe user interrupted"),
    ],
}
ITEMS = (
    UserText("run echo"),
    ToolCall("exec_command", '{"cmd":"echo hi"}', "call_1"),
    ToolOutput("call_1", "hi\n"),
    ToolCall("apply_patch", "*** Begin Patch", "call_2"),
    ToolOutput("call_2", "Done"),
    AssistantText("done"),
)


@pytest.mark.guarantee("CONT-1")
def test_a_body_becomes_the_conversation() -> None:
    """Texts, calls and outputs stay, in order; what the client or the model's host wrote for itself does not."""
    assert conversation(BODY) == ITEMS


def test_the_marks_of_context_are_the_callers() -> None:
    """Another client marks its context otherwise; with no marks every user message is a person's."""
    assert UserText("<turn_aborted>\nThe user interrupted") in conversation(BODY, NOTHING)
    assert conversation({"input": [message("user", "[[mine]] x")]}, Normalisation(beginnings=("[[mine]]",))) == ()


def test_arguments_are_compared_as_json_where_they_are_json() -> None:
    """Spaces and the order of keys are no difference; a different value is; broken JSON is compared as text."""

    def call(arguments: str) -> tuple[Item, ...]:
        return conversation({"input": [{"type": "function_call", "name": "f", "arguments": arguments, "call_id": "c"}]})

    assert call('{"a":1,"b":2}') == call('{ "b": 2, "a": 1 }')
    assert call('{"a":1}') != call('{"a":2}')
    assert call("{broken") == (ToolCall("f", "{broken", "c"),)


@pytest.mark.parametrize("body", [None, "text", [], {}, {"input": None}, {"input": [None, 3, "x", {"type": "new"}]}])
def test_a_body_without_a_conversation_is_empty(body: object) -> None:
    """Whatever arrives, nothing is raised: the server answers it and the test sees it."""
    assert conversation(body) == ()


def test_short_forms_of_the_api_are_understood() -> None:
    """``input`` may be one text, and a message may come without a type and with plain text."""
    assert conversation({"input": "hi"}) == (UserText("hi"),)
    assert conversation({"input": [{"role": "user", "content": "hi"}]}) == (UserText("hi"),)


@pytest.mark.guarantee("CONT-1")
def test_a_lost_item_is_named() -> None:
    """The first item that the later conversation lacks is returned: an assistant text, an output, a changed call."""
    for place, lost in enumerate(ITEMS):
        assert contains_in_order(ITEMS, ITEMS[:place] + ITEMS[place + 1 :]) == lost
    assert contains_in_order(ITEMS, (*ITEMS, UserText("next"))) is None


@pytest.mark.guarantee("CONT-1")
def test_order_and_number_count() -> None:
    """The same items in another order, or once instead of twice, are not the same conversation."""
    a, b = UserText("a"), UserText("b")
    assert contains_in_order((a, b), (b, a)) == b
    assert contains_in_order((a, a), (a, b)) == a
    assert contains_in_order((a, b), (a, UserText("x"), b)) is None
    assert contains_in_order((UserText("a"),), (AssistantText("a"),)) == a


@pytest.mark.guarantee("CONT-1")
def test_a_compacted_history_counts_as_a_loss() -> None:
    """A summary in place of what was said is not the exact conversation."""
    summary = message("user", "Another language model started to solve this problem and produced a summary …")
    compacted = {"input": [message("user", "run echo"), summary, message("user", "next")]}
    assert contains_in_order(ITEMS, conversation(compacted)) == ITEMS[1]


ITEM = st.one_of(
    st.builds(UserText, st.sampled_from("ab")),
    st.builds(AssistantText, st.sampled_from("ab")),
    st.builds(ToolOutput, st.sampled_from("12"), st.sampled_from("ab")),
)


@given(earlier=st.lists(ITEM, max_size=6), later=st.lists(ITEM, max_size=8))
def test_it_is_the_subsequence_relation(earlier: list[Item], later: list[Item]) -> None:
    """None exactly if ``earlier`` can be had from ``later`` by leaving items out (checked against the definition by recursion)."""

    def is_subsequence(short: list[Item], long: list[Item]) -> bool:
        if not short:
            return True
        return any(is_subsequence(short[1:], long[n + 1 :]) for n, item in enumerate(long) if item == short[0])

    assert (contains_in_order(earlier, later) is None) == is_subsequence(earlier, later)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_json_is_survived(value: object) -> None:
    """No JSON in the place of an item makes the normalisation fail."""
    entries = [value, {"role": "user", "content": value}, {"type": "function_call_output", "output": value}]
    conversation(json.loads(json.dumps({"input": entries})))
