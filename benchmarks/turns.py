"""What Jam adds to a turn, and how long a room is away when its daemon dies: each beside the same program spoken to directly."""

from __future__ import annotations

from pathlib import Path

from benchmarks.model import ANSWER, model_server
from benchmarks.plain import nothing_left
from benchmarks.providers import WARM_UP, Figures, compared, subjects
from benchmarks.table import Row

PROVIDER = "codex"
FLOOD = 100_000


async def measure_turns(root: Path, *, turns: int, kills: int) -> list[Row]:
    """Alternate turns through Jam and directly, then kill both again and again.

    Args:
        root: An empty private directory.
        turns: How many turns on each side are counted.
        kills: How many kills on each side.
    """
    found = await _figures(root, turns=turns, kills=kills)
    return [
        Row(
            "one turn: say to turn.ended at the client",
            found.jam.values,
            "the same, no Jam",
            found.program.values,
            added=True,
            aim="+15 ms",
        ),
        Row(
            "daemon dead to the first delta of a resumed turn",
            found.away.values,
            "program dead, the same",
            found.program_away.values,
            added=True,
        ),
    ]


async def measure_stream(root: Path, *, floods: int) -> list[Row]:
    """Alternate a turn of a hundred thousand deltas through Jam, stored and read to its end by one client, with the same directly.

    Args:
        root: An empty private directory.
        floods: How many such turns on each side.
    """
    found = await _figures(root, tuple(f"{number:06d} " for number in range(FLOOD)), turns=floods, warm_up=0)
    return [Row(f"a turn of {FLOOD:,} deltas: say to turn.ended", found.jam.values, "the same, no Jam", found.program.values)]


async def _figures(root: Path, deltas: tuple[str, ...] = ANSWER, *, turns: int, kills: int = 0, warm_up: int = WARM_UP) -> Figures:
    [subject] = await subjects(frozenset({PROVIDER}))
    with nothing_left(), model_server(root, subject.row.server, deltas) as url:
        return await compared(subject, root / "pair", url, turns=turns, kills=kills, warm_up=warm_up)
