"""One running turn: its events on their way from a provider's connection to whoever runs it, in bounded memory.

The connection's side gives (``accept``, ``start``, ``take``, ``finish``, ``fail``), the consumer's side iterates, and neither waits for the
other without end: a slow consumer slows the provider down, one that is gone holds nobody up, and the end mark waits for no room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Self

import anyio

from jamcore.domain.errors import JamError
from jamcore.domain.events import Notice, ProviderEvent, TurnEnded, TurnOutcome, TurnStarted
from jamcore.domain.providers import ProviderTimeoutError

EARLY_EVENTS = 64
"""Events that wait for a turn's start; a real turn has one or two, and more are dropped."""
EVENTS_AHEAD = 256
"""Events that wait for a slow consumer; then the provider's output is no longer read, and it stops when its pipe is full."""
LEAVE_S = 15.0
"""Leaving a running turn, all in all: less than the finalisation of a runtime."""

Interrupt = Callable[[], Awaitable[None]]
"""Ends a running turn at the provider, and returns when it has ended."""
GiveUp = Callable[[JamError], object]
"""Makes the program that runs a turn one that is lost, so that its rooms come back with another: :meth:`ProgramRuntime.end`."""


class TurnStream:
    """The stream of one turn: ``TurnStarted`` first, what comes before it waits for it, and the end mark last.

    What is peculiar to one provider, an override adds to :meth:`take` or :meth:`receive`.

    Args:
        provider_turn: The turn's id, where it is known before the provider has the person's message.
    """

    def __init__(self, provider_turn: str = "") -> None:
        self.provider_turn = provider_turn
        """The provider's id of the turn; empty while it is not known."""
        self.started = False
        """Whether ``TurnStarted`` was said."""
        self.accepted = anyio.Event()
        """Set once the provider has said which turn it is, or the turn is over."""
        self.over = anyio.Event()
        """Set once the provider sent the end mark, or the connection is gone, or the turn never began: nothing more will be said of it.

        To wait for after an interrupt was sent, and set before the consumer has read the last event."""
        self._send, self._receive = anyio.create_memory_object_stream[ProviderEvent](EVENTS_AHEAD)
        self._early: list[ProviderEvent] = []
        self._holds = 0
        self._stopping = anyio.Lock()
        self._end: TurnEnded | None = None  # not in the stream: it must never wait for room
        self._end_given = False
        self._error: JamError | None = None

    # ------------------------------------------------------------------------------------------------- connection's side

    def accept(self, provider_turn: str) -> None:
        """Learn the provider's id of the turn."""
        self.provider_turn = provider_turn
        self.accepted.set()

    async def start(self) -> None:
        """Say that the provider holds the person's message, then what waited for that. Does nothing the second time, or after the end."""
        if self.started or self.over.is_set():
            return
        self.started = True
        early, self._early = self._early, []
        for event in (TurnStarted(provider_turn=self.provider_turn), *early):
            await self._emit(event)

    async def take(self, event: ProviderEvent) -> None:
        """Pass an event on; it waits where the turn has not started. ``TurnStarted`` is the start, and ``TurnEnded`` the end."""
        match event:
            case TurnStarted():
                self.provider_turn = self.provider_turn or event.provider_turn
                await self.start()
            case TurnEnded():
                await self.finish(event)
            case _ if self.started or self.over.is_set():
                await self._emit(event)
            case _ if len(self._early) < EARLY_EVENTS:
                self._early.append(event)
            case _:
                pass

    async def finish(self, end: TurnEnded) -> None:
        """End the stream with the end mark; only the first counts. A turn that completed has started, whether or not that was heard.

        Of one that ended before it started, only what is for people to read is kept.
        """
        if end.outcome is TurnOutcome.COMPLETED and self.provider_turn:
            await self.start()
        early, self._early = self._early, []
        for event in early:
            if isinstance(event, Notice):
                await self._emit(event)
        if self.over.is_set():
            return  # before, or while a notice was passed on
        self._end = end
        self._settle()
        if self._holds == 0:
            self._send.close()

    def fail(self, error: JamError) -> None:
        """End the stream with ``error`` after what was already taken. Does nothing once the turn is over."""
        if not self.over.is_set():
            self._error = error
            self._settle()
            self._send.close()

    # --------------------------------------------------------------------------------------------------- runtime's side

    @asynccontextmanager
    async def running(self, interrupt: Interrupt, give_up: GiveUp) -> AsyncIterator[Self]:
        """Have the turn run for the length of the block: its consumer is there, and what still runs behind the block is interrupted.

        A failure of that must not hide why the block was left; the stream ends with it, and so does the program.

        Args:
            interrupt: Ends the turn at the provider.
            give_up: Told of a turn that could not be ended. It goes on working for nobody, and its thread would refuse every further turn.
        """
        try:
            yield self
        finally:
            self.leave()
            error: JamError = ProviderTimeoutError(provider="", request="interrupt", limit_s=LEAVE_S)
            with anyio.CancelScope(shield=True), anyio.move_on_after(LEAVE_S):
                try:
                    await self.stop(interrupt)
                except JamError as failed:
                    error = failed
            if not self.over.is_set():
                self.fail(error)
                give_up(error)

    async def stop(self, interrupt: Interrupt) -> None:
        """Interrupt the turn, once at a time, and hold its end mark back meanwhile. Does nothing once it is over.

        Raises:
            JamError: What ``interrupt`` raises.
        """
        async with self._stopping:
            if not self.over.is_set():
                with self.held_open():
                    await interrupt()

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Hold the end mark back inside the block, for what the turn left running to end before it."""
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
        """Take what is there without a pause: a pause for each delta would cost more than the delta. At most EVENTS_AHEAD are there."""
        try:
            try:
                return self._receive.receive_nowait()
            except anyio.WouldBlock:
                return await self.receive()
        except anyio.EndOfStream:
            if self._error is not None:
                raise replace(self._error) from None
            if self._end is None or self._end_given:
                raise StopAsyncIteration from None
            self._end_given = True
            return self._end

    async def receive(self) -> ProviderEvent:
        """Wait for the next event. May be cancelled and called again.

        Raises:
            anyio.EndOfStream: All that was taken was received, and the turn is over.
        """
        return await self._receive.receive()

    # ------------------------------------------------------------------------------------------------------------ parts

    async def _emit(self, event: ProviderEvent) -> None:
        try:
            try:
                self._send.send_nowait(event)  # see __anext__
            except anyio.WouldBlock:
                await self._send.send(event)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # nobody listens any more

    def _settle(self) -> None:
        self.accepted.set()
        self.over.set()
