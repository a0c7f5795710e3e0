"""Why a turn failed, in words that stay the same whichever provider ran it and whatever its sentences become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType


class TurnFailure(StrEnum):
    """The code of a failed turn's end mark. A provider that cannot tell two of them apart uses the vaguer one."""

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
    LENGTH_LIMIT = "length_limit"
    REQUEST_LIMIT = "request_limit"
    POLICY = "policy"
    HTTP = "http_error"
    OTHER = "other"


_STATUS: Mapping[int, TurnFailure] = MappingProxyType(
    {
        400: TurnFailure.BAD_REQUEST,
        401: TurnFailure.UNAUTHORISED,
        402: TurnFailure.USAGE_LIMIT,
        403: TurnFailure.UNAUTHORISED,
        404: TurnFailure.NOT_FOUND,
        413: TurnFailure.BAD_REQUEST,
        429: TurnFailure.RATE_LIMITED,
        529: TurnFailure.OVERLOADED,
    }
)

Sentences = Iterable[tuple[re.Pattern[str], TurnFailure]]
"""A provider's own sentences, for what it tells apart in no other way. A changed sentence makes the code vaguer, nothing else."""


def failure_of_status(status: int) -> TurnFailure:
    """Return the code for a status with which a model endpoint refused."""
    return _STATUS.get(status, TurnFailure.SERVER_ERROR if status >= 500 else TurnFailure.HTTP)


def failure_of_words(words: str, sentences: Sentences) -> TurnFailure:
    """Return the code of the first sentence that is found in ``words``."""
    return next((failure for pattern, failure in sentences if pattern.search(words)), TurnFailure.OTHER)
