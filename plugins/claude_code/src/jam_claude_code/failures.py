"""Why a turn failed, in words that stay the same whatever Claude Code's sentences become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from jamcore.api import TurnFailure, failure_of_status, failure_of_words, number

_REASONS: Mapping[object, TurnFailure] = MappingProxyType(
    {
        "prompt_too_long": TurnFailure.CONTEXT_FULL,
        "image_error": TurnFailure.BAD_REQUEST,
        "blocking_limit": TurnFailure.CONTEXT_FULL,
    }
)
"""What the end mark gives as the reason why the turn ended."""

_KINDS: Mapping[object, TurnFailure] = MappingProxyType({"billing_error": TurnFailure.USAGE_LIMIT, "refusal": TurnFailure.POLICY})
"""What the last words of the turn are marked with, where that says more than the status."""

# Without a status only Claude Code's own sentence tells them apart. A changed sentence makes the label vaguer, nothing else.
_SENTENCES: tuple[tuple[re.Pattern[str], TurnFailure], ...] = (
    (re.compile(r"ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH"), TurnFailure.UNREACHABLE),
    (re.compile(r"timed out|no data|idle", re.IGNORECASE), TurnFailure.STREAM_SILENT),
    (re.compile(r"ECONNRESET|connection (was lost|dropped)|malformed response|EPIPE", re.IGNORECASE), TurnFailure.STREAM_CUT),
    (re.compile(r"not logged in|/login", re.IGNORECASE), TurnFailure.UNAUTHORISED),
)


def classify(*, reason: object, status: object, kind: object, words: str) -> TurnFailure:
    """Return the code for a failed turn; what is unknown is :attr:`TurnFailure.OTHER`.

    Args:
        reason: The end mark's ``terminal_reason``.
        status: The end mark's ``api_error_status``.
        kind: What the failure's own message is marked with.
        words: The end mark's words for people.
    """
    for known, value in ((_REASONS, reason), (_KINDS, kind)):
        if isinstance(value, str) and value in known:
            return known[value]
    return failure_of_status(number(status)) if number(status) else failure_of_words(words, _SENTENCES)
