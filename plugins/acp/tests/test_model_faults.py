"""What a failing model endpoint does to a turn of the real OpenCode: a typed end, or a turn that an interrupt ends; the session goes on."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from jamcore.api import TurnFailure
from jamcore.testing.providers.model_faults import ProviderModelFaults
from jamcore.testing.servers.faults import CutFault, DownFault, FailedFault, GarbageFault, HttpFault, SilentFault

pytestmark = [pytest.mark.needs("opencode"), pytest.mark.slow]


class TestModelFaults(ProviderModelFaults):
    """OpenCode's. It tries again for ever, ever more rarely, and says nothing meanwhile; a stalled stream it leaves after five minutes.

    A cut stream stands with the endless ones, since nobody can rely on its end: in one of two runs it came after 73 s, as `http_error`.
    """

    ended = MappingProxyType(
        {
            "400": (HttpFault(status=400), TurnFailure.HTTP),
            "401": (HttpFault(status=401), TurnFailure.HTTP),
            "403": (HttpFault(status=403), TurnFailure.HTTP),
            "404": (HttpFault(status=404), TurnFailure.HTTP),
            "context_length_exceeded": (HttpFault(status=400, code="context_length_exceeded"), TurnFailure.CONTEXT_FULL),
            "garbage": (GarbageFault(form="json"), TurnFailure.OTHER),
        }
    )
    endless = MappingProxyType(
        {
            "429": HttpFault(status=429),
            "500": HttpFault(status=500),
            "down": DownFault(),
            "failed": FailedFault(code="server_error"),
            "cut stream": CutFault(after_deltas=1),
            "silence": SilentFault(),
        }
    )
    passing = MappingProxyType({"429": HttpFault(status=429), "cut stream": CutFault(after_deltas=1)})
    unreachable = ""

    def look_at_what_is_told(self, told: list[str]) -> None:
        """The last thing that it said is whole."""
        assert told[-1].endswith("one two")
