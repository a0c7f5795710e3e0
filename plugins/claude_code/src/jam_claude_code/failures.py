"""Why a turn failed, in words that stay the same whatever Claude Code's sentences become."""

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
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    UNREACHABLE = "unreachable"
    STREAM_CUT = "stream_cut"
    STREAM_SILENT = "stream_silent"
    CONTEXT_FULL = "context_full"
    POLICY = "policy"
    HTTP = "http_error"
    OTHER = "other"


_REASONS: Mapping[object, Failure] = MappingProxyType(
    {"prompt_too_long": Failure.CONTEXT_FULL, "image_error": Failure.BAD_REQUEST, "blocking_limit": Failure.CONTEXT_FULL}
)
"""What the end mark gives as the reason why the turn ended."""

_KINDS: Mapping[object, Failure] = MappingProxyType({"billing_error": Failure.USAGE_LIMIT, "refusal": Failure.POLICY})
"""What the last words of the turn are marked with, where that says more than the status."""

_STATUS: Mapping[int, Failure] = MappingProxyType(
    {
        400: Failure.BAD_REQUEST,
        401: Failure.UNAUTHORISED,
        402: Failure.USAGE_LIMIT,
        403: Failure.UNAUTHORISED,
        404: Failure.NOT_FOUND,
        413: Failure.BAD_REQUEST,
        429: Failure.RATE_LIMITED,
        529: Failure.OVERLOADED,
    }
)

# Without a status only Claude Code's own sentence tells them apart. A changed sentence makes the label vaguer, nothing else.
_SENTENCES: tuple[tuple[re.Pattern[str], Failure], ...] = (
    (re.compile(r"ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH"), Failure.UNREACHABLE),
    (re.compile(r"timed out|no data|idle", re.IGNORECASE), Failure.STREAM_SILENT),
    (re.compile(r"ECONNRESET|connection (was lost|dropped)|malformed response|EPIPE", re.IGNORECASE), Failure.STREAM_CUT),
    (re.compile(r"not logged in|/login", re.IGNORECASE), Failure.UNAUTHORISED),
)


def classify(*, reason: object, status: object, kind: object, words: str) -> Failure:
    """Return the code for a failed turn; what is unknown is :attr:`Failure.OTHER`.

    Args:
        reason: The end mark's ``terminal_reason``.
        status: The end mark's ``api_error_status``.
        kind: What the failure's own message is marked with.
        words: The end mark's words for people.
    """
    for known, value in ((_REASONS, reason), (_KINDS, kind)):
        if isinstance(value, str) and value in known:
            return known[value]
    if isinstance(status, int) and not isinstance(status, bool):
        if status in _STATUS:
            return _STATUS[status]
        return Failure.SERVER_ERROR if status >= 500 else Failure.HTTP
    return next((failure for pattern, failure in _SENTENCES if pattern.search(words)), Failure.OTHER)
