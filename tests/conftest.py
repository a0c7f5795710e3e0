"""Shared by all tests of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jamcore.testing.daemon import probe_provider
from jamcore.testing.postgres import PostgresServer, postgres_server
from jamcore.testing.scenario.rows import offered, rows_of
from jamcore.testing.sources import workspace_root

# How long an example takes says how busy the machine is, and nothing about Jam.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# The bench is in the tree and in no wheel, and so are its tests.
collect_ignore = [] if find_spec("benchmarks") else ["real/test_bench.py", "unit/benchmarks"]


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute a need for each provider of this workspace: its plugin is installed, and its pinned program can be had here."""
    root = workspace_root(Path(__file__).resolve())
    by_name: dict[str, Callable[[], str | None]] = {name: partial(probe_provider, name) for name in offered(root)}
    return by_name | {row.provider: partial(probe_provider, row.provider, row.tables) for row in rows_of(root) if not row.standin}


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole run; tests that restart one start their own."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio, and so do its tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left(no_leaks: None) -> None:
    """Every test of the core ends without a process, mount or changed environment of its own."""
