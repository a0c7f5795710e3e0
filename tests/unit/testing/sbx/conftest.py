"""Simulators for these tests, and a directory to work in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jamcore.testing.sbx.simulator import Simulator


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Simulator]]:
    """Make simulators; at the end of the test nothing of them is left, which their own end asserts."""
    with ExitStack() as stack:

        def one(version: str = "0.47", **said: Any) -> Simulator:
            place = tmp_path / f"sbx{len(list(tmp_path.glob('sbx*')))}"
            return stack.enter_context(Simulator(place, version, **said))

        yield one


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A directory to work in."""
    place = tmp_path / "proj"
    place.mkdir()
    (place / "file.txt").write_text("of the host\n")
    return place
