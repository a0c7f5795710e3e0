"""The checks that are put to installed plugins: one test of each for every plugin."""

from __future__ import annotations

import pytest

from jamcore.system.distributions import unfit
from jamcore.testing.check.asked import Installed
from jamcore.testing.providers.promises import ProviderPromises


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio."""
    return "asyncio"


class TestPromises(ProviderPromises):
    """What every provider's plugin promises."""

    def test_it_fits_this_core(self, provider: Installed) -> None:
        """What the distribution requires of jamcore is what is installed.

        Where it is not, a daemon imports nothing of the plugin.
        """
        assert unfit(provider.found) is None
