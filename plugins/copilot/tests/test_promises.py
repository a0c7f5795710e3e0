"""What every plugin promises, whatever it is: no program is needed for it."""

from __future__ import annotations

import pytest

from jamcore.testing.providers.promises import ProviderPromises

pytestmark = pytest.mark.unprivileged


class TestPromises(ProviderPromises):
    """This plugin's."""
