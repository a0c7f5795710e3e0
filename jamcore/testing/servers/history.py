"""What a model was told: a recorded request body as a conversation that can be compared.

Clients of the Responses API send the whole history each time (``store: false``). So the body of a later request shows exactly what
the client still remembers, and :func:`contains_in_order` is how a test proves that a resume was exact (CONT-1).

The normalisation, in full:

- Items of role ``developer`` or ``system``, reasoning, and items of an unknown type are left out: the client makes them anew, or only the
  model can read them.
- User messages that the client itself wrote (they begin with one of ``CONTEXT_MARKS``) are left out; all others are kept whole.
- Item ids and metadata are left out; call ids are kept.
- Arguments of a function call are compared as JSON values where they are JSON; everything else is compared as text, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

CONTEXT_MARKS = (
    "<environment_context>",
    "<skills_instructions>",
    "<user_instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
    "Another language model started to solve this problem",
)
"""How user messages begin that the client wrote and not a person. A compaction's summary is one of them, so that a compacted history
lacks what it replaced and a comparison says so."""


@dataclass(frozen=True, slots=True)
class UserText:
    """What a person wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantText:
    """What the model said."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model called; ``arguments`` are canonical JSON where they are JSON, and the raw text otherwise."""

    name: str
    arguments: str
    call_id: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What the tool gave back."""

    call_id: str
    output: str


Item = UserText | AssistantText | ToolCall | ToolOutput


def conversation(body: object, *, context_marks: Sequence[str] = CONTEXT_MARKS) -> tuple[Item, ...]:
    """Return the conversation in a request body; a body without one gives an empty tuple, never an error.

    Args:
        body: The parsed JSON body of a recorded request.
        context_marks: How user messages begin that no person wrote.
    """
    entries = body.get("input") if isinstance(body, Mapping) else None
    if isinstance(entries, str):
        return (UserText(entries),)
    return tuple(_items(entries if isinstance(entries, list) else (), tuple(context_marks)))


def contains_in_order(earlier: Sequence[Item], later: Sequence[Item]) -> Item | None:
    """Return the first item of ``earlier`` that ``later`` does not have in order, or None: nothing was lost (CONT-1).

    Items that are only in ``later`` may stand anywhere, and an item that is there twice must be found twice.
    """
    rest = iter(later)
    for item in earlier:
        if all(candidate != item for candidate in rest):
            return item
    return None


def _items(entries: Iterable[object], context_marks: tuple[str, ...]) -> Iterator[Item]:
    for entry in entries:
        if isinstance(entry, Mapping) and (item := _item(entry, context_marks)) is not None:
            yield item


def _item(entry: Mapping[str, object], context_marks: tuple[str, ...]) -> Item | None:
    call_id = str(entry.get("call_id", ""))
    # A message may come without a type: the API takes {"role": …, "content": …} too.
    match entry.get("type", "message"):
        case "message":
            return _message(entry, context_marks)
        case "function_call":
            return ToolCall(str(entry.get("name", "")), _canonical(str(entry.get("arguments", ""))), call_id)
        case "custom_tool_call":
            return ToolCall(str(entry.get("name", "")), str(entry.get("input", "")), call_id)
        case "function_call_output" | "custom_tool_call_output":
            return ToolOutput(call_id, _text(entry.get("output")))
        case _:
            return None


def _message(entry: Mapping[str, object], context_marks: tuple[str, ...]) -> Item | None:
    text = _text(entry.get("content"))
    match entry.get("role"):
        case "assistant":
            return AssistantText(text)
        case "user" if not text.lstrip().startswith(context_marks):
            return UserText(text)
        case _:
            return None


def _text(content: object) -> str:
    """Return text content as one string; what is neither text nor a list of parts is kept as JSON, so that a change shows."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part["text"]) if isinstance(part, Mapping) and "text" in part else _json(part) for part in content)
    return _json(content)


def _canonical(text: str) -> str:
    try:
        return _json(json.loads(text))
    except ValueError:
        return text


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def said_in(body: object, kind: type[UserText | AssistantText] = UserText) -> list[str]:
    """Return the texts of one side of the conversation in a request body, in order: a person's, unless told otherwise."""
    return [item.text for item in conversation(body) if isinstance(item, kind)]
