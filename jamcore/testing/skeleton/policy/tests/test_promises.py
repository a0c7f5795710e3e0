"""The policy keeps what every policy promises."""

from __future__ import annotations

from jamcore.testing.policies.promises import PolicyPromises


class TestPromises(PolicyPromises):
    """Acme's."""
