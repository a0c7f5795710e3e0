"""One running turn: its events on their way from the connection to whoever runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Self

import anyio

from jamcore.api import JamError, Notice, ProviderEvent, TurnEnded, TurnStarted

EARLY_EVENTS = 64
"""Notices that wait for a turn's start; a real turn has one or two, and more are dropped."""
LOOK_S = 0.1
"""While a model thinks about its first word, it is looked this often whether the person's text is kept."""
EVENTS_AHEAD = 256
"""Events that wait for a slow consumer; then the program's output is no longer read, and it stops when its pipe is full."""


class Turn:
    """The stream of one turn.

    ``TurnStarted`` comes first: what arrives before the program holds the person's message waits for it. The end mark comes last.

    Args:
        provider_turn: The turn's id.
        look: Called every so often while nothing is heard, until the turn has started; it may start it.
    """

    def __init__(self, provider_turn: str, *, look: Callable[[Turn], Awaitable[None]]) -> None:
        self.provider_turn = provider_turn
        self.sent = False
        """Whether the person's message was handed over."""
        self.begun = False
        """Whether the program works on it; until then what the program says belongs to something else."""
        self.over = anyio.Event()
        """Set once the program sent the end mark, or the connection is gone, or the turn never began."""
        self._send, self._receive = anyio.create_memory_object_stream[ProviderEvent](EVENTS_AHEAD)
        self._early: list[ProviderEvent] | None = []
        self._end: TurnEnded | None = None  # not in the stream: it must never wait for room
        self._end_given = False
        self._error: JamError | None = None
        self._look = look

    # ------------------------------------------------------------------------------------------------- connection's side

    @property
    def started(self) -> bool:
        """Whether ``TurnStarted`` was said."""
        return self._early is None

    async def start(self) -> None:
        """Say that the program holds the person's message. Once is enough."""
        early, self._early = self._early, None
        for part in () if early is None else (TurnStarted(provider_turn=self.provider_turn), *early):
            await self._emit(part)

    async def take(self, event: ProviderEvent) -> None:
        """Pass an event on."""
        if self._early is None:
            await self._emit(event)
        elif len(self._early) < EARLY_EVENTS:
            self._early.append(event)

    async def end(self, mark: TurnEnded) -> None:
        """End the stream with the program's end mark, after what waited for a start that never came."""
        if self.over.is_set():
            return
        early, self._early = self._early or [], None
        for part in early:
            if isinstance(part, Notice):
                await self._emit(part)
        self._end = mark
        self._close()

    def fail(self, error: JamError) -> None:
        """End the stream with ``error`` after what was already taken. Does nothing once the turn is over."""
        if not self.over.is_set():
            self._error = error
            self._close()

    # --------------------------------------------------------------------------------------------------- runtime's side

    def leave(self) -> None:
        """The consumer is gone: what still comes is dropped, so that it blocks nobody."""
        self._receive.close()

    # -------------------------------------------------------------------------------------------------- consumer's side

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
        """Take what is there without a pause: a pause for each delta would cost more than the delta. At most EVENTS_AHEAD are there."""
        try:
            return self._receive.receive_nowait()
        except anyio.WouldBlock:
            while not self.started:
                with anyio.move_on_after(LOOK_S):
                    return await self._receive.receive()
                await self._look(self)
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
