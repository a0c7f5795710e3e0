"""What all tests have."""

from __future__ import annotations

import pytest
from jamcore.testing.policies.subject import PluginUnderTest

from jam_acme.plugin import AcmePolicy


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def policy() -> PluginUnderTest:
    """Acme."""
    return PluginUnderTest(
        name="acme",
        package="jam_acme",
        plugin=AcmePolicy,
    )
