"""What the end of a run does to its room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from jamcore.daemon.runs import Runs
from jamcore.domain.changes import Run
from jamcore.domain.events import SessionNotice

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

ROOM, OBJECTIVE, LATER = UUID(int=1), UUID(int=2), UUID(int=3)


@dataclass
class Rooms:
    """The run's room: its last turn, and whether it was stopped."""

    last: UUID
    live: bool = True
    stopped: list[str] = field(default_factory=list)
    said: list[SessionNotice] = field(default_factory=list)

    async def read(self, look: Callable[[Any], object]) -> object:
        """Be the store of the room's events."""
        events = [SimpleNamespace(turn_id=OBJECTIVE, payload=notice) for notice in self.said]
        return look(SimpleNamespace(events=SimpleNamespace(after=lambda *_: events, last_seq=lambda _: len(events))))

    async def get(self, _ref: str) -> object:
        """See :class:`jamcore.daemon.rooms.Rooms`."""
        return SimpleNamespace(live=self.live, last_turn=SimpleNamespace(id=self.last))

    async def stop(self, ref: str) -> None:
        """See :class:`jamcore.daemon.rooms.Rooms`."""
        self.stopped.append(ref)

    async def append(self, _room: UUID, _turn: UUID, payloads: list[SessionNotice]) -> None:
        """See :class:`jamcore.runtime.feed.RoomFeed`."""
        self.said.extend(payloads)


@pytest.mark.guarantee("RUN-1")
@pytest.mark.parametrize(("last", "live", "stopped"), [(OBJECTIVE, True, [str(ROOM)]), (LATER, True, []), (OBJECTIVE, False, [])])
async def test_a_room_in_which_a_person_goes_on_is_not_parked(
    last: UUID, live: bool, stopped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change request may take a while, also after a restart; whoever talks in the room then keeps it.

    One that is parked already is left alone: a last checkpoint that failed is a person's to repeat (CONT-8).
    """
    rooms: Any = Rooms(last, live=live)
    runs = Runs(store=rooms, rooms=rooms, changes=cast("Any", None), feed=rooms, tasks=cast("Any", None))

    async def built(_run: Run) -> SessionNotice:
        return SessionNotice(code="run.change-request", detail="it is there")

    monkeypatch.setattr(runs, "_build", built)
    await runs._finish(Run(room_id=ROOM, turn_id=OBJECTIVE, change_id=UUID(int=4), objective="Do it"))
    assert rooms.stopped == stopped


async def test_what_was_said_of_a_run_is_not_said_at_every_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that cannot be finished is tried again by each start; its room hears of it once, and of what is new."""
    rooms: Any = Rooms(OBJECTIVE)
    runs = Runs(store=rooms, rooms=rooms, changes=cast("Any", None), feed=rooms, tasks=cast("Any", None))
    details = iter(("no disk", "no disk", "no disk", "no git"))

    async def refused(_run: Run) -> SessionNotice:
        return SessionNotice(code="run.no-change-request", detail=next(details))

    monkeypatch.setattr(runs, "_build", refused)
    for _ in range(4):
        await runs._finish(Run(room_id=ROOM, turn_id=OBJECTIVE, change_id=UUID(int=4), objective="Do it"))
    assert [notice.detail for notice in rooms.said] == ["no disk", "no git"]
