"""Writes one turn's events: items at once, deltas in groups of 50 ms."""

from __future__ import annotations

from types import TracebackType
from typing import Self
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from jamcore.domain.events import CommandOutput, ProviderEvent, RoomPayload, TextDelta
from jamcore.domain.limits import DELTA_COMMIT_S
from jamcore.runtime.feed import RoomFeed


class EventRecorder:
    """An async context: whatever was buffered is committed when it is left, also after an error."""

    def __init__(self, feed: RoomFeed, *, room: UUID, turn: UUID) -> None:
        self._feed = feed
        self._room = room
        self._turn = turn
        self._deltas: list[TextDelta | CommandOutput] = []
        self._due = anyio.Event()
        self._lock = anyio.Lock()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._flush_in_groups)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self.flush()
        return await self._tasks.__aexit__(kind, error, trace)

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

    async def _flush_in_groups(self) -> None:
        while True:
            await self._due.wait()
            await anyio.sleep(DELTA_COMMIT_S)
            self._due = anyio.Event()
            await self.flush()
