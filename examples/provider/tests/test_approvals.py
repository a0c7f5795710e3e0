"""What the agent asks before it acts, in a thread that asks; and what it hears: this once, or no."""

from __future__ import annotations

from jamcore.testing.providers.approvals import ProviderApprovals


class TestApprovals(ProviderApprovals):
    """ExampleAgent's."""

    # A part of what the model reads where it was denied; empty where a denial ends the turn.
    denied = "not allowed"
