"""The script of a model server: ordered rules, each with what it matches and what it answers.

A script is data. It can be written in Python or loaded from JSON (``Script.model_validate_json``), and choosing a rule is a pure
function of the request and of how often each rule was used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_validator

from jamcore.domain.records import Record
from jamcore.testing.servers.faults import Fault
from jamcore.testing.servers.history import Item, ToolCall, ToolOutput, last_user_text

GATE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What a gate may be called: it is a file name and a part of a URL path."""

GateName = Annotated[str, Field(pattern=f"^{GATE_NAME.pattern}$")]


class Hold(Record):
    """The answer stops here until ``gate`` is released; inside a text, after ``after`` of its deltas."""

    kind: Literal["hold"] = "hold"
    gate: GateName
    after: int = Field(default=0, ge=0)


class Pause(Record):
    """The answer rests for ``seconds``."""

    kind: Literal["pause"] = "pause"
    seconds: float = Field(gt=0, le=300)


class Text(Record):
    """An assistant message, sent delta by delta with ``delay_s`` seconds between two of them."""

    kind: Literal["text"] = "text"
    deltas: tuple[str, ...]
    delay_s: float = Field(default=0, ge=0, le=60)
    hold: Hold | None = None

    @property
    def whole(self) -> str:
        """The message's text."""
        return "".join(self.deltas)


class Reasoning(Record):
    """What the model thought: its summary, and the opaque content that a client sends back."""

    kind: Literal["reasoning"] = "reasoning"
    summary: tuple[str, ...] = ()
    encrypted_content: str | None = None


class Call(Record):
    """A function call. ``arguments`` given as text are sent as they are, well-formed or not; ``call_id`` empty: the server makes one."""

    kind: Literal["call"] = "call"
    name: str
    arguments: dict[str, JsonValue] | str
    call_id: str = ""

    @property
    def encoded(self) -> str:
        """The arguments as the model would send them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class CustomCall(Record):
    """A call of a custom (free-form) tool, which not every API has."""

    kind: Literal["custom_call"] = "custom_call"
    name: str
    input: str
    call_id: str = ""


Said = Text | Reasoning | Call | CustomCall
"""The parts that the client is told; the others are only about when."""

Part = Annotated[Said | Hold | Pause, Field(discriminator="kind")]


class Usage(Record):
    """The tokens that an answer claims to have cost; cached and reasoning tokens are parts of the others."""

    input_tokens: int = 10
    cached_tokens: int = 0
    output_tokens: int = 5
    reasoning_tokens: int = 0


class Match(Record):
    """What a request must be like. Every field that is set must hold; none set matches everything.

    Attributes:
        nth: The number of the model request at this server, from 1; retries count.
        last_user_contains: A part of the last text that a person wrote (context messages of the client do not count).
        last_is_tool_output: Whether the last item is the output of a tool.
        tool_output: The call id of a tool output that is present anywhere.
        tool_output_contains: A part of the last tool output.
        tool_call: The call id of a tool call that is present anywhere.
        body_regex: Found (``re.search``) in the request body's canonical JSON (sorted keys, no spaces).
        path_regex: Found (``re.search``) in the request's path.
    """

    nth: int | None = Field(default=None, ge=1)
    last_user_contains: str | None = None
    last_is_tool_output: bool | None = None
    tool_output: str | None = None
    tool_output_contains: str | None = None
    tool_call: str | None = None
    body_regex: str | None = None
    path_regex: str | None = None

    @field_validator("body_regex", "path_regex")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from error
        return value


class Rule(Record):
    """One thing the model says, and when.

    Attributes:
        match: When the rule applies.
        answer: The parts of the answer, in order.
        finish: ``completed`` and ``incomplete`` (the limit of tokens was reached) end the stream as the API does; ``open`` ends it
            with no end mark.
        usage: What the answer claims to have cost.
        times: How often the rule may be used; unset: without limit.
        fault: What goes wrong instead of, or inside, the answer.
        fault_times: For how many uses of the rule, from its first, the fault happens; unset: always.
    """

    match: Match = Match()
    answer: tuple[Part, ...] = ()
    finish: Literal["completed", "incomplete", "open"] = "completed"
    usage: Usage = Usage()
    times: int | None = Field(default=None, ge=1)
    fault: Fault | None = None
    fault_times: int | None = Field(default=None, ge=1)


class Script(Record):
    """Ordered rules: the first that matches, and is not used up, answers.

    ``models`` are the names that the server gives when it is asked which models there are; any name is answered.
    """

    rules: tuple[Rule, ...] = ()
    models: tuple[str, ...] = ("scripted-model",)


@dataclass(frozen=True, slots=True)
class Request:
    """What rules look at. ``nth`` counts model requests from 1; ``body`` is the canonical JSON."""

    nth: int
    path: str
    body: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rule that answers, its place in the script (from 0), and the fault that happens this time."""

    place: int
    rule: Rule
    fault: Fault | None


def say(*deltas: str, match: Match | None = None, times: int | None = None) -> Rule:
    """Return the rule for the commonest answer: one text."""
    return Rule(match=match or Match(), answer=(Text(deltas=deltas),), times=times)


def choose(script: Script, request: Request, used: Mapping[int, int]) -> Chosen | None:
    """Return the rule for a request, or None: no rule fits, which a server must say loudly.

    Args:
        script: The rules.
        request: What came in.
        used: How often the rule at each place was used before.
    """
    for place, rule in enumerate(script.rules):
        before = used.get(place, 0)
        if rule.times is not None and before >= rule.times:
            continue
        if matches(rule.match, request):
            faulty = rule.fault_times is None or before < rule.fault_times
            return Chosen(place, rule, rule.fault if faulty else None)
    return None


def matches(match: Match, request: Request) -> bool:
    """Whether every set field of ``match`` holds for ``request``."""
    return (
        (match.nth is None or match.nth == request.nth)
        and (match.last_user_contains is None or match.last_user_contains in last_user_text(request.items))
        and (match.body_regex is None or re.search(match.body_regex, request.body) is not None)
        and (match.path_regex is None or re.search(match.path_regex, request.path) is not None)
        and _tools_match(match, request.items)
    )


def _tools_match(match: Match, items: Sequence[Item]) -> bool:
    outputs = [item for item in items if isinstance(item, ToolOutput)]
    ends_with_output = bool(items) and isinstance(items[-1], ToolOutput)
    return (
        (match.last_is_tool_output is None or match.last_is_tool_output == ends_with_output)
        and (match.tool_output is None or any(item.call_id == match.tool_output for item in outputs))
        and (match.tool_output_contains is None or (bool(outputs) and match.tool_output_contains in outputs[-1].output))
        and (match.tool_call is None or any(isinstance(i, ToolCall) and i.call_id == match.tool_call for i in items))
    )
