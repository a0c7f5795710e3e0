"""Copilot as the plugin configures it contacts the model endpoint and nothing else."""

from __future__ import annotations

import pytest

from jamcore.testing.providers.loopback import ProviderLoopback

pytestmark = [pytest.mark.needs("copilot")]


class TestLoopback(ProviderLoopback):
    """Copilot's."""

    vendors = (r"github\.com$",)
