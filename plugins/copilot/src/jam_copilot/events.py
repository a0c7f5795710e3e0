"""Copilot's events of one session as Jam's typed events, tested as a table.

Whatever does not have the expected shape becomes fewer events or emptier ones, never an exception: the end mark alone decides a turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from jam_copilot.failures import classify
from jam_copilot.protocol import Event, Told
from jamcore.api import (
    SHOWN_TEXT,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    Reasoning,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    UsageReported,
    Working,
    identifier,
    member,
    number,
    shown,
    text,
    whole,
)

Data = Mapping[str, Any]
Events = tuple[ProviderEvent, ...]

OPEN_CALLS = 1_024
"""Calls of tools that are remembered until they end."""
SHELL = "bash"
FILE_TOOLS = frozenset({"create", "edit", "apply_patch"})
RETRY = "model_retry"
"""The one kind of information that is news to a person."""

_CHANGES: Mapping[str, Literal["add", "update", "delete"]] = MappingProxyType(
    {"create": "add", "edit": "update", "delete": "delete"}
)
_EXIT_MARK = re.compile(r"<shellId: [^<>\n]{1,40} completed with exit code -?\d+>\s*\Z")
"""What Copilot writes below a command's output for the model."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool that runs."""

    name: str
    arguments: object


class Translator:
    """The events of one session, in order. It remembers the calls that run, and what was used, and the error that ends a turn."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._calls: dict[str, _Call] = {}
        self._input, self._output = 0, 0
        self._error: Data | None = None
        self._readers: Mapping[str, Callable[[Data], Events]] = {
            Told.MESSAGE_DELTA: _delta,
            Told.MESSAGE: _message,
            Told.REASONING: _reasoning,
            Told.REASONING_DELTA: _thinks,
            Told.USAGE: self._usage,
            Told.TOOL_START: self._tool_started,
            Told.TOOL_COMPLETE: self._tool_completed,
            Told.SHELL_OUTPUT: _shell_output,
            Told.INFO: _info,
            Told.WARNING: _warning,
            Told.COMPACTION: _compaction,
            Told.TRUNCATION: _truncation,
            Told.ERROR: self._fail,
            Told.IDLE: self._idle,
        }

    @property
    def failed(self) -> bool:
        """Whether an error came of which the end is still to come."""
        return self._error is not None

    @property
    def detaches(self) -> bool:
        """Whether a command is being started that will be on its own."""
        return any(call.name == SHELL and member(call.arguments, "detach") is True for call in self._calls.values())

    def translate(self, event: Event) -> Events:
        """Return the events that one of Copilot's stands for, in order; usually one or none. The last of a turn is ``TurnEnded``."""
        reader = self._readers.get(event.kind)
        return () if reader is None else reader(event.data)

    def _usage(self, data: Data) -> Events:
        self._input += number(data.get("inputTokens"))
        self._output += number(data.get("outputTokens"))
        return (UsageReported(input_tokens=self._input, output_tokens=self._output, total_tokens=self._input + self._output),)

    def _tool_started(self, data: Data) -> Events:
        item, call = identifier(data.get("toolCallId")), _Call(identifier(data.get("toolName")), data.get("arguments"))
        while len(self._calls) >= OPEN_CALLS:
            del self._calls[next(iter(self._calls))]
        self._calls[item] = call
        if call.name != SHELL:
            return (Working(item=item),)
        return (CommandStarted(item=item, command=_command(call), cwd=self._cwd),)

    def _tool_completed(self, data: Data) -> Events:
        item = identifier(data.get("toolCallId"))
        call = self._calls.pop(item, _Call("", None))
        ok = data.get("success") is True
        said = text(member(data, "result", "content") if ok else member(data, "error", "message"))
        if call.name == SHELL:
            code = whole(member(data, "shellExecution", "exitCode"))
            return (CommandFinished(item=item, command=_command(call), output=_EXIT_MARK.sub("", said), exit_code=code),)
        edits = data.get("fileEdits")
        if ok and isinstance(edits, list) and edits:
            diff = text(member(data, "result", "detailedContent"))
            return tuple(_change(item, edit, diff if place == 0 else "") for place, edit in enumerate(edits))
        if not ok and call.name in FILE_TOOLS:
            return (Notice(level="warning", text=f"A change of files was not made: {said}"), Working(item=item, over=True))
        return (ToolCall(item=item, name=call.name, arguments=shown(call.arguments), result=shown(said), ok=ok),)

    def _fail(self, data: Data) -> Events:
        self._error = data
        return ()

    def _idle(self, data: Data) -> Events:
        """End the turn, and before it the commands of which Copilot says no more when it is interrupted."""
        error, self._error = self._error, None
        open_commands = [(item, call) for item, call in self._calls.items() if call.name == SHELL]
        self._calls.clear()
        ended = tuple(CommandFinished(item=item, command=_command(call), output="", exit_code=None) for item, call in open_commands)
        if data.get("aborted") is True:
            return (*ended, TurnEnded(outcome=TurnOutcome.INTERRUPTED))
        if error is not None:
            detail = text(error.get("message"), SHOWN_TEXT)
            return (*ended, TurnEnded(outcome=TurnOutcome.FAILED, code=classify(error), detail=detail))
        return (*ended, TurnEnded(outcome=TurnOutcome.COMPLETED))


def _delta(data: Data) -> Events:
    return (TextDelta(item=identifier(data.get("messageId")), text=text(data.get("deltaContent"))),)


def _message(data: Data) -> Events:
    said = text(data.get("content"))
    return (Message(item=identifier(data.get("messageId")), text=said),) if said else ()


def _reasoning(data: Data) -> Events:
    thought = text(data.get("content"))
    return (Reasoning(item=identifier(data.get("reasoningId")), text=thought),) if thought else ()


def _thinks(_data: Data) -> Events:
    return (Working(),)


def _shell_output(data: Data) -> Events:
    return (CommandOutput(item=identifier(data.get("toolCallId")), text=text(data.get("text"))),)


def _info(data: Data) -> Events:
    return (Notice(level="warning", text=text(data.get("message"))),) if data.get("infoType") == RETRY else ()


def _warning(data: Data) -> Events:
    return (Notice(level="warning", text=text(data.get("message"))),)


def _compaction(data: Data) -> Events:
    if data.get("success") is not True:
        return ()
    return (Notice(level="info", text="Copilot replaced the older part of the conversation by a summary."),)


def _truncation(_data: Data) -> Events:
    return (Notice(level="warning", text="Copilot left the oldest part of the conversation out of what the model is told."),)


def _change(item: str, edit: object, diff: str) -> FileChanged:
    kind = member(edit, "kind")
    change = _CHANGES.get(kind, "update") if isinstance(kind, str) else "update"
    return FileChanged(item=item, path=text(member(edit, "path")), change=change, diff=diff)


def _command(call: _Call) -> str:
    return text(member(call.arguments, "command"))
