"""Why a turn failed, in words that stay the same whatever an agent's sentences become."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from jam_acp.profile import Profile
from jamcore.api import RemoteError, TurnEnded, TurnOutcome, member, text

AUTH_REQUIRED = -32000
INVALID_PARAMS = -32602


class Failure(StrEnum):
    """The code of a failed turn's end mark."""

    UNAUTHORISED = "unauthorised"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    CONTEXT_FULL = "context_full"
    LENGTH_LIMIT = "length_limit"
    REQUEST_LIMIT = "request_limit"
    POLICY = "policy"
    HTTP = "http_error"
    OTHER = "other"


_STOPS: Mapping[str, Failure] = {
    "max_tokens": Failure.LENGTH_LIMIT,
    "max_turn_requests": Failure.REQUEST_LIMIT,
    "refusal": Failure.POLICY,
}
_NUMBERS: Mapping[int, Failure] = {AUTH_REQUIRED: Failure.UNAUTHORISED, INVALID_PARAMS: Failure.BAD_REQUEST}
_NAMED: Mapping[str, Failure] = {
    "APIError": Failure.HTTP,
    "ContextOverflowError": Failure.CONTEXT_FULL,
    "ProviderAuthError": Failure.UNAUTHORISED,
}
"""Names that agents give their errors in ``data.errorName``; the protocol itself has none."""


def ended_with(reason: object) -> TurnEnded:
    """Return the end mark for an answer's ``stopReason``; one that is not known is no success."""
    if reason == "end_turn":
        return TurnEnded(outcome=TurnOutcome.COMPLETED)
    if reason == "cancelled":
        return TurnEnded(outcome=TurnOutcome.INTERRUPTED)
    code = _STOPS.get(reason, Failure.OTHER) if isinstance(reason, str) else Failure.OTHER
    return TurnEnded(outcome=TurnOutcome.FAILED, code=code, detail=f"the agent stopped with {text(reason, 80) or 'no reason'!r}")


def failed_with(error: RemoteError, profile: Profile) -> TurnEnded:
    """Return the end mark for a prompt that was answered with an error."""
    return TurnEnded(outcome=TurnOutcome.FAILED, code=classify(error, profile), detail=details(error))


def classify(error: RemoteError, profile: Profile) -> Failure:
    """Return the code for an error; an unknown one is :attr:`Failure.OTHER`."""
    if is_unknown_session(error, profile):
        return Failure.NOT_FOUND
    name = member(error.data, "errorName")
    if isinstance(name, str) and name in _NAMED:
        return _NAMED[name]
    return _NUMBERS.get(error.number, Failure.OTHER)


def is_unknown_session(error: RemoteError, profile: Profile) -> bool:
    """Whether an error is one of the agent's ways to say that it does not know the session.

    An error that has a name of its own is about something else, whatever its code.
    """
    if member(error.data, "errorName") is not None:
        return False
    said = details(error)
    return any(
        error.number == form.code and form.words in said and all(member(error.data, name) == value for name, value in form.data)
        for form in profile.unknown_session
    )


def details(error: RemoteError) -> str:
    """Return an error's words, with those that some agents put into its data."""
    more = text(member(error.data, "details"), 2_000)
    return f"{error.message}: {more}" if more and more not in error.message else error.message
