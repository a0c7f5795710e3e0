"""Shared by all tests of the core."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left(no_leaks: None) -> None:
    """Every test of the core ends without a process, mount or changed environment of its own."""
