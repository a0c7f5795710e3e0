"""Turns of the program: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

from jamcore.testing.providers.loopback import ProviderLoopback
from jamcore.testing.providers.turns import ProviderTurns


class TestTurns(ProviderTurns):
    """ExampleAgent's."""

    # What its files say of a turn that was interrupted, and what the model reads after an interrupted command.
    cut_mark = '"interrupted"'
    told_of_interrupt = ("interrupted",)
    # All tools that the model is offered. Leave out what a sandbox cannot have.
    offered = frozenset({"shell", "write"})


class TestLoopback(ProviderLoopback):
    """ExampleAgent's."""

    # Regular expressions of the hosts that it asks for when nothing keeps it quiet (`loud` in the conftest).
    vendors = ()
