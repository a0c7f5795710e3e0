"""One running turn: its events on their way from the connection to whoever runs it. Nothing here is Copilot's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

import anyio

from jamcore.api import JamError, ProviderEvent, TurnEnded

EVENTS_AHEAD = 256
"""Events that wait for a slow consumer; then the program's output is no longer read, and it stops when its pipe is full."""


class Turn:
    """The stream of one turn: what it is begun with first, and the end mark last, however slow the consumer is.

    The end mark can be held back, so that an interrupt first ends what the turn left running.
    """

    def __init__(self) -> None:
        self.accepted = anyio.Event()
        """Set once the provider has the person's message, or the turn is over."""
        self.over = anyio.Event()
        """Set once the provider sent the end mark, or the connection is gone, or the turn never began."""
        self._send, self._receive = anyio.create_memory_object_stream[ProviderEvent](EVENTS_AHEAD)
        self._first: deque[ProviderEvent] = deque()
        self._holds = 0
        self._end: TurnEnded | None = None  # not in the stream: it must never wait for room
        self._end_given = False
        self._error: JamError | None = None

    # ------------------------------------------------------------------------------------------------- connection's side

    async def take(self, event: ProviderEvent) -> None:
        """Pass an event on; the first end mark ends the turn."""
        if isinstance(event, TurnEnded):
            self._finish(event)
            return
        try:
            try:
                self._send.send_nowait(event)  # see _next
            except anyio.WouldBlock:
                await self._send.send(event)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # nobody listens any more

    def fail(self, error: JamError) -> None:
        """End the stream with ``error`` after what was already taken. Does nothing once the turn is over."""
        if self._end is None and self._error is None:
            self._error = error
            self._send.close()
            self._settle()

    # --------------------------------------------------------------------------------------------------- runtime's side

    def begin(self, *events: ProviderEvent) -> None:
        """Give the stream its first events, before all that was taken. To be called before anything is read from it."""
        self._first += events

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Hold the end mark back inside the block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if self._holds == 0 and self._end is not None:
                self._send.close()

    def leave(self) -> None:
        """The consumer is gone: what still comes is dropped, so that it blocks nobody."""
        self._receive.close()

    # -------------------------------------------------------------------------------------------------- consumer's side

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ProviderEvent:
        if self._first:
            return self._first.popleft()
        try:
            return await self._next()
        except anyio.EndOfStream:
            if self._error is not None:
                raise replace(self._error) from None
            if self._end is None or self._end_given:
                raise StopAsyncIteration from None
            self._end_given = True
            return self._end

    # ------------------------------------------------------------------------------------------------------------ parts

    async def _next(self) -> ProviderEvent:
        """Take what is there without a pause: a pause for each delta would cost more than the delta. At most EVENTS_AHEAD are there."""
        try:
            return self._receive.receive_nowait()
        except anyio.WouldBlock:
            return await self._receive.receive()

    def _finish(self, end: TurnEnded) -> None:
        if self._end is None and self._error is None:
            self._end = end
            self._settle()
            if self._holds == 0:
                self._send.close()

    def _settle(self) -> None:
        self.accepted.set()
        self.over.set()
