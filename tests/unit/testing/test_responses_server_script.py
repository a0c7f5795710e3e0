"""Scripts of the model server: how they are written, and which rule answers."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from jamcore.testing.servers.faults import HttpFault
from jamcore.testing.servers.history import AssistantText, Item, ToolCall, ToolOutput, UserText
from jamcore.testing.servers.script import (
    Call,
    CustomCall,
    Hold,
    Match,
    Pause,
    Reasoning,
    Request,
    Rule,
    Script,
    Text,
    choose,
    matches,
    say,
)

ASKED: tuple[Item, ...] = (UserText("first"), AssistantText("ok"), UserText("please list"))
USED_TOOL: tuple[Item, ...] = (*ASKED, ToolCall("exec", "{}", "c1"), ToolOutput("c1", "a.txt"))


def request(items: tuple[Item, ...] = ASKED, *, nth: int = 1, body: str = '{"model":"m"}') -> Request:
    return Request(nth, "/v1/responses", body, items)


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (Match(), True),
        (Match(nth=1), True),
        (Match(nth=2), False),
        (Match(last_user_contains="list"), True),
        (Match(last_user_contains="first"), False),
        (Match(last_is_tool_output=False), True),
        (Match(last_is_tool_output=True), False),
        (Match(tool_output="c1"), False),
        (Match(tool_call="c1"), False),
        (Match(tool_output_contains=""), False),
        (Match(body_regex='"model":"[a-z]"'), True),
        (Match(body_regex="^model"), False),
        (Match(path_regex="^/v1/"), True),
        (Match(path_regex="^/v2/"), False),
        (Match(nth=1, last_user_contains="nowhere"), False),
    ],
)
def test_a_match_holds_if_each_of_its_fields_holds(match: Match, expected: bool) -> None:
    """Each field alone decides; an unset one matches everything; the last person's text counts, not earlier ones."""
    assert matches(match, request()) is expected


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (Match(last_is_tool_output=True), True),
        (Match(last_is_tool_output=False), False),
        (Match(tool_output="c1"), True),
        (Match(tool_output="c2"), False),
        (Match(tool_call="c1"), True),
        (Match(tool_output_contains="a.txt"), True),
        (Match(tool_output_contains="b.txt"), False),
        (Match(last_user_contains="list"), True),
    ],
)
def test_a_match_sees_tool_calls_and_outputs(match: Match, expected: bool) -> None:
    """After a tool ran, its call, its output and what it said can be asked for; the last user text is still the person's."""
    assert matches(match, request(USED_TOOL)) is expected


def test_the_first_fitting_rule_answers() -> None:
    """Order decides; a later rule that fits as well is not asked."""
    script = Script(rules=(say("no", match=Match(nth=9)), say("one"), say("two")))
    chosen = choose(script, request(), {})
    assert chosen is not None
    assert chosen.place == 1


def test_a_used_up_rule_makes_way() -> None:
    """``times`` bounds a rule; after that the next one answers, and after the last none does."""
    script = Script(rules=(say("a", times=2), say("b", times=1)))
    places = [choose(script, request(), used) for used in ({}, {0: 1}, {0: 2}, {0: 2, 1: 1})]
    assert [chosen and chosen.place for chosen in places] == [0, 0, 1, None]


def test_a_fault_happens_for_its_first_uses_only() -> None:
    """``fault_times=2``: two uses go wrong, the third is healthy. Without it every use goes wrong."""
    fault = HttpFault(status=429)
    twice = Script(rules=(Rule(answer=(Text(deltas=("ok",)),), fault=fault, fault_times=2),))
    chosen = [choose(twice, request(), {0: used}) for used in range(3)]
    assert [c and c.fault for c in chosen] == [fault, fault, None]
    always = Script(rules=(Rule(fault=fault),))
    late = choose(always, request(), {0: 99})
    assert late is not None
    assert late.fault == fault


def test_an_empty_script_answers_nothing() -> None:
    """No rule, no answer: a forgotten script cannot look like a working model."""
    assert choose(Script(), request(), {}) is None


def test_a_script_survives_json() -> None:
    """What is written in Python can be written to a file and read back equal, every part included."""
    script = Script(
        rules=(
            Rule(
                match=Match(nth=1),
                answer=(
                    Reasoning(summary=("think",), encrypted_content="x"),
                    Text(deltas=("a", "b"), delay_s=0.5, hold=Hold(gate="g", after=1)),
                    Hold(gate="h"),
                    Pause(seconds=1.0),
                    Call(name="exec", arguments={"cmd": "ls"}, call_id="c"),
                    Call(name="exec", arguments="{broken"),
                    CustomCall(name="patch", input="*** Begin Patch"),
                ),
                fault=HttpFault(status=500),
                fault_times=1,
            ),
        )
    )
    assert Script.model_validate_json(script.canonical_json()) == script


@pytest.mark.parametrize(
    "rule",
    [
        {"match": {"last_user": "typo"}},
        {"answer": [{"kind": "song", "deltas": []}]},
        {"answer": [{"kind": "hold", "gate": "../up"}]},
        {"answer": [{"kind": "hold", "gate": "nl\n"}]},
        {"match": {"body_regex": "("}},
        {"match": {"nth": 0}},
        {"fault": {"kind": "http", "status": 200}},
        {"fault": {"kind": "slow", "first_byte_s": 0}},
    ],
)
def test_a_script_with_a_mistake_is_refused(rule: dict[str, object]) -> None:
    """A misspelt field, an unknown part, a gate that is a path, a bad expression: refused when read, not ignored when run."""
    with pytest.raises(ValidationError):
        Script.model_validate_json(json.dumps({"rules": [rule]}))
