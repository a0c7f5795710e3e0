"""What a row of the scenario says of its provider."""

from __future__ import annotations

from dataclasses import replace

from jamcore.testing.exchanges import exec_command
from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.servers.responses import ResponsesServer

REAL = ProviderRow(provider="some", title="Some", server=ResponsesServer, shell=exec_command)


def test_only_a_sandbox_needs_bubblewrap() -> None:
    """Without one a real program needs itself, and what runs in the place of one needs nothing, so that it is never skipped."""
    assert (REAL.needs, REAL.own_needs) == (("bubblewrap", "some"), ("some",))
    assert (replace(REAL, standin="other").needs, replace(REAL, standin="other").own_needs) == (("bubblewrap",), ())
