"""What a failing model endpoint does to a turn of the real Codex: a typed end with a stable code, and a thread that goes on."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from jamcore.api import TurnFailure
from jamcore.testing.providers.model_faults import ProviderModelFaults
from jamcore.testing.servers.faults import CutFault, FailedFault, GarbageFault, HttpFault

pytestmark = [pytest.mark.needs("codex")]


class TestModelFaults(ProviderModelFaults):
    """Codex's."""

    ended = MappingProxyType(
        {
            "400": (HttpFault(status=400), TurnFailure.BAD_REQUEST),
            "401": (HttpFault(status=401), TurnFailure.UNAUTHORISED),
            "404": (HttpFault(status=404), TurnFailure.NOT_FOUND),
            "429": (HttpFault(status=429), TurnFailure.RATE_LIMITED),
            "500": (HttpFault(status=500), TurnFailure.SERVER_ERROR),
            "503": (HttpFault(status=503), TurnFailure.SERVER_ERROR),
            "cut stream": (CutFault(after_deltas=1), TurnFailure.STREAM_CUT),
            "garbage": (GarbageFault(form="bytes"), TurnFailure.STREAM_CUT),
            "context_length_exceeded": (FailedFault(code="context_length_exceeded"), TurnFailure.CONTEXT_FULL),
            "insufficient_quota": (FailedFault(code="insufficient_quota"), TurnFailure.USAGE_LIMIT),
            "rate_limit_exceeded": (FailedFault(code="rate_limit_exceeded"), TurnFailure.RATE_LIMITED),
            "server_is_overloaded": (FailedFault(code="server_is_overloaded"), TurnFailure.OVERLOADED),
            "cyber_policy": (FailedFault(code="cyber_policy"), TurnFailure.POLICY),
        }
    )
    most_requests = 16  # (request retries + 1) x (stream retries + 1)
    retry = "Reconnecting"
    unreachable = TurnFailure.UNREACHABLE
