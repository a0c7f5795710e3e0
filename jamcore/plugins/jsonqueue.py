"""What a line client keeps: notifications on their way to the subscriber, the end of an error output, and requests that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import anyio

from jamcore.domain.errors import JamError
from jamcore.plugins.jsonlines import Notification, plain

QUEUED_MESSAGES = 1_024
QUEUED_BYTES = 32 << 20
"""Bounds of what is read ahead of a slow subscriber; then the peer is no longer read, and stops when its pipe is full."""


class NotificationQueue:
    """A queue of one writer and one reader, bounded by count and by bytes. What was put in before ``close`` is still taken out."""

    def __init__(self) -> None:
        self._items: deque[Notification | Callable[[], None]] = deque()
        self._bytes = 0
        self._closed = False
        self._filled, self._taken = anyio.Event(), anyio.Event()
        self._put, self._handled, self._abandoned = 0, 0, False
        self._progress = anyio.Event()

    async def put(self, item: Notification) -> None:
        """Append, and wait while the queue is full. One item always fits, however large."""
        while self._items and (len(self._items) >= QUEUED_MESSAGES or self._bytes + item.size > QUEUED_BYTES):
            self._taken = anyio.Event()
            await self._taken.wait()
        self._items.append(item)
        self._bytes += item.size
        self._put += 1
        self._filled.set()

    def mark(self, reached: Callable[[], None]) -> None:
        """Call ``reached`` once the reader is done with what was put in before now, and before it takes what is put in after."""
        self._items.append(reached)
        self._put += 1
        self._filled.set()

    def close(self) -> None:
        """Nothing more will come."""
        self._closed = True
        self._filled.set()

    def abandon(self) -> None:
        """The reader takes nothing more."""
        self._abandoned = True
        self._progress.set()

    async def caught_up(self) -> None:
        """Wait until the reader is done with everything that was put in before now, or takes nothing more."""
        goal = self._put
        while self._handled < goal and not self._abandoned:
            if self._progress.is_set():
                self._progress = anyio.Event()
            await self._progress.wait()

    def __aiter__(self) -> NotificationQueue:
        return self

    async def __anext__(self) -> Notification:
        while True:
            self._handled = self._put - len(self._items)  # who asks for the next is done with the one before
            self._progress.set()
            while not self._items:
                if self._closed:
                    raise StopAsyncIteration
                self._filled = anyio.Event()
                await self._filled.wait()
            item = self._items.popleft()
            if isinstance(item, Notification):
                break
            item()
        self._bytes -= item.size
        self._taken.set()
        return item


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: deque[bytes] = deque()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Append, and forget what lies more than the limit before the end."""
        self._parts.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._parts[0]) >= self._limit:
            self._size -= len(self._parts.popleft())

    def text(self) -> str:
        """Return it as text without control characters."""
        return plain(b"".join(self._parts)[-self._limit :].decode(errors="replace"), self._limit)


class Waiter:
    """One request that waits for its answer."""

    __slots__ = ("answered", "done", "error", "result")

    def __init__(self, answered: Callable[[], None] | None) -> None:
        self.answered = answered
        self.done = anyio.Event()
        self.result: Any = None
        self.error: JamError | None = None

    def settle(self, result: Any, error: JamError | None) -> None:  # noqa: ANN401 - JSON
        """Hand over the answer."""
        self.result, self.error = result, error
        self.done.set()
