"""What the plugin says of itself, without a program."""

from __future__ import annotations

from jamcore.testing.providers.distribution import ProviderDistribution
from jamcore.testing.providers.promises import ProviderPromises


class TestPromises(ProviderPromises):
    """Acme's: what every plugin promises, whatever it is."""


class TestDistribution(ProviderDistribution):
    """Acme's: the distribution needs the core and nothing else."""
