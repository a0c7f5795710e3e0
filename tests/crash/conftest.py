"""What tests of deaths and faults need of the machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jamcore.testing.small_disk import probe_small_disks


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute ``small-disks``."""
    return {"small-disks": probe_small_disks}
