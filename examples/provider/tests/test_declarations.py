"""What the plugin says of itself, without a program."""

from __future__ import annotations

from jamcore.api import DEDICATED_MANAGED_CELLS, SHARED_CELL
from jamcore.testing.providers.declarations import ProviderDeclarations
from jamcore.testing.providers.distribution import ProviderDistribution
from jamcore.testing.providers.promises import ProviderPromises

from jam_example_agent.description import PINNED


class TestPromises(ProviderPromises):
    """ExampleAgent's: what every plugin promises, whatever it is."""


class TestDeclarations(ProviderDeclarations):
    """ExampleAgent's: the same facts once more, by hand, so that none of them changes by accident."""

    cells = DEDICATED_MANAGED_CELLS | {SHARED_CELL}
    seats = 8
    hints = ("EXAMPLE_AGENT_API_KEY",)
    platforms = ()
    versions = {(PINNED, PINNED): True, ("0.9.0", PINNED): False, ("", PINNED): False}


class TestDistribution(ProviderDistribution):
    """ExampleAgent's: the distribution needs the core and nothing else."""
