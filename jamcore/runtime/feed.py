"""A room's events: appended with the next number, then announced to whoever follows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import anyio

from jamcore.domain.events import RoomEvent, RoomPayload
from jamcore.store import Store

PAGE = 256
"""Events read from the store at once: a follower that starts at 0 never holds a whole history in memory."""


@dataclass(slots=True)
class _News:
    """What the followers of one room wait for: the next announcement, with its number and the events that it brought."""

    heard: anyio.Event = field(default_factory=anyio.Event)
    number: int = 0
    events: tuple[RoomEvent, ...] = ()


class RoomFeed:
    """Appends and follows. Followers read from the store, so that a slow one never slows a turn and can resume by number.

    One that is not behind gets what was just committed without reading it again: the store stays what decides, and this only saves a look.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._news: dict[UUID, _News] = {}
        self._announced: dict[UUID, int] = {}

    async def append(self, room: UUID, turn: UUID | None, payloads: Sequence[RoomPayload]) -> None:
        """Commit events and wake the followers."""
        self.announce(room, await self._store.transact(lambda repos: repos.events.append(room, turn, payloads)))

    def announce(self, room: UUID, events: tuple[RoomEvent, ...] = ()) -> None:
        """Wake the followers of a room after somebody committed events in a larger transaction.

        Args:
            room: The room.
            events: All that the transaction appended to the room, in order; without them the followers read the store.
        """
        self._announced[room] = self._announced.get(room, 0) + 1
        if waiting := self._news.pop(room, None):
            waiting.number, waiting.events = self._announced[room], events
            waiting.heard.set()

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
        heard: _News | None = None
        while True:
            # Taken before the look: what is committed between the two wakes this follower at once.
            news = self._news.setdefault(room, _News())
            page = self._just_heard(room, seen, heard)
            page = await self._page(room, seen) if page is None else page
            for event in page:
                seen = event.seq
                yield event
            heard = None
            if len(page) == PAGE:
                continue
            if not follow:
                return
            await news.heard.wait()
            heard = news

    def _just_heard(self, room: UUID, seen: int, news: _News | None) -> tuple[RoomEvent, ...] | None:
        """Return the events of an announcement, if they are exactly what this follower lacks; ``None``: only the store can tell."""
        if news is None or news.number != self._announced.get(room) or not news.events or len(news.events) >= PAGE:
            return None
        return news.events if news.events[0].seq == seen + 1 else None

    async def _page(self, room: UUID, after: int) -> tuple[RoomEvent, ...]:
        return await self._store.read(lambda repos: repos.events.after(room, after, PAGE))
