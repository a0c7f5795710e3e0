"""The part of Copilot's JSON-RPC that the plugin uses, read tolerantly: unknown fields and kinds never hurt.

Names live here so that the contract test can compare them with the schemas that come with the pinned program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jam_copilot.description import NAME
from jam_copilot.pins import PROTOCOL
from jamcore.api import ProviderProtocolError, ProviderRefusedError, identifier, member, reported_identity, text


class Ask(StrEnum):
    """Requests that the plugin sends."""

    CONNECT = "connect"
    CREATE = "session.create"
    RESUME = "session.resume"
    DETACH = "session.detach"
    SEND = "session.send"
    ABORT = "session.abort"
    READ_EVENTS = "session.eventLog.read"
    ANSWER = "session.permissions.handlePendingPermissionRequest"
    PERMIT = "session.permissions.configure"
    LIST_TASKS = "session.tasks.list"
    CANCEL_TASK = "session.tasks.cancel"
    SAVE = "sessions.save"
    CHECK_IN_USE = "sessions.checkInUse"


UNLISTED = frozenset({Ask.CREATE, Ask.RESUME, Ask.DETACH})
"""Requests that the program takes and its schema leaves out."""

EVENT = "session.event"
"""The one notification that means something to the plugin."""


class Told(StrEnum):
    """Events of a session that mean something to the plugin; all others are passed over."""

    USER_MESSAGE = "user.message"
    MESSAGE_DELTA = "assistant.message_delta"
    MESSAGE = "assistant.message"
    REASONING = "assistant.reasoning"
    REASONING_DELTA = "assistant.reasoning_delta"
    USAGE = "assistant.usage"
    TURN_START = "assistant.turn_start"
    TURN_END = "assistant.turn_end"
    TOOL_START = "tool.execution_start"
    TOOL_COMPLETE = "tool.execution_complete"
    SHELL_OUTPUT = "tool.shell_output"
    PERMISSION = "permission.requested"
    INFO = "session.info"
    WARNING = "session.warning"
    ERROR = "session.error"
    ABORT = "abort"
    COMPACTION = "session.compaction_complete"
    TRUNCATION = "session.truncation"
    RESUMED = "session.resume"
    IDLE = "session.idle"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a session. ``data`` is an empty object where the program sent none."""

    kind: str
    data: Mapping[str, Any]


def nonsense(problem: str) -> ProviderProtocolError:
    """Return the error for an answer that is not what the protocol says."""
    return ProviderProtocolError(provider=NAME, problem=problem)


def event_of(value: object) -> Event | None:
    """Return an event of the conversation itself; ``None``: it is none, or an agent of the agent's own said it."""
    kind, data = member(value, "type"), member(value, "data")
    if not isinstance(kind, str) or member(value, "agentId") is not None:
        return None
    return Event(kind, data if isinstance(data, Mapping) else {})


def version_of(answer: object) -> str:
    """Return the program's version from the answer to ``connect``.

    Raises:
        ProviderProtocolError: There is none in it.
        ProviderRefusedError: It speaks another version of the protocol.
    """
    version, protocol = identifier(member(answer, "version")), member(answer, "protocolVersion")
    if not version or version != member(answer, "version"):
        raise nonsense(f"no version in the answer to {Ask.CONNECT}: {text(version, 80)!r}")
    if protocol != PROTOCOL:
        detail = f"the program in the sandbox speaks protocol {str(protocol)[:40]}, not {PROTOCOL}"
        raise ProviderRefusedError(provider=NAME, request=Ask.CONNECT.value, detail=detail)
    return version


def session_of(answer: object) -> str:
    """Return the session's id from the answer to ``session.create`` or ``session.resume``, exactly as it was reported.

    Raises:
        ProviderProtocolError: There is none in it, or it could be nobody's id.
    """
    return reported_identity(member(answer, "sessionId"), provider=NAME)


def message_of(answer: object) -> str:
    """Return the id of the person's message from the answer to ``session.send``.

    Raises:
        ProviderProtocolError: There is none in it.
    """
    message = identifier(member(answer, "messageId"))
    if not message:
        raise nonsense("an answer without a message's id")
    return message


def in_use(answer: object, identity: str) -> bool:
    """Whether the answer to ``sessions.checkInUse`` names the session.

    Raises:
        ProviderProtocolError: It does not say.
    """
    named = member(answer, "inUse")
    if not isinstance(named, list):
        raise nonsense("an answer that does not say which sessions are in use")
    return identity in named


@dataclass(frozen=True, slots=True)
class Task:
    """A command that runs in the background. ``process`` is its number in the guest, where it is detached and has one."""

    id: str
    process: int | None


def running_tasks(answer: object) -> tuple[Task, ...]:
    """Return the commands that run in the background, from the answer to ``session.tasks.list``."""
    tasks = member(answer, "tasks")
    if not isinstance(tasks, list):
        return ()
    return tuple(Task(identifier(member(task, "id")), _process(task)) for task in tasks if member(task, "status") == "running")


def _process(task: object) -> int | None:
    pid = member(task, "pid")  # a fraction for a detached one
    known = member(task, "attachmentMode") == "detached" and isinstance(pid, int | float) and pid > 1
    return int(pid) if known and isinstance(pid, int | float) else None
