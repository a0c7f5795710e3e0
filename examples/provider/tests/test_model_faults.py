"""What a failing model endpoint does to a turn: a typed end with a stable code, and a thread that goes on."""

from __future__ import annotations

from jamcore.api import TurnFailure
from jamcore.testing.providers.model_faults import ProviderModelFaults
from jamcore.testing.servers.faults import CutFault, DownFault, FailedFault, GarbageFault, HttpFault


class TestModelFaults(ProviderModelFaults):
    """ExampleAgent's."""

    # Faults after which a turn ends by itself, with its code. `endless` is for those after which a program tries for ever.
    ended = {
        "400": (HttpFault(status=400), TurnFailure.BAD_REQUEST),
        "401": (HttpFault(status=401), TurnFailure.UNAUTHORISED),
        "403": (HttpFault(status=403), TurnFailure.UNAUTHORISED),
        "404": (HttpFault(status=404), TurnFailure.NOT_FOUND),
        "429": (HttpFault(status=429), TurnFailure.RATE_LIMITED),
        "503": (HttpFault(status=503), TurnFailure.SERVER_ERROR),
        "cut stream": (CutFault(after_deltas=1), TurnFailure.STREAM_CUT),
        "garbage": (GarbageFault(form="bytes"), TurnFailure.STREAM_CUT),
        "broken JSON": (GarbageFault(form="json"), TurnFailure.STREAM_CUT),
        "a failure of the API's own": (FailedFault(code="server_error"), TurnFailure.OTHER),
    }
    # Faults of which the program's own retry makes nothing when they happen once, and what a person is told of it.
    passing = {"cut stream": CutFault(after_deltas=1), "down": DownFault(), "503": HttpFault(status=503)}
    retry = "trying again"
    most_requests = 3
    unreachable = TurnFailure.UNREACHABLE
