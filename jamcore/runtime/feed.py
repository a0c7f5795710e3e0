"""A room's events: appended with the next number, then announced to whoever follows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import anyio

from jamcore.domain.events import RoomEvent, RoomPayload
from jamcore.store import Store

PAGE = 256
"""Events read from the store at once: a follower that starts at 0 never holds a whole history in memory."""


class RoomFeed:
    """Appends and follows. Followers read from the store, so that a slow one never slows a turn and can resume by number."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._news: dict[UUID, anyio.Event] = {}

    async def append(self, room: UUID, turn: UUID | None, payloads: Sequence[RoomPayload]) -> None:
        """Commit events and wake the followers."""
        await self._store.transact(lambda repos: repos.events.append(room, turn, payloads))
        self.announce(room)

    def announce(self, room: UUID) -> None:
        """Wake the followers of a room after somebody committed events in a larger transaction."""
        if waiting := self._news.pop(room, None):
            waiting.set()

    @asynccontextmanager
    async def following(self, room: UUID, *, after: int, follow: bool) -> AsyncIterator[AsyncIterator[RoomEvent]]:
        """Yield an iterator over the events with a number greater than ``after``; with ``follow`` it waits for more."""
        iterator = self._iterate(room, after=after, follow=follow)
        try:
            yield iterator
        finally:
            await iterator.aclose()

    async def _iterate(self, room: UUID, *, after: int, follow: bool) -> AsyncGenerator[RoomEvent]:
        seen = after
        while True:
            # Taken before the read: what is committed between the two wakes this follower at once.
            news = self._news.setdefault(room, anyio.Event())
            page = await self._page(room, seen)
            for event in page:
                seen = event.seq
                yield event
            if len(page) == PAGE:
                continue
            if not follow:
                return
            await news.wait()

    async def _page(self, room: UUID, after: int) -> tuple[RoomEvent, ...]:
        return await self._store.read(lambda repos: repos.events.after(room, after, PAGE))
