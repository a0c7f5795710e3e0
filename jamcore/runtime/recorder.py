"""Writes one turn's events: items at once, deltas in groups of 50 ms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import anyio

from jamcore.domain.events import CommandOutput, ProviderEvent, RoomPayload, TextDelta
from jamcore.domain.limits import DELTA_COMMIT_S, FINALISE_TIMEOUT_S
from jamcore.runtime.feed import RoomFeed
from jamcore.system.tasks import owned_tasks


class EventRecorder:
    """Made by :func:`recording`."""

    def __init__(self, feed: RoomFeed, *, room: UUID, turn: UUID) -> None:
        self._feed = feed
        self._room = room
        self._turn = turn
        self._deltas: list[TextDelta | CommandOutput] = []
        self._due = anyio.Event()
        self._lock = anyio.Lock()

    async def record(self, event: ProviderEvent) -> None:
        """Take one event: a delta waits for its group, anything else is committed after what came before it."""
        if isinstance(event, TextDelta | CommandOutput):
            self._join(event)
            self._due.set()
            return
        await self.flush(event)

    async def flush(self, *more: RoomPayload) -> None:
        """Commit what is buffered and then ``more``, in one transaction."""
        async with self._lock:
            payloads: list[RoomPayload] = [*self._deltas, *more]
            self._deltas.clear()
            if payloads:
                await self._feed.append(self._room, self._turn, payloads)

    def _join(self, event: TextDelta | CommandOutput) -> None:
        last = self._deltas[-1] if self._deltas else None
        if last is not None and last.kind == event.kind and last.item == event.item:
            self._deltas[-1] = last.model_copy(update={"text": last.text + event.text})
        else:
            self._deltas.append(event)

    async def flush_in_groups(self) -> None:
        """Commit what is buffered, 50 ms after the first of a group; runs for as long as the recorder is open."""
        while True:
            await self._due.wait()
            await anyio.sleep(DELTA_COMMIT_S)
            self._due = anyio.Event()
            await self.flush()


@asynccontextmanager
async def recording(feed: RoomFeed, *, room: UUID, turn: UUID) -> AsyncIterator[EventRecorder]:
    """Yield a recorder; whatever was buffered is committed when the block ends, also after an error or a cancellation."""
    recorder = EventRecorder(feed, room=room, turn=turn)
    async with owned_tasks() as tasks:
        tasks.start_soon(recorder.flush_in_groups)
        try:
            yield recorder
        finally:
            tasks.cancel_scope.cancel()
            with anyio.move_on_after(FINALISE_TIMEOUT_S, shield=True):
                await recorder.flush()
