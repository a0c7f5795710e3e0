"""Writes one turn's events: items as soon as the disk takes them, deltas in groups of 50 ms.

A provider speaks faster than a disk commits. So what arrives while one transaction is being written goes into the next, all of it
together, and a turn never waits for more than two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import anyio

from jamcore.domain.events import CommandOutput, RoomPayload, TextDelta
from jamcore.domain.limits import DELTA_COMMIT_S, LAST_WRITE_S
from jamcore.runtime.feed import RoomFeed
from jamcore.system.tasks import owned_tasks

GATHER_S = 0.003
"""How long to wait for what comes at the same moment: a provider's last message, its usage and its end are one transaction then."""
BEHIND = 256
"""Events that may wait for the disk; a provider that is further ahead is read no faster than they are written."""
JOINED = 64 << 10
"""Characters after which a delta that grows while the disk is slow becomes the next one: what waits is bounded, and so is each event."""


@dataclass(slots=True)
class _Growing:
    """A delta and what came after it of the same item: joined once, when it is taken, because each join copies the whole."""

    first: TextDelta | CommandOutput
    pieces: list[str]
    characters: int

    def takes(self, event: TextDelta | CommandOutput) -> bool:
        return self.characters < JOINED and (event.kind, event.item) == (self.first.kind, self.first.item)

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.characters += len(text) or 1  # empty ones count: a list of them grows too

    @property
    def whole(self) -> TextDelta | CommandOutput:
        return self.first if len(self.pieces) == 1 else self.first.model_copy(update={"text": "".join(self.pieces)})


class EventRecorder:
    """Made by :func:`recording`."""

    def __init__(self, feed: RoomFeed, *, room: UUID, turn: UUID) -> None:
        self._feed = feed
        self._room = room
        self._turn = turn
        self._waiting: list[RoomPayload] = []
        self._growing: _Growing | None = None
        self._any = anyio.Event()
        self._item = anyio.Event()
        self._lock = anyio.Lock()

    async def record(self, event: RoomPayload) -> None:
        """Take one event; it is committed after what came before it, and with it where that still waits."""
        if isinstance(event, TextDelta | CommandOutput):
            self._join(event)
        else:
            self._close()
            self._waiting.append(event)
            self._item.set()
        self._any.set()
        if len(self._waiting) > BEHIND:
            await self.flush()

    async def flush(self) -> None:
        """Commit everything that waits, in one transaction."""
        async with self.rest() as payloads:
            if payloads:
                await self._feed.append(self._room, self._turn, payloads)

    @asynccontextmanager
    async def rest(self) -> AsyncIterator[tuple[RoomPayload, ...]]:
        """Yield everything that waits, for the caller to commit; what was not committed, because the block raised, waits on."""
        async with self._lock:
            self._any, self._item = anyio.Event(), anyio.Event()
            self._close()
            taken, self._waiting = self._waiting, []
            try:
                yield tuple(taken)
            except BaseException:
                self._waiting[:0] = taken
                raise

    def _join(self, event: TextDelta | CommandOutput) -> None:
        if self._growing is None or not self._growing.takes(event):
            self._close()
            self._growing = _Growing(event, [], 0)
        self._growing.add(event.text)

    def _close(self) -> None:
        """End the delta that grows; it waits with the others then."""
        if self._growing is not None:
            self._waiting.append(self._growing.whole)
            self._growing = None

    async def write(self) -> None:
        """Commit what waits: an item almost at once, deltas 50 ms after the last commit; runs for as long as the recorder is open."""
        due = anyio.current_time()
        while True:
            await self._any.wait()
            with anyio.move_on_after(max(0.0, due - anyio.current_time())):
                await self._item.wait()
            await anyio.sleep(GATHER_S)
            due = anyio.current_time() + DELTA_COMMIT_S
            await self.flush()


@asynccontextmanager
async def recording(feed: RoomFeed, *, room: UUID, turn: UUID) -> AsyncIterator[EventRecorder]:
    """Yield a recorder; whatever was buffered is committed when the block ends, also after an error or a cancellation.

    Raises:
        JamError: The store refused, in which case the block is cancelled; or what the block raised.
    """
    recorder = EventRecorder(feed, room=room, turn=turn)
    async with owned_tasks() as tasks:
        tasks.start_soon(recorder.write)
        try:
            yield recorder
        finally:
            tasks.cancel_scope.cancel()
            with anyio.move_on_after(LAST_WRITE_S, shield=True):
                await recorder.flush()
