"""Which providers the bench measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import providers
from benchmarks.providers import NotMeasurableError, subjects
from jamcore.plugins.manager import ProviderManager
from jamcore.testing.scenario.rows import FILE, rows_of

pytestmark = pytest.mark.anyio


async def test_every_installed_provider_with_a_pinned_program_has_a_row_that_the_bench_reads() -> None:
    """One without would be passed over in the figures."""
    manager = ProviderManager()
    await manager.load()
    pinned = {name for name in manager.names() if manager.provider(name).description.toolchain}
    assert pinned <= {row.provider for row in rows_of(providers.ROOT)}


async def test_a_provider_is_measured_because_its_tests_have_a_row_and_the_bench_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new plugin edits nothing here; one whose row is missing is left out by name, with the file that lacks it."""
    monkeypatch.setattr(providers, "ROOT", tmp_path)
    [name, *_] = [row.provider for row in rows_of(Path(__file__).parents[3]) if not row.tables]
    with pytest.raises(NotMeasurableError, match=name):
        await subjects(frozenset({name}))
    assert f"{name}: not measured: its plugin's tests have no row for it ({FILE})" in capsys.readouterr().err


async def test_a_provider_that_is_asked_for_and_cannot_be_measured_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """By name, with the reason: a table that lacks it would look whole."""
    with pytest.raises(NotMeasurableError, match="nobody"):
        await subjects(frozenset({"nobody"}))
    assert "nobody: not measured: no such provider is installed" in capsys.readouterr().err
