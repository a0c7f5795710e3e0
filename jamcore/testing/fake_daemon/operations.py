"""The fake's operations: one of each kind of end, always the same; ``cut`` is one that nobody works on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from jamcore.domain.errors import NotFoundError
from jamcore.domain.operation_views import OperationLine, OperationPage, OperationRow, OperationView
from jamcore.testing.fake_daemon.records import AT
from jamcore.testing.fake_daemon.state import Part

LINES = (
    OperationLine(seq=1, at=AT, state="pending"),
    OperationLine(seq=2, at=AT, state="pending", step="inspect", phase="intended"),
    OperationLine(
        seq=3,
        at=AT + timedelta(seconds=2),
        state="pending",
        step="inspect",
        phase="failed",
        took_s=2.0,
        failure="workspace.removal_blocked",
        hint="Commit and push the work.",
    ),
    OperationLine(
        seq=4, at=AT + timedelta(seconds=90), state="failed", took_s=90.0, failure="workspace.removal_blocked", last=True
    ),
)
FAILED = OperationRow(
    id="f0000000-0000-7000-8000-000000000001",
    kind="archive",
    title="archive of the workspace of r\x1b[2J",
    state="failed",
    result="workspace.removal_blocked",
    room="r\x1b[2J",
    started_at=AT,
    ended_at=AT + timedelta(seconds=90),
)
CUT = OperationRow(
    id="c0000000-0000-7000-8000-000000000002", kind="push", title="push (unknown to this Jam)", state="running", started_at=AT
)
DAMAGED = OperationRow(
    id="d0000000-0000-7000-8000-000000000003", kind="export", title="export of the workspace", problem="its row cannot be read"
)


class FakeOperations(Part):
    """Answers about the three."""

    async def list(self, *, room: str | None, host: str | None, unfinished: bool, limit: int) -> OperationPage:
        """See :class:`~jamcore.daemon.operation_service.OperationService`."""
        await self.fake.note("operations", (room, host, unfinished, limit))
        rows = () if room == "idle" else (CUT,) if unfinished else (FAILED, CUT, DAMAGED)
        return OperationPage(items=rows[:limit], more=len(rows) > limit)

    async def show(self, ref: str) -> OperationView:
        """See :class:`~jamcore.daemon.operation_service.OperationService`."""
        await self.fake.note("show_operation", ref)
        row = _find(ref)
        if row is not FAILED:
            return OperationView(row=row, lines=LINES[:1], next="It goes on when its command is repeated.")
        about = (("room", row.room), ("confirmed", "a" * 64))
        return OperationView(row=row, about=about, lines=LINES, stays="the workspace as it was", next="Commit and push the work.")

    @asynccontextmanager
    async def events(self, ref: str, *, after: int, follow: bool) -> AsyncIterator[AsyncIterator[OperationLine]]:
        """See :class:`~jamcore.daemon.operation_service.OperationService`."""
        await self.fake.note("operation_events", (ref, after, follow))
        row = _find(ref)

        async def lines() -> AsyncIterator[OperationLine]:
            for line in LINES if row is FAILED else LINES[:1]:
                if line.seq > after:
                    yield line
            if follow and row is CUT:
                await self.fake.stopping.wait()

        yield lines()


def _find(ref: str) -> OperationRow:
    for row in (FAILED, CUT, DAMAGED):
        if row.id.startswith(ref):
            return row
    raise NotFoundError(kind="operation", ref=ref)
