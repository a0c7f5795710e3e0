"""What the program tells, as Jam's events. All of it is read tolerantly and bounded: a program in a guest is not believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jamcore.api import (
    ApprovalRequested,
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    TextDelta,
    TurnEnded,
    TurnFailure,
    TurnOutcome,
    TurnStarted,
    UsageReported,
    failure_of_status,
    identifier,
    number,
    text,
    whole,
)

Params = Mapping[str, Any]


def translate(method: str, params: Params) -> ProviderEvent | None:
    """Return the event, or `None` for what means nothing to Jam: a newer program may tell more."""
    reader = _READERS.get(method)
    return None if reader is None else reader(params)


def question(params: Params) -> ApprovalRequested:
    """Return what the program asks before it acts. What Jam does not know by name is "other", which no rule of a person covers."""
    subject = params.get("subject")
    return ApprovalRequested(
        item=identifier(params.get("item")),
        subject="command" if subject == "command" else "file-change" if subject == "file-change" else "other",
        detail=text(params.get("detail")),
        preview=text(params.get("preview")),
    )


def outcome_of(value: object) -> TurnOutcome:
    """Return how a turn ended; what is none of the outcomes is a failure."""
    return next((outcome for outcome in TurnOutcome if outcome == value), TurnOutcome.FAILED)


def _ended(params: Params) -> TurnEnded:
    outcome = outcome_of(params.get("outcome"))
    if outcome is not TurnOutcome.FAILED:
        return TurnEnded(outcome=outcome)
    detail = text(params.get("detail"), 2000) or "no reason given"
    return TurnEnded(outcome=outcome, code=_failure(params), detail=detail)


def _failure(params: Params) -> TurnFailure:
    """Return the stable code of a failure. It rests on what the program says by kind, never on a sentence."""
    if status := number(params.get("status")):
        return failure_of_status(status)
    return _KINDS.get(str(params.get("why")), TurnFailure.OTHER)


_KINDS: Mapping[str, TurnFailure] = {
    "unreachable": TurnFailure.UNREACHABLE,
    "cut": TurnFailure.STREAM_CUT,
    "silent": TurnFailure.STREAM_SILENT,
}


def _command_finished(params: Params) -> CommandFinished:
    return CommandFinished(
        item=identifier(params.get("item")),
        command=text(params.get("command")),
        output=text(params.get("output")),
        exit_code=whole(params.get("exit_code")),
    )


def _file_changed(params: Params) -> FileChanged:
    return FileChanged(
        item=identifier(params.get("item")),
        path=text(params.get("path"), 4096),
        change="add" if params.get("change") == "add" else "update",
        diff=text(params.get("diff")),
    )


def _usage(params: Params) -> UsageReported:
    spent, answered = number(params.get("input_tokens")), number(params.get("output_tokens"))
    return UsageReported(input_tokens=spent, output_tokens=answered, total_tokens=spent + answered)


_READERS: Mapping[str, Callable[[Params], ProviderEvent]] = {
    "turn/started": lambda params: TurnStarted(provider_turn=identifier(params.get("turn"))),
    "delta": lambda params: TextDelta(item=identifier(params.get("item")), text=text(params.get("text"))),
    "message": lambda params: Message(item=identifier(params.get("item")), text=text(params.get("text"))),
    "command/started": lambda params: CommandStarted(
        item=identifier(params.get("item")),
        command=text(params.get("command")),
        cwd=text(params.get("cwd"), 4096),
    ),
    "command/finished": _command_finished,
    "file/changed": _file_changed,
    "usage": _usage,
    "notice": lambda params: Notice(level="warning", text=text(params.get("text"), 2000)),
    "turn/ended": _ended,
}
