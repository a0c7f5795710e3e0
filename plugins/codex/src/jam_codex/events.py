"""Codex's notifications as Jam's typed events: one pure function, tested as a table.

Whatever does not have the expected shape becomes fewer events or emptier ones, never an exception: the end mark alone decides a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from jam_codex.failures import classify
from jam_codex.protocol import OUTCOMES, Told
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
    TurnStarted,
    UsageReported,
    Working,
    identifier,
    member,
    number,
    shown,
    text,
    whole,
)

Params = Mapping[str, Any]
Events = tuple[ProviderEvent, ...]

UNTOLD = frozenset({"collabAgentToolCall", "imageGeneration", "sleep"})
"""Items that take their time and have no event of their own."""
CALLS = frozenset({"mcpToolCall", "dynamicToolCall", "webSearch", *UNTOLD})
"""Items that run for as long as they like, each to its own end."""

_CHANGES: Mapping[str, Literal["add", "update", "delete"]] = {"add": "add", "update": "update", "delete": "delete"}


def translate(method: str, params: Params) -> Events:
    """Return the events that one notification stands for, in order; usually one or none."""
    reader = _READERS.get(method)
    return () if reader is None else reader(params)


def _delta(params: Params) -> Events:
    return (TextDelta(item=identifier(params.get("itemId")), text=text(params.get("delta"))),)


def _output(params: Params) -> Events:
    return (CommandOutput(item=identifier(params.get("itemId")), text=text(params.get("delta"))),)


def _thinks(_params: Params) -> Events:
    return (Working(),)


def _usage(params: Params) -> Events:
    total = member(params, "tokenUsage", "total")
    return (
        UsageReported(
            input_tokens=number(member(total, "inputTokens")),
            output_tokens=number(member(total, "outputTokens")),
            total_tokens=number(member(total, "totalTokens")),
        ),
    )


def _error(params: Params) -> Events:
    """Only a coming retry is news: the final error is in the turn's end mark."""
    if params.get("willRetry") is not True:
        return ()
    said = [text(member(params, "error", key)) for key in ("message", "additionalDetails")]
    return (Notice(level="warning", text=": ".join(part for part in said if part)),)


def _warning(params: Params) -> Events:
    return (Notice(level="warning", text=text(params.get("message"))),)


def _config_warning(params: Params) -> Events:
    said = [text(params.get(key)) for key in ("summary", "details")]
    return (Notice(level="warning", text=": ".join(part for part in said if part)),)


def _rerouted(params: Params) -> Events:
    models = identifier(params.get("fromModel")), identifier(params.get("toModel"))
    return (Notice(level="info", text="The endpoint answered with {1} instead of {0}.".format(*models)),)


def _completed(params: Params) -> Events:
    status, error = member(params, "turn", "status"), member(params, "turn", "error")
    outcome = OUTCOMES.get(status, TurnOutcome.FAILED) if isinstance(status, str) else TurnOutcome.FAILED
    if outcome is not TurnOutcome.FAILED:
        return (TurnEnded(outcome=outcome),)
    details = error if isinstance(error, Mapping) else None
    return (TurnEnded(outcome=outcome, code=classify(details), detail=text(member(details, "message"), SHOWN_TEXT)),)


def _item_started(params: Params) -> Events:
    item = params.get("item")
    if str(member(item, "type")) in CALLS:
        return (Working(item=identifier(member(item, "id"))),)
    if member(item, "type") != "commandExecution":
        return ()
    return (
        CommandStarted(item=identifier(member(item, "id")), command=text(member(item, "command")), cwd=text(member(item, "cwd"))),
    )


def _item_completed(params: Params) -> Events:
    item = params.get("item")
    if not isinstance(item, Mapping):
        return ()
    if item.get("type") == "userMessage":
        return (TurnStarted(provider_turn=identifier(params.get("turnId"))),)
    reader = _ITEMS.get(str(item.get("type")))
    return () if reader is None else reader(identifier(item.get("id")), item)


