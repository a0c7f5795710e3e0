"""Which of this machine's plugins a test or a page does not need: looking at them takes longer than everything else in a start."""

from __future__ import annotations

from jamcore.engines.registry import GROUP
from jamcore.plugins.manager import PROVIDERS
from jamcore.system.distributions import installed


def all_plugins_but(*needed: str) -> frozenset[str]:
    """Return the names of all installed providers and engines but some, for the setting ``blocked_plugins``."""
    return frozenset(entry.name for entry in installed((PROVIDERS, GROUP))) - frozenset(needed)
