"""One running turn: its events on their way from the connection to whoever runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

import anyio

from jamcore.api import (
    CommandFinished,
    CommandOutput,
    CommandStarted,
    JamError,
    ProviderEvent,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)

EARLY_EVENTS = 64
"""Warnings that wait for a turn's start; a real turn has one or two, and more are dropped."""
OPEN_COMMANDS = 1_024
"""Commands of one turn that are waited for after an interrupt."""
EVENTS_AHEAD = 256
"""Events that wait for a slow consumer; then Codex's output is no longer read, and it stops when its pipe is full."""


class Turn:
    """The stream of one turn.

    ``TurnStarted`` comes first: what arrives before Codex holds the person's message (warnings) waits for it. The end mark comes last
    and can be held back, so that an interrupt first ends what the turn left running.
    """

    def __init__(self) -> None:
        self.provider_turn: str | None = None
        self.running = anyio.Event()
        """Set once the provider's own id of the turn is known, or the turn is over."""
        self.over = anyio.Event()
        """Set once Codex sent the end mark, or the connection is gone, or the turn never began."""
        self._send, self._receive = anyio.create_memory_object_stream[ProviderEvent](EVENTS_AHEAD)
        self._early: list[ProviderEvent] | None = []
        self._commands: set[str] = set()
        self._quiet = anyio.Event()
        self._holds = 0
        self._end: TurnEnded | None = None  # not in the stream: it must never wait for room
        self._end_given = False
        self._error: JamError | None = None

    # ------------------------------------------------------------------------------------------------- connection's side

    def begins(self, provider_turn: str) -> None:
        """Learn the provider's id of the turn."""
        self.provider_turn = provider_turn
        self.running.set()

    async def take(self, event: ProviderEvent, provider_turn: str | None) -> None:
        """Pass an event on. ``provider_turn`` is the turn that it names, if it names one.

        A command of an earlier turn may still speak and end in this one; nothing else of another turn belongs here.
        """
        foreign = provider_turn is not None and provider_turn != self.provider_turn
        if foreign and not isinstance(event, CommandOutput | CommandFinished):
            return
        match event:
            case TurnEnded():
                await self._finish(event)
            case TurnStarted():
                await self._open(event)
            case _ if self._early is not None:
                self._early += (event,) if len(self._early) < EARLY_EVENTS else ()
            case _:
                await self._emit(event)
        self._count(event)  # last: who waits for quiet then closes the stream

    def fail(self, error: JamError) -> None:
        """End the stream with ``error`` after what was already taken. Does nothing once the turn is over."""
        if self._end is None and self._error is None:
            self._error = error
            self._close()

    # --------------------------------------------------------------------------------------------------- runtime's side

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

    async def quiet(self) -> None:
        """Wait until every command that the turn started has ended."""
        while self._commands:
            self._quiet = anyio.Event()
            await self._quiet.wait()

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
            return await self._receive.receive()

    def _count(self, event: ProviderEvent) -> None:
        if isinstance(event, CommandStarted) and len(self._commands) < OPEN_COMMANDS:
            self._commands.add(event.item)
        elif isinstance(event, CommandFinished):
            self._commands.discard(event.item)
            if not self._commands:
                self._quiet.set()

    async def _open(self, event: TurnStarted) -> None:
        early, self._early = self._early, None
        if early is None:
            return  # a second message of the person in one turn: it has begun already
        for part in (event, *early):
            await self._emit(part)

    async def _finish(self, end: TurnEnded) -> None:
        if self._end is not None:
            return
        if self._early is not None and end.outcome is TurnOutcome.COMPLETED and self.provider_turn is not None:
            await self._open(TurnStarted(provider_turn=self.provider_turn))
        early, self._early = self._early or [], None
        for part in early:
            await self._emit(part)
        self._end = end
        self.running.set()
        self.over.set()
        if self._holds == 0:
            self._send.close()

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
        self.running.set()
        self.over.set()