def _message(item: str, body: Params) -> Events:
    return (Message(item=item, text=text(body.get("text"))),)


def _reasoning(item: str, body: Params) -> Events:
    parts = body.get("summary") or body.get("content") or ()
    whole = "\n\n".join(text(part) for part in parts) if isinstance(parts, list) else ""
    return (Reasoning(item=item, text=text(whole)),) if whole else ()


def _command(item: str, body: Params) -> Events:
    return (
        CommandFinished(
            item=item,
            command=text(body.get("command")),
            output=text(body.get("aggregatedOutput")),
            exit_code=whole(body.get("exitCode")),
        ),
    )


def _file_change(item: str, body: Params) -> Events:
    changes = body.get("changes")
    if not isinstance(changes, list):
        return ()
    if body.get("status") != "completed":
        return (Notice(level="warning", text=f"A change of {len(changes)} file(s) was not made ({text(body.get('status'), 40)})."),)
    return tuple(_one_change(item, change) for change in changes)


def _one_change(item: str, change: object) -> FileChanged:
    kind = member(change, "kind", "type")
    return FileChanged(
        item=item,
        path=text(member(change, "path")),
        change=_CHANGES.get(kind, "update") if isinstance(kind, str) else "update",
        diff=text(member(change, "diff")),
    )


def _mcp_call(item: str, body: Params) -> Events:
    name = f"{identifier(body.get('server'))}/{identifier(body.get('tool'))}"
    result = body.get("error") or member(body.get("result"), "content")
    return (_call(item, name, body.get("arguments"), result, ok=body.get("status") == "completed"),)


def _dynamic_call(item: str, body: Params) -> Events:
    ok = body.get("success") is True
    return (_call(item, identifier(body.get("tool")), body.get("arguments"), body.get("contentItems"), ok=ok),)


def _search(item: str, body: Params) -> Events:
    return (_call(item, "web_search", {"query": body.get("query")}, body.get("results"), ok=True),)


def _image(item: str, body: Params) -> Events:
    return (_call(item, "view_image", {"path": body.get("path")}, None, ok=True),)


def _output_item(item: str, body: Params) -> Events:
    return (_call(item, identifier(body.get("name")), None, body.get("output"), ok=True),)


def _untold(item: str, _body: Params) -> Events:
    return (Working(item=item, over=True),)


def _compaction(_item: str, _body: Params) -> Events:
    return (Notice(level="info", text="Codex replaced the older part of the conversation by a summary."),)


def _call(item: str, name: str, arguments: object, result: object, *, ok: bool) -> ToolCall:
    return ToolCall(item=item, name=name, arguments=shown(arguments), result=shown(result), ok=ok)


_READERS: Mapping[str, Callable[[Params], Events]] = {
    Told.MESSAGE_DELTA: _delta,
    Told.OUTPUT_DELTA: _output,
    Told.REASONING_DELTA: _thinks,
    Told.SUMMARY_DELTA: _thinks,
    Told.USAGE: _usage,
    Told.ERROR: _error,
    Told.WARNING: _warning,
    Told.GUARDIAN_WARNING: _warning,
    Told.CONFIG_WARNING: _config_warning,
    Told.MODEL_REROUTED: _rerouted,
    Told.ITEM_STARTED: _item_started,
    Told.ITEM_COMPLETED: _item_completed,
    Told.TURN_COMPLETED: _completed,
}

_ITEMS: Mapping[str, Callable[[str, Params], Events]] = {
    "agentMessage": _message,
    "plan": _message,
    "reasoning": _reasoning,
    "commandExecution": _command,
    "fileChange": _file_change,
    "mcpToolCall": _mcp_call,
    "dynamicToolCall": _dynamic_call,
    "webSearch": _search,
    "imageView": _image,
    "functionCallOutput": _output_item,
    "contextCompaction": _compaction,
    **dict.fromkeys(UNTOLD, _untold),
}
