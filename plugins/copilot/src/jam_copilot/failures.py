"""Why a turn failed, in words that stay the same whatever Copilot's sentences become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from jamcore.api import TurnFailure, failure_of_status, failure_of_words, number, text

_NAMED: Mapping[str, TurnFailure] = MappingProxyType(
    {
        "authentication": TurnFailure.UNAUTHORISED,
        "authorization": TurnFailure.UNAUTHORISED,
        "policy": TurnFailure.POLICY,
        "quota": TurnFailure.USAGE_LIMIT,
        "rate_limit": TurnFailure.RATE_LIMITED,
        "context_limit": TurnFailure.CONTEXT_FULL,
    }
)
# Copilot files these under "query" without a status; only its own sentence tells them apart. A changed one makes the label vaguer.
_SENTENCES: tuple[tuple[re.Pattern[str], TurnFailure], ...] = (
    (re.compile(r"Could not connect to"), TurnFailure.UNREACHABLE),
    (re.compile(r"unexpected EOF|error decoding response body|ended without a completed response"), TurnFailure.STREAM_CUT),
)


def classify(error: Mapping[str, object]) -> TurnFailure:
    """Return the code for the ``data`` of a ``session.error``; an unknown one is :attr:`TurnFailure.OTHER`."""
    named = _NAMED.get(str(error.get("errorType", "")))
    if named is not None:
        return named
    status = number(error.get("statusCode"))
    if status >= 400:
        return failure_of_status(status)
    return failure_of_words(text(error.get("message")), _SENTENCES)
