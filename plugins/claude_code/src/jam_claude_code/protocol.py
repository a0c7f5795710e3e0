"""The part of Claude Code's stream-json that the plugin uses, read tolerantly: unknown fields and kinds never hurt."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from jam_claude_code.description import NAME
from jamcore.api import ProviderProtocolError, ProviderRefusedError


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
    RETRY = "api_retry"
    COMPACTED = "compact_boundary"


IDLE = "idle"
STARTED = "started"
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


def is_identity(value: str) -> bool:
    """Whether ``value`` could be the id of a thread: a UUID in its usual form, and so a plain name for a directory too."""
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False
