"""What all tests have."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"
