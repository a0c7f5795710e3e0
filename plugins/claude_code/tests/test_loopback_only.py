"""Claude Code as the plugin configures it contacts the model endpoint and nothing else."""

from __future__ import annotations

import pytest

from jamcore.testing.providers.loopback import ProviderLoopback

pytestmark = [pytest.mark.needs("claude_code")]


class TestLoopback(ProviderLoopback):
    """Claude Code's."""

    vendors = (r"anthropic\.com$",)
