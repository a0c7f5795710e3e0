"""Reading what a program in a guest said, tolerantly: what has another shape is nothing, and all that is kept is bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping

EVENT_TEXT = 1 << 20
"""Characters kept of one text, as everywhere in Jam; more is cut and marked."""
ARGUMENT_TEXT = 64 << 10
"""Characters kept of a tool's arguments or result: for people to read, the model has the whole."""
IDENTIFIER = 256
CUT = "\n[cut by Jam]"


def member(value: object, *path: str) -> object:
    """Return what lies at ``path`` inside nested objects, or ``None``."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def members(value: object) -> list[Mapping[str, object]]:
    """Return the objects in a list; anything else has none."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def text(value: object, limit: int = EVENT_TEXT) -> str:
    """Return ``value`` when it is text, cut and marked beyond ``limit`` characters; anything else is no text."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= limit else value[: limit - len(CUT)] + CUT


def number(value: object) -> int:
    """Return ``value`` when it is a whole number of 0 or more, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def identifier(value: object) -> str:
    """Return a provider's id as bounded text."""
    return value[:IDENTIFIER] if isinstance(value, str) else ""


def as_json(value: object, limit: int = ARGUMENT_TEXT) -> str:
    """Return JSON as bounded text; text itself as it is, and nothing for nothing."""
    if value is None or value == {}:
        return ""
    return text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), limit)
