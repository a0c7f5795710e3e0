"""What came of the last request to a model endpoint, for whoever has to say why a turn got nowhere."""

from __future__ import annotations

from jamcore.domain.plan import ModelEndpoint
from jamcore.egress.decisions import RelayDecision, log_decision

FAILED = 400
"""From this status on an answer is a refusal or a failure."""


class LastAnswer:
    """One host's: told of every request of its relay when it is over, each of which goes to the log too."""

    def __init__(self, endpoint: ModelEndpoint | None) -> None:
        self._endpoint = endpoint
        self._last: RelayDecision | None = None

    def note(self, decision: RelayDecision) -> None:
        """Take note of a request that is over."""
        self._last = decision
        log_decision(decision)

    def said(self) -> str:
        """Return which endpoint is asked, and what it did last where that was no answer; a sentence without its end, or nothing."""
        if self._endpoint is None:
            return ""
        where, last = f"The model endpoint is {self._endpoint.origin}", self._last
        if last is None:
            return f"{where}, which has answered nothing yet"
        if last.refused is not None:
            return f"{where}; the last request to it ended with {last.refused.value}"
        return f"{where}, which answered {last.status} last" if last.status >= FAILED else where
