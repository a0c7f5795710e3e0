"""What a failing model endpoint does to a turn of the real Claude Code: a typed end with a stable code, and a thread that goes on."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from jamcore.api import TurnFailure
from jamcore.testing.providers.model_faults import ProviderModelFaults
from jamcore.testing.servers.faults import CutFault, DownFault, FailedFault, GarbageFault, HttpFault

pytestmark = [pytest.mark.needs("claude_code")]


class TestModelFaults(ProviderModelFaults):
    """Claude Code's. Of a bad request it tries other forms."""

    ended = MappingProxyType(
        {
            "400": (HttpFault(status=400), TurnFailure.BAD_REQUEST),
            "401": (HttpFault(status=401), TurnFailure.UNAUTHORISED),
            "403": (HttpFault(status=403), TurnFailure.UNAUTHORISED),
            "404": (HttpFault(status=404), TurnFailure.NOT_FOUND),
            "413": (HttpFault(status=413), TurnFailure.BAD_REQUEST),
            "418": (HttpFault(status=418), TurnFailure.HTTP),
            "429": (HttpFault(status=429), TurnFailure.RATE_LIMITED),
            "500": (HttpFault(status=500), TurnFailure.SERVER_ERROR),
            "529": (HttpFault(status=529), TurnFailure.OVERLOADED),
            "down": (DownFault(), TurnFailure.STREAM_CUT),
            "cut stream": (CutFault(after_deltas=1), TurnFailure.STREAM_CUT),
            "garbage": (GarbageFault(form="bytes"), TurnFailure.STREAM_CUT),
            "broken event": (GarbageFault(form="json"), TurnFailure.STREAM_CUT),
            "overloaded in the stream": (FailedFault(code="overloaded_error"), TurnFailure.SERVER_ERROR),
            "too long": (
                HttpFault(status=400, message="prompt is too long: 250000 tokens > 200000 maximum"),
                TurnFailure.CONTEXT_FULL,
            ),
            "no credit": (
                HttpFault(status=400, message="Your credit balance is too low to access the Anthropic API"),
                TurnFailure.USAGE_LIMIT,
            ),
        }
    )
    retry = "tries again"
    unreachable = TurnFailure.UNREACHABLE
