"""The bench of providers measures what it says; the figures themselves are for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.providers import measure_providers

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.needs("codex", "bubblewrap")
async def test_a_provider_is_measured_beside_its_program_alone(tmp_path: Path) -> None:
    """Each row has a pair for each turn and kill, and the time at the program's pipes lies within that of its plugin."""
    rows = {row.name: row for row in await measure_providers(tmp_path, only=("codex",), turns=2, kills=1, rooms=2)}
    laps = {name: (len(row.laps), len(row.raw)) for name, row in rows.items()}
    memory = "codex: {} on a shared host: Jam's memory, each"
    assert laps == {
        "codex: one turn": (2, 2),
        "codex: one turn, of that the plugin": (2, 2),
        "codex: killed to resumed": (1, 1),
        memory.format("1 room"): (1, 1),
        memory.format("2 rooms"): (1, 1),
    }
    plugin = rows["codex: one turn, of that the plugin"]
    assert all(0 < alone <= whole for whole, alone in zip(plugin.laps, plugin.raw, strict=True))
    one, two = rows[memory.format("1 room")], rows[memory.format("2 rooms")]
    assert 0 < two.laps[0] < one.laps[0], "what all rooms of a host share counts for each in part"
    assert 0 < two.raw[0] < one.raw[0], "one program serves both rooms"
