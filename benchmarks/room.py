"""One side of a comparison: a room of a daemon, spoken to as a person would."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

import anyio

from jamcore.control.client import JamClient
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import TurnRequest
from jamcore.system.ids import SystemIds
from jamcore.testing.daemon import DaemonChild
from jamcore.testing.rooms import ENDED

REST_S = 0.1
"""Before each turn: both programs go on working for a moment after a turn has ended, and must not do so in the other one's time."""
TURN_S = 120.0
"""A turn that takes longer is stuck."""


@dataclass(frozen=True, slots=True)
class MeasuredRoom:
    """A room, by the name that the client knows it by."""

    client: JamClient
    room: str

    async def attached(self) -> AsyncGenerator[RoomEvent, None]:
        """Attach to the room as a person would, and return the events to come once the stream stands."""
        after = (await self.client.room(self.room)).last_seq
        events = self.client.events(self.room, after=after - 1, follow=True)
        await anext(events)
        return events

    async def say(self, events: AsyncIterator[RoomEvent], number: int, until: str) -> float:
        """Say something and return when the turn's first event of kind ``until`` arrived; reads to the captured turn.

        Raises:
            RuntimeError: The turn ended in another way.
            TimeoutError: It did not end within :data:`TURN_S`.
        """
        seen: float | None = None
        with anyio.fail_after(TURN_S):
            turn = await self.client.say(self.room, TurnRequest(id=SystemIds().uuid(), text=said(number)))
            async for event in events:
                if event.turn_id != turn.id:
                    continue
                if event.payload.kind == until and seen is None:
                    seen = time.perf_counter()
                if event.payload.kind == "turn.state" and event.payload.state in ENDED:
                    if event.payload.state != "captured" or seen is None:
                        raise RuntimeError(f"the turn ended as {event.payload.state}: {event.payload.detail}")
                    return seen
        raise RuntimeError("the room's events ended")


async def brought_back(daemon: DaemonChild, room: MeasuredRoom) -> None:
    """Kill the daemon with all that it runs, start another, and resume the room."""
    daemon.kill()
    daemon.start()
    await daemon.up()
    await room.client.resume(room.room)


def said(number: int) -> str:
    """Return the text of a turn: the same on both sides."""
    return f"Please look at number {number}."
