"""Why a turn failed, in words that stay the same whatever Copilot's sentences become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Failure(StrEnum):
    """The code of a failed turn's end mark."""

    UNAUTHORISED = "unauthorised"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    USAGE_LIMIT = "usage_limit"
    SERVER_ERROR = "server_error"
    UNREACHABLE = "unreachable"
    STREAM_CUT = "stream_cut"
    CONTEXT_FULL = "context_full"
    POLICY = "policy"
    HTTP = "http_error"
    OTHER = "other"


_NAMED: Mapping[str, Failure] = MappingProxyType(
    {
        "authentication": Failure.UNAUTHORISED,
        "authorization": Failure.UNAUTHORISED,
        "policy": Failure.POLICY,
        "quota": Failure.USAGE_LIMIT,
        "rate_limit": Failure.RATE_LIMITED,
        "context_limit": Failure.CONTEXT_FULL,
    }
)
_STATUS: Mapping[int, Failure] = MappingProxyType(
    {
        400: Failure.BAD_REQUEST,
        401: Failure.UNAUTHORISED,
        403: Failure.UNAUTHORISED,
        404: Failure.NOT_FOUND,
        429: Failure.RATE_LIMITED,
    }
)
# Copilot files these under "query" without a status; only its own sentence tells them apart. A changed one makes the label vaguer.
_SENTENCES: tuple[tuple[re.Pattern[str], Failure], ...] = (
    (re.compile(r"Could not connect to"), Failure.UNREACHABLE),
    (re.compile(r"unexpected EOF|error decoding response body|ended without a completed response"), Failure.STREAM_CUT),
)


def classify(error: Mapping[str, object]) -> Failure:
    """Return the code for the ``data`` of a ``session.error``; an unknown one is :attr:`Failure.OTHER`."""
    named = _NAMED.get(str(error.get("errorType", "")))
    if named is not None:
        return named
    status = error.get("statusCode")
    if isinstance(status, int) and status >= 400:
        return _STATUS.get(status, Failure.SERVER_ERROR if status >= 500 else Failure.HTTP)
    message = str(error.get("message", ""))
    return next((failure for pattern, failure in _SENTENCES if pattern.search(message)), Failure.OTHER)
