"""Shared by the tests that kill things: the real Codex, where its plugin is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from jamcore.testing.daemon import probe_provider


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute the need ``codex``."""
    return {"codex": partial(probe_provider, "codex")}
