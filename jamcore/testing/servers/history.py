"""What a model was told: a recorded request body as a conversation that can be compared, in one form for every API.

Clients send the whole history each time. So the body of a later request shows exactly what the client still remembers, and
:func:`contains_in_order` is how a test proves that a resume was exact (CONT-1), whatever the API: that of a Responses body is read
from ``input``, that of a Messages or a Chat Completions body from ``messages``.

The normalisation, in full:

- What has the role ``developer`` or ``system``, reasoning, and what is of an unknown type is left out: the client makes it anew, or only
  the model can read it.
- What the client itself writes among the words of others is left out, as far as it is declared (:class:`Normalisation`): each provider
  declares its own. All other text is kept whole.
- Ids of items and metadata are left out; call ids are kept.
- Each text of a ``messages`` body is an item of its own, and an empty one is none; the parts of an ``input`` message are one text.
- Arguments of a function call are compared as JSON values where they are JSON; everything else is compared as text, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Normalisation:
    """What a provider's program itself writes among what the model is told: it is in no comparison, and everything else is (CONT-1).

    Attributes:
        beginnings: How user messages begin that the program wrote, and not a person: they are left out. A compaction's summary is one
            of them, so that a compacted history lacks what it replaced and a comparison says so.
        elements: The elements (``<name>…</name>``) that it writes into what a person said or a tool gave back: they are cut out, with
            the space around them; what is nothing else is left out.

    A program that writes the date before the first text declares ``Normalisation(beginnings=("Today is",))``, and one that puts
    ``<context>…</context>`` into every text ``Normalisation(elements=("context",))``. What stands in the system prompt needs no
    declaration: only what people and the model said, calls and their outputs are compared. Each run prints what is declared.
    """

    beginnings: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()

    def told(self) -> str:
        """Return it as a sentence for people."""
        messages = f"user messages that begin with {_listed(self.beginnings)}" if self.beginnings else ""
        elements = f"elements {_listed(f'<{name}>' for name in self.elements)} within a text" if self.elements else ""
        return " and ".join(filter(None, (messages, elements))) or "nothing"


NOTHING = Normalisation()
"""Every word is compared."""

USUAL = Normalisation(
    beginnings=(
        "<environment_context>",
        "<skills_instructions>",
        "<user_instructions>",
        "<turn_aborted>",
        "# AGENTS.md instructions",
        "Another language model started to solve this problem",
    )
)
"""That of the program in whose rooms the core's own tests are; what is for every provider takes the provider's instead."""


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


def conversation(body: object, normalisation: Normalisation = USUAL) -> tuple[Item, ...]:
    """Return the conversation in a request body; a body without one gives an empty tuple, never an error.

    Args:
        body: The parsed JSON body of a recorded request.
        normalisation: What the client wrote itself.
    """
    if not isinstance(body, Mapping):
        return ()
    said = _input_items(body["input"]) if "input" in body else _message_items(body.get("messages"))
    names = "|".join(map(re.escape, normalisation.elements))
    element = re.compile(rf"<({names})(?:\s[^>]*)?>.*?</\1>", re.DOTALL) if names else None
    cleaned = (_without_context(item, normalisation.beginnings, element) for item in said)
    return tuple(item for item in cleaned if item is not None)


def last_user_text(items: Sequence[Item]) -> str:
    """Return the last text that a person wrote, or an empty one."""
    return next((item.text for item in reversed(items) if isinstance(item, UserText)), "")


def contains_in_order(earlier: Sequence[Item], later: Sequence[Item]) -> Item | None:
    """Return the first item of ``earlier`` that ``later`` does not have in order, or None: nothing was lost (CONT-1).

    Items that are only in ``later`` may stand anywhere, and an item that is there twice must be found twice.
    """
    rest = iter(later)
    for item in earlier:
        if all(candidate != item for candidate in rest):
            return item
    return None


def _without_context(item: Item, beginnings: tuple[str, ...], element: re.Pattern[str] | None) -> Item | None:
    """Return the item without what its client wrote into it; None: nothing else was in it."""
    match item:
        case UserText(text):
            if text.lstrip().startswith(beginnings):
                return None
            cleaned = _cut_out(element, text)
            return UserText(cleaned) if cleaned or not text else None
        case ToolOutput():
            return replace(item, output=_cut_out(element, item.output))
        case _:
            return item


def _cut_out(element: re.Pattern[str] | None, text: str) -> str:
    """Return ``text`` as it is if no element is in it, else without them, the pieces between them on lines of their own."""
    first, *others = [text] if element is None else element.split(text)[::2]  # every second piece is the name of an element
    if not others:
        return text
    *middle, last = others
    pieces = (first.rstrip(), *(piece.strip() for piece in middle), last.lstrip())
    return "\n".join(piece for piece in pieces if piece)


def _input_items(entries: object) -> Iterator[Item]:
    """Yield the items of a Responses body."""
    if isinstance(entries, str):
        yield UserText(entries)
    for entry in _mappings(entries):
        if (item := _input_item(entry)) is not None:
            yield item


def _input_item(entry: Mapping[str, object]) -> Item | None:
    call_id = str(entry.get("call_id", ""))
    # A message may come without a type: the API takes {"role": …, "content": …} too.
    match entry.get("type", "message"):
        case "message":
            return _by_role(entry.get("role"), _text(entry.get("content")))
        case "function_call":
            return ToolCall(str(entry.get("name", "")), canonical_arguments(str(entry.get("arguments", ""))), call_id)
        case "custom_tool_call":
            return ToolCall(str(entry.get("name", "")), str(entry.get("input", "")), call_id)
        case "function_call_output" | "custom_tool_call_output":
            return ToolOutput(call_id, _text(entry.get("output")))
        case _:
            return None


def _message_items(entries: object) -> Iterator[Item]:
    """Yield the items of a Messages or a Chat Completions body: what differs between the two has names of its own in each."""
    for entry in _mappings(entries):
        role, content = entry.get("role"), entry.get("content")
        if role == "tool":
            yield ToolOutput(str(entry.get("tool_call_id", "")), _text(content))
            continue
        for block in _mappings([{"type": "text", "text": content}] if isinstance(content, str) else content):
            if (item := _block(role, block)) is not None:
                yield item
        yield from map(_tool_call, _mappings(entry.get("tool_calls")))


def _block(role: object, block: Mapping[str, object]) -> Item | None:
    match block.get("type"):
        case "text":
            text = _text(block.get("text"))
            return _by_role(role, text) if text else None
        case "tool_use":
            return ToolCall(str(block.get("name", "")), _json(block.get("input")), str(block.get("id", "")))
        case "tool_result":
            return ToolOutput(str(block.get("tool_use_id", "")), _text(block.get("content")))
        case _ if role == "user":
            # An image or the like: kept as JSON, so that a change shows. Where the client wants it cached is no part of it.
            return UserText(_json({key: value for key, value in block.items() if key != "cache_control"}))
        case _:
            return None


def _tool_call(call: Mapping[str, object]) -> Item:
    call_id = str(call.get("id", ""))
    if isinstance(custom := call.get("custom"), Mapping):
        return ToolCall(str(custom.get("name", "")), str(custom.get("input", "")), call_id)
    function = call.get("function")
    named = function if isinstance(function, Mapping) else {}
    return ToolCall(str(named.get("name", "")), canonical_arguments(str(named.get("arguments", ""))), call_id)


def _by_role(role: object, text: str) -> Item | None:
    match role:
        case "assistant":
            return AssistantText(text)
        case "user":
            return UserText(text)
        case _:
            return None


def _mappings(entries: object) -> Iterable[Mapping[str, object]]:
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _text(content: object) -> str:
    """Return text content as one string; what is neither text nor a list of parts is kept as JSON, so that a change shows."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part["text"]) if isinstance(part, Mapping) and "text" in part else _json(part) for part in content)
    return _json(content)


def canonical_arguments(text: str) -> str:
    """Return a call's arguments as :class:`ToolCall` has them: canonical JSON where they are JSON, else the text itself."""
    try:
        return _json(json.loads(text))
    except ValueError:
        return text


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def said_in(body: object, kind: type[UserText | AssistantText] = UserText, normalisation: Normalisation = USUAL) -> list[str]:
    """Return the texts of one side of the conversation in a request body, in order: a person's, unless told otherwise."""
    return [item.text for item in conversation(body, normalisation) if isinstance(item, kind)]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
