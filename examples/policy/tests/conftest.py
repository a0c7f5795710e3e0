"""What all tests have."""

from __future__ import annotations

import pytest
from jamcore.testing.policies.subject import PluginUnderTest

from jam_example_policy.plugin import ExamplePolicyPolicy


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def policy() -> PluginUnderTest:
    """ExamplePolicy."""
    return PluginUnderTest(
        name="example_policy",
        package="jam_example_policy",
        plugin=ExamplePolicyPolicy,
    )
