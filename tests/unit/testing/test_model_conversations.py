"""The conversation in a request has one form, whatever the API and whatever its client wrote into it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.testing.servers.history import (
    AssistantText,
    Item,
    Normalisation,
    ToolCall,
    ToolOutput,
    UserText,
    contains_in_order,
    conversation,
    last_user_text,
)

OWN = Normalisation(elements=("system-reminder", "current_datetime"))
"""What the clients of these bodies write themselves."""
ITEMS: tuple[Item, ...] = (
    UserText("list it"),
    AssistantText("I will look."),
    ToolCall("list", '{"path":"/w"}', "c1"),
    ToolCall("list", "{}", "c2"),
    ToolOutput("c1", "a.txt"),
    ToolOutput("c2", "nothing"),
    AssistantText("There."),
    UserText("and now?"),
)


def text(said: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": said}


def function(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "list", "arguments": arguments}}


RESPONSES: dict[str, Any] = {
    "instructions": "You are an agent",
    "input": [
        {"type": "message", "role": "developer", "content": [text("You are an agent", "input_text")]},
        {"type": "message", "role": "user", "content": [text("list it", "input_text")]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [text("I will look.", "output_text")]},
        {"type": "function_call", "name": "list", "arguments": '{"path": "/w"}', "call_id": "c1"},
        {"type": "function_call", "name": "list", "arguments": "{}", "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        {"type": "function_call_output", "call_id": "c2", "output": "nothing"},
        {"type": "message", "role": "assistant", "content": [text("There.", "output_text")]},
        {"type": "message", "role": "user", "content": [text("and now?", "input_text")]},
    ],
}
MESSAGES: dict[str, Any] = {
    "system": [text("You are an agent")],
    "messages": [
        {
            "role": "user",
            "content": [
                text("<system-reminder>\nToday is Monday.\n</system-reminder>\n\n"),
                {**text("list it"), "cache_control": {}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                text("I will look."),
                {"type": "tool_use", "id": "c1", "name": "list", "input": {"path": "/w"}},
                {"type": "tool_use", "id": "c2", "name": "list", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": "a.txt\n\n<system-reminder>\nBe brief.\n</system-reminder>\n",
                },
                {"type": "tool_result", "tool_use_id": "c2", "content": [text("nothing")], "is_error": True},
                text("<system-reminder>The files changed.</system-reminder>"),
            ],
        },
        {"role": "assistant", "content": "There."},
        {"role": "user", "content": "and now?"},
    ],
}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "You are an agent"},
        {"role": "user", "content": "<current_datetime>2026-01-01T00:00:00Z</current_datetime>\n\nlist it"},
        {
            "role": "assistant",
            "content": "I will look.",
            "reasoning_content": "hm",
            "tool_calls": [function("c1", '{"path": "/w"}'), function("c2", "{}")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "c2", "content": [text("nothing")]},
        {"role": "assistant", "content": "There.", "refusal": None},
        {"role": "user", "content": [text("and now?")]},
    ],
}
BODIES = {"responses": RESPONSES, "messages": MESSAGES, "chat": CHAT}


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("api", BODIES)
def test_a_body_of_each_api_becomes_the_same_conversation(api: str) -> None:
    """As real clients send it: texts, calls and outputs stay, in order; what the client or the model's host wrote for itself does not."""
    assert conversation(BODIES[api], OWN) == ITEMS
    assert last_user_text(conversation(BODIES[api], OWN)) == "and now?"


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("api", BODIES)
def test_a_message_that_is_gone_is_named(api: str) -> None:
    """Whichever it is, the comparison of what is left names the first item of it that is lost."""
    kind = "input" if api == "responses" else "messages"
    entries = BODIES[api][kind]
    for place in range(len(entries)):
        left = conversation({kind: entries[:place] + entries[place + 1 :]}, OWN)
        if left != ITEMS:
            lost = contains_in_order(ITEMS, left)
            assert lost is not None
            assert lost not in left


