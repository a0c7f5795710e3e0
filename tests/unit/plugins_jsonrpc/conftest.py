"""A line client whose other side is the test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jamcore.testing.doubles.wires import MakeWire, making_wires


@pytest.fixture
async def make_wire() -> AsyncIterator[MakeWire]:
    """Make line clients, each with a peer and a log of its own."""
    async with making_wires() as make:
        yield make
