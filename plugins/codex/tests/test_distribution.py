"""What is tested is what is shipped."""

from __future__ import annotations

from jamcore.testing.providers.distribution import ProviderDistribution


class TestDistribution(ProviderDistribution):
    """Codex's plugin."""
