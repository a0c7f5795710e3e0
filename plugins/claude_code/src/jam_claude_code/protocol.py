"""The part of Claude Code's stream-json that the plugin uses, read tolerantly: unknown fields and kinds never hurt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from uuid import UUID

from jam_claude_code.description import NAME
from jamcore.api import ProviderProtocolError, ProviderRefusedError

EVENT_TEXT = 1 << 20
"""Characters kept of one text, as everywhere in Jam; more is cut and marked."""
SHOWN_TEXT = 64 << 10
"""Characters kept of a tool's arguments or result: for people to read, the model has the whole."""
IDENTIFIER = 256
CUT = "\n[cut by Jam]"


class Ask(StrEnum):
    """Control requests that the plugin sends."""

    INITIALIZE = "initialize"
    INTERRUPT = "interrupt"


MAY_USE_TOOL = "can_use_tool"
"""The one control request of the program that a person can answer."""
USER = "user"
"""The kind of a frame that says something to the model."""


class Told(StrEnum):
    """Kinds of frames that mean something to the plugin; all others are passed over."""

    SYSTEM = "system"
    LIFECYCLE = "command_lifecycle"
    STREAM = "stream_event"
    ASSISTANT = "assistant"
    USER = "user"
    RESULT = "result"
    WITHDRAWN = "control_cancel_request"


class System(StrEnum):
    """Kinds of ``system`` frames that mean something to the plugin."""

    INIT = "init"
    STATE = "session_state_changed"
    STATUS = "status"
    RETRY = "api_retry"
    COMPACTED = "compact_boundary"


IDLE = "idle"
STARTED = "started"
REQUESTING = "requesting"
ABORTED = frozenset({"aborted_streaming", "aborted_tools"})
"""Why a turn ended that was interrupted."""
SYNTHETIC = "<synthetic>"
"""The model of an answer that no model gave: the program's own words about a failure or a gap."""


def nonsense(problem: str) -> ProviderProtocolError:
    """Return the error for something that is not what the protocol says."""
    return ProviderProtocolError(provider=NAME, problem=problem)


def refused(request: str, detail: str) -> ProviderRefusedError:
    """Return the error for something that is not done."""
    return ProviderRefusedError(provider=NAME, request=request, detail=detail)


def member(value: object, *path: str) -> object:
    """Return what lies at ``path`` inside nested objects, or ``None``."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def entries(value: object) -> tuple[Mapping[str, object], ...]:
    """Return the objects in a list; anything else has none."""
    return tuple(entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else ()


def text(value: object, limit: int = EVENT_TEXT) -> str:
    """Return ``value`` when it is text, cut and marked beyond ``limit`` characters; anything else is no text."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= limit else value[: limit - len(CUT)] + CUT


def shown(value: object, limit: int = SHOWN_TEXT) -> str:
    """Return JSON as bounded text; text itself as it is, and the texts of a list of content as one."""
    if value is None:
        return ""
    if isinstance(value, str):
        return text(value, limit)
    blocks = entries(value)
    if blocks and all(isinstance(block.get("text"), str) for block in blocks):
        return text("\n".join(str(block["text"]) for block in blocks), limit)
    return text(json.dumps(value, ensure_ascii=False), limit)


def number(value: object) -> int:
    """Return ``value`` when it is a whole number of 0 or more, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def identifier(value: object) -> str:
    """Return a provider's id as bounded text."""
    return value[:IDENTIFIER] if isinstance(value, str) else ""


def is_identity(value: str) -> bool:
    """Whether ``value`` could be the id of a thread: a UUID in its usual form, and so a plain name for a directory too."""
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False
