"""Why a turn failed, in words that stay the same whatever Codex's sentences become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

_UNAUTHORISED = frozenset({401, 403})


class Failure(StrEnum):
    """The code of a failed turn's end mark."""

    UNAUTHORISED = "unauthorised"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    USAGE_LIMIT = "usage_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    UNREACHABLE = "unreachable"
    STREAM_CUT = "stream_cut"
    STREAM_SILENT = "stream_silent"
    CONTEXT_FULL = "context_full"
    POLICY = "policy"
    HTTP = "http_error"
    OTHER = "other"


_NAMED: Mapping[str, Failure] = {
    "contextWindowExceeded": Failure.CONTEXT_FULL,
    "sessionBudgetExceeded": Failure.USAGE_LIMIT,
    "usageLimitExceeded": Failure.USAGE_LIMIT,
    "rateLimitExceeded": Failure.RATE_LIMITED,
    "flexUnavailable": Failure.OVERLOADED,
    "serverOverloaded": Failure.OVERLOADED,
    "cyberPolicy": Failure.POLICY,
    "misalignmentPolicyViolation": Failure.POLICY,
    "tooManyDenials": Failure.POLICY,
    "internalServerError": Failure.SERVER_ERROR,
    "unauthorized": Failure.UNAUTHORISED,
    "badRequest": Failure.BAD_REQUEST,
}

_WITH_STATUS = frozenset({"httpConnectionFailed", "responseStreamConnectionFailed", "responseTooManyFailedAttempts"})

# Codex files these under "other"; only its own sentence tells them apart. A changed sentence makes the label vaguer, nothing else.
_SENTENCES: tuple[tuple[re.Pattern[str], Failure], ...] = (
    (re.compile(r"idle timeout waiting for SSE"), Failure.STREAM_SILENT),
    (re.compile(r"stream disconnected before completion|stream closed before"), Failure.STREAM_CUT),
    (re.compile(r'\s*\{"error"'), Failure.BAD_REQUEST),
)


def classify(error: Mapping[str, object] | None) -> Failure:
    """Return the code for a turn's ``error`` object; an unknown one is :attr:`Failure.OTHER`."""
    if error is None:
        return Failure.OTHER
    info = error.get("codexErrorInfo")
    if isinstance(info, str) and info in _NAMED:
        return _NAMED[info]
    if isinstance(info, Mapping) and len(info) == 1:
        return _from_variant(*next(iter(info.items())))
    message = str(error.get("message", ""))
    return next((failure for pattern, failure in _SENTENCES if pattern.match(message) or pattern.search(message)), Failure.OTHER)


def _from_variant(name: object, details: object) -> Failure:
    if name == "responseStreamDisconnected":
        return Failure.STREAM_CUT
    if name not in _WITH_STATUS or not isinstance(details, Mapping):
        return Failure.OTHER
    status = details.get("httpStatusCode")
    return _from_status(status if isinstance(status, int) else None)


def _from_status(status: int | None) -> Failure:
    match status:
        case None:
            return Failure.UNREACHABLE
        case 404:
            return Failure.NOT_FOUND
        case 429:
            return Failure.RATE_LIMITED
        case _ if status in _UNAUTHORISED:
            return Failure.UNAUTHORISED
        case _ if status >= 500:
            return Failure.SERVER_ERROR
        case _:
            return Failure.HTTP
