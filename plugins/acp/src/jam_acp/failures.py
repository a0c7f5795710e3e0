"""Why a turn failed, in words that stay the same whatever an agent's sentences become."""

from __future__ import annotations

from collections.abc import Mapping

from jam_acp.profile import Profile
from jamcore.api import RemoteError, TurnEnded, TurnFailure, TurnOutcome, member, text

AUTH_REQUIRED = -32000
INVALID_PARAMS = -32602

_STOPS: Mapping[str, TurnFailure] = {
    "max_tokens": TurnFailure.LENGTH_LIMIT,
    "max_turn_requests": TurnFailure.REQUEST_LIMIT,
    "refusal": TurnFailure.POLICY,
}
_NUMBERS: Mapping[int, TurnFailure] = {AUTH_REQUIRED: TurnFailure.UNAUTHORISED, INVALID_PARAMS: TurnFailure.BAD_REQUEST}
_NAMED: Mapping[str, TurnFailure] = {
    "APIError": TurnFailure.HTTP,
    "ContextOverflowError": TurnFailure.CONTEXT_FULL,
    "ProviderAuthError": TurnFailure.UNAUTHORISED,
}
"""Names that agents give their errors in ``data.errorName``; the protocol itself has none."""


def ended_with(reason: object) -> TurnEnded:
    """Return the end mark for an answer's ``stopReason``; one that is not known is no success."""
    if reason == "end_turn":
        return TurnEnded(outcome=TurnOutcome.COMPLETED)
    if reason == "cancelled":
        return TurnEnded(outcome=TurnOutcome.INTERRUPTED)
    code = _STOPS.get(reason, TurnFailure.OTHER) if isinstance(reason, str) else TurnFailure.OTHER
    return TurnEnded(outcome=TurnOutcome.FAILED, code=code, detail=f"the agent stopped with {text(reason, 80) or 'no reason'!r}")


def failed_with(error: RemoteError, profile: Profile) -> TurnEnded:
    """Return the end mark for a prompt that was answered with an error."""
    return TurnEnded(outcome=TurnOutcome.FAILED, code=classify(error, profile), detail=details(error))


def classify(error: RemoteError, profile: Profile) -> TurnFailure:
    """Return the code for an error; an unknown one is :attr:`TurnFailure.OTHER`."""
    if is_unknown_session(error, profile):
        return TurnFailure.NOT_FOUND
    name = member(error.data, "errorName")
    if isinstance(name, str) and name in _NAMED:
        return _NAMED[name]
    return _NUMBERS.get(error.number, TurnFailure.OTHER)


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
