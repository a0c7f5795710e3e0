"""What a daemon is doing: what its stop would interrupt or cut short."""

from __future__ import annotations

from jamcore.domain.records import Record

WORK_LINES = 20
"""How much of the work is named; more is counted."""


class Activity(Record):
    """Rooms that are live, and the work under way, one line each. A live room that waits for a message is no work."""

    live_rooms: int
    working: tuple[str, ...]

    @property
    def idle(self) -> bool:
        """Whether a stop interrupts nothing."""
        return not self.working


def work_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return at most :data:`WORK_LINES` lines; the last one counts those that are left out."""
    if len(lines) <= WORK_LINES:
        return lines
    return (*lines[: WORK_LINES - 1], f"and {len(lines) - WORK_LINES + 1} more")
