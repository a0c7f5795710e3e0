"""Which providers the bench measures."""

from __future__ import annotations

import pytest

from benchmarks.providers import PECULIAR, NotMeasurableError, subjects
from jamcore.plugins.manager import ProviderManager
from jamcore.testing.servers.apis import SERVERS

pytestmark = pytest.mark.anyio


async def test_every_installed_provider_with_a_pinned_program_is_in_the_benchs_table() -> None:
    """One that is not would be passed over in the figures."""
    manager = ProviderManager()
    await manager.load()
    pinned = {name for name in manager.names() if manager.provider(name).description.toolchain}
    assert pinned <= set(PECULIAR)
    assert {one.api for one in PECULIAR.values()} <= set(SERVERS)


async def test_a_provider_that_is_asked_for_and_cannot_be_measured_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """By name, with the reason: a table that lacks it would look whole."""
    with pytest.raises(NotMeasurableError, match="nobody"):
        await subjects(frozenset({"nobody"}))
    assert "nobody: not measured: no such provider is installed" in capsys.readouterr().err
