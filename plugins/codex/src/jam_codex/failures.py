"""Why a turn failed, in words that stay the same whatever Codex's sentences become."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jamcore.api import TurnFailure, failure_of_status, failure_of_words, number, text

_NAMED: Mapping[str, TurnFailure] = {
    "contextWindowExceeded": TurnFailure.CONTEXT_FULL,
    "sessionBudgetExceeded": TurnFailure.USAGE_LIMIT,
    "usageLimitExceeded": TurnFailure.USAGE_LIMIT,
    "rateLimitExceeded": TurnFailure.RATE_LIMITED,
    "flexUnavailable": TurnFailure.OVERLOADED,
    "serverOverloaded": TurnFailure.OVERLOADED,
    "cyberPolicy": TurnFailure.POLICY,
    "misalignmentPolicyViolation": TurnFailure.POLICY,
    "tooManyDenials": TurnFailure.POLICY,
    "internalServerError": TurnFailure.SERVER_ERROR,
    "unauthorized": TurnFailure.UNAUTHORISED,
    "badRequest": TurnFailure.BAD_REQUEST,
}

_WITH_STATUS = frozenset({"httpConnectionFailed", "responseStreamConnectionFailed", "responseTooManyFailedAttempts"})

# Codex files these under "other"; only its own sentence tells them apart. A changed sentence makes the label vaguer, nothing else.
_SENTENCES: tuple[tuple[re.Pattern[str], TurnFailure], ...] = (
    (re.compile(r"idle timeout waiting for SSE"), TurnFailure.STREAM_SILENT),
    (re.compile(r"stream disconnected before completion|stream closed before"), TurnFailure.STREAM_CUT),
    (re.compile(r'\s*\{"error"'), TurnFailure.BAD_REQUEST),
)


def classify(error: Mapping[str, object] | None) -> TurnFailure:
    """Return the code for a turn's ``error`` object; an unknown one is :attr:`TurnFailure.OTHER`."""
    if error is None:
        return TurnFailure.OTHER
    info = error.get("codexErrorInfo")
    if isinstance(info, str) and info in _NAMED:
        return _NAMED[info]
    if isinstance(info, Mapping) and len(info) == 1:
        return _from_variant(*next(iter(info.items())))
    return failure_of_words(text(error.get("message")), _SENTENCES)


def _from_variant(name: object, details: object) -> TurnFailure:
    if name == "responseStreamDisconnected":
        return TurnFailure.STREAM_CUT
    if name not in _WITH_STATUS or not isinstance(details, Mapping):
        return TurnFailure.OTHER
    status = number(details.get("httpStatusCode"))
    return failure_of_status(status) if status else TurnFailure.UNREACHABLE
