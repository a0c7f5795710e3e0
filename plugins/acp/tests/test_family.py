"""The family keeps what every family promises, and what it makes what every provider does."""

from __future__ import annotations

import pytest

from jam_acp.family import FAMILY, AcpFamily
from jamcore.testing.policies.families import FamilyPromises
from jamcore.testing.policies.subject import Made, PluginUnderTest, least_of
from jamcore.testing.providers.promises import ProviderPromises


@pytest.fixture(scope="session")
def family() -> PluginUnderTest:
    """The family of agents that a table describes."""
    return PluginUnderTest(name=FAMILY, package="jam_acp", plugin=AcpFamily)


@pytest.fixture(scope="session")
def provider(family: PluginUnderTest) -> Made:
    """What it makes of its least table."""
    return least_of(family)


class TestFamily(FamilyPromises):
    """Agents of the Agent Client Protocol."""


class TestWhatItMakes(ProviderPromises):
    """An agent of which nothing is known but its command line."""