@pytest.mark.guarantee("CONT-1")
@pytest.mark.parametrize("api", ["messages", "chat"])
def test_a_changed_output_or_argument_is_a_loss(api: str) -> None:
    """Nothing of what a tool gave back or was asked for is normalised away."""
    for said in ("a.txt", "/w"):
        changed = json.loads(json.dumps(BODIES[api]).replace(said, "other"))
        assert contains_in_order(ITEMS, conversation(changed, OWN)) is not None


def test_texts_of_one_message_are_items_of_their_own() -> None:
    """Two things that a person said are two, also where a client puts them into one message."""
    both = {"messages": [{"role": "user", "content": [text("one"), text("two")]}]}
    assert conversation(both) == (UserText("one"), UserText("two"))


def test_an_empty_text_is_none() -> None:
    """A message of calls alone has a null or an empty content, according to its client."""
    for content in (None, "", [], [text("")]):
        message = {"role": "assistant", "content": content, "tool_calls": [function("c", "{}")]}
        assert conversation({"messages": [message]}) == (ToolCall("list", "{}", "c"),)


def test_an_element_is_cut_out_with_the_space_around_it() -> None:
    """What stands before and behind it keeps to its own line; a text without one is kept to the last space."""

    def said(content: str) -> tuple[Item, ...]:
        return conversation({"messages": [{"role": "user", "content": content}]}, OWN)

    assert said("a <system-reminder x='1'>b\n</system-reminder> c") == (UserText("a\nc"),)
    assert said("<system-reminder>b</system-reminder>c<system-reminder>d</system-reminder>") == (UserText("c"),)
    assert said(" a <system-reminder> b\n") == (UserText(" a <system-reminder> b\n"),)
    assert said("a <system-reminder>b</system-reminder> c <system-reminder>d</system-reminder> e") == (UserText("a\nc\ne"),)
    other = "<system-reminders>b</system-reminders>"
    assert said(f"{other}<system-reminder>c</system-reminder>") == (UserText(other),)


def test_the_elements_are_the_callers() -> None:
    """Another client writes others; with none every text is whole."""
    body = {"messages": [{"role": "user", "content": "<mine>x</mine>hi"}]}
    assert conversation(body) == (UserText("<mine>x</mine>hi"),)
    assert conversation(body, Normalisation(elements=("mine",))) == (UserText("hi"),)
    reminded = {"messages": [{"role": "user", "content": "<system-reminder>x</system-reminder>"}]}
    assert conversation(reminded) == (UserText("<system-reminder>x</system-reminder>"),)


def test_a_picture_shows_and_where_it_is_cached_does_not() -> None:
    """It is kept as JSON, so that another picture is another conversation."""

    def shown(data: str, **more: object) -> tuple[Item, ...]:
        return conversation({"messages": [{"role": "user", "content": [{"type": "image", "source": {"data": data}, **more}]}]})

    assert shown("a") == shown("a", cache_control={"type": "ephemeral"}) == (UserText('{"source":{"data":"a"},"type":"image"}'),)
    assert shown("a") != shown("b")


def test_a_free_form_call_is_kept_as_it_is() -> None:
    """Its input is no JSON."""
    call = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    assert conversation({"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}) == (
        ToolCall("patch", "*** Begin", "c"),
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(JSON)
def test_any_json_is_survived(value: object) -> None:
    """No JSON in the place of a message, a block or a call makes the normalisation fail."""
    blocks = [
        value,
        {"type": "text", "text": value},
        {"type": "tool_use", "input": value},
        {"type": "tool_result", "content": value},
    ]
    calls = [value, {"function": value}, {"custom": value}, {"function": {"arguments": value}}]
    entries = [
        value,
        {"role": "user", "content": value},
        {"role": "user", "content": blocks},
        {"role": "assistant", "content": value, "tool_calls": value},
        {"role": "assistant", "content": blocks, "tool_calls": calls},
        {"role": "tool", "content": value},
    ]
    for messages in (value, entries):
        conversation(json.loads(json.dumps({"messages": messages})))
