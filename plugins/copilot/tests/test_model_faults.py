"""What a failing model endpoint does to a turn of the real Copilot: a typed end with a stable code, and a thread that goes on."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from jamcore.api import Notice, ProviderEvent, ProviderIdentity, TurnFailure, TurnOutcome
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.model_faults import ProviderModelFaults
from jamcore.testing.servers.faults import CutFault, DownFault, FailedFault, GarbageFault, HttpFault
from jamcore.testing.servers.server import ModelServer

pytestmark = [pytest.mark.needs("copilot")]


class TestModelFaults(ProviderModelFaults):
    """Copilot's. Its retries cannot be bounded."""

    ended = MappingProxyType(
        {
            "400": (HttpFault(status=400), TurnFailure.BAD_REQUEST),
            "401": (HttpFault(status=401), TurnFailure.UNAUTHORISED),
            "403": (HttpFault(status=403), TurnFailure.UNAUTHORISED),
            "404": (HttpFault(status=404), TurnFailure.NOT_FOUND),
            "cut stream": (CutFault(after_deltas=1), TurnFailure.STREAM_CUT),
            "garbage": (GarbageFault(form="bytes"), TurnFailure.STREAM_CUT),
        }
    )
    ended_late = MappingProxyType(
        {
            "429": (HttpFault(status=429), TurnFailure.RATE_LIMITED),
            "500": (HttpFault(status=500), TurnFailure.SERVER_ERROR),
            "503": (HttpFault(status=503), TurnFailure.SERVER_ERROR),
            "a failure of the API's own": (FailedFault(code="server_is_overloaded"), TurnFailure.OTHER),
        }
    )
    passing = MappingProxyType({"cut stream": CutFault(after_deltas=1), "down": DownFault()})
    most_requests = 6
    retry = "Retrying"
    unreachable = TurnFailure.UNREACHABLE

    def look_at_the_failure(self, events: list[ProviderEvent], requests: int, code: str) -> None:
        """A person is told of each retry, but for those of a rate limit, of which Copilot says nothing."""
        if code != TurnFailure.RATE_LIMITED:
            assert len([event for event in events if isinstance(event, Notice)]) == requests - 1

    async def look_at_the_thread(self, case: Case, model: ModelServer, identity: ProviderIdentity) -> None:
        """A turn that failed is FAILED also after a resume."""
        async with case.opened(model) as runtime:
            again = await case.resume(runtime, identity)
        assert [turn.outcome for turn in again.turns] == [TurnOutcome.FAILED, TurnOutcome.COMPLETED]

    @pytest.mark.slow
    async def test_an_unreachable_endpoint_ends_the_turn(self, case: Case) -> None:
        """It takes longer than others: Copilot tries for half a minute."""
        await super().test_an_unreachable_endpoint_ends_the_turn(case)
