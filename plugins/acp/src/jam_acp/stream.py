"""The events of one running turn on their way from the connection to whoever runs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import anyio

from jamcore.api import JamError, Notice, ProviderEvent, TurnEnded, TurnStarted

EVENTS_AHEAD = 256
"""Events that wait for a slow consumer; then the agent's output is no longer read, and it stops when its pipe is full."""
EARLY_NOTICES = 64
"""Warnings that wait for a turn's start; more are dropped."""


class TurnStream:
    """The stream of one turn: ``TurnStarted`` first, what is said before it waits, and the end mark last, whoever is slow."""

    def __init__(self, provider_turn: str) -> None:
        self.provider_turn = provider_turn
        self.started = False
        self.stopping = anyio.Event()
        """Set once somebody wants the turn to end: nothing is waited for any more."""
        self.over = anyio.Event()
        """Set once the provider ended the turn, or the connection is gone."""
        self._send, self._receive = anyio.create_memory_object_stream[ProviderEvent](EVENTS_AHEAD)
        self._early: list[Notice] = []
        self._end: TurnEnded | None = None  # not in the stream: it must never wait for room
        self._end_given = False
        self._error: JamError | None = None

    # ------------------------------------------------------------------------------------------------- connection's side

    async def start(self) -> None:
        """Say that the provider has taken the turn. Does nothing the second time."""
        if not self.started:
            self.started = True
            early, self._early = self._early, []
            await self._emit(TurnStarted(provider_turn=self.provider_turn))
            for event in early:
                await self._emit(event)

    async def take(self, event: ProviderEvent) -> None:
        """Pass an event on. A notice may come before the start, and waits for it; anything else is the start."""
        if not self.started and isinstance(event, Notice):
            self._early += (event,) if len(self._early) < EARLY_NOTICES else ()
            return
        await self.start()
        await self._emit(event)

    async def finish(self, end: TurnEnded) -> None:
        """End the stream. A turn that never began keeps what was said of it."""
        if self.over.is_set():
            return
        for event in self._early:
            await self._emit(event)
        self._end = end
        self._close()

    def fail(self, error: JamError) -> None:
        """End the stream with ``error`` after what was already taken. Does nothing once the turn is over."""
        if not self.over.is_set():
            self._error = error
            self._close()

    # -------------------------------------------------------------------------------------------------- consumer's side

    def leave(self) -> None:
        """The consumer is gone: what still comes is dropped, so that it blocks nobody."""
        self._receive.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ProviderEvent:
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
        """Take what is there without a pause: a pause for each delta would cost more than the delta."""
        try:
            return self._receive.receive_nowait()
        except anyio.WouldBlock:
            return await self._receive.receive()

    async def _emit(self, event: ProviderEvent) -> None:
        try:
            try:
                self._send.send_nowait(event)  # see _next
            except anyio.WouldBlock:
                await self._send.send(event)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # nobody listens any more

    def _close(self) -> None:
        self._send.close()
        self.over.set()
