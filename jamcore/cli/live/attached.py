"""A person at a terminal that can be drawn on, in a room."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import anyio

from jamcore.cli.attached import Attached
from jamcore.cli.events import Past
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session
from jamcore.cli.live.history import RoomHistory
from jamcore.cli.live.screen import Below, Screen
from jamcore.cli.live.status import ASKS, WORKING, Status
from jamcore.cli.live.view import LiveView
from jamcore.cli.output import Output
from jamcore.cli.slash import Next
from jamcore.control.client import JamClient
from jamcore.domain.errors import JamError
from jamcore.domain.events import RoomEvent, TurnStateChanged
from jamcore.domain.requests import RoomView, SessionInspection
from jamcore.domain.sessions import TurnState
from jamcore.system.clock import Clock, SystemClock


class LiveAttached(Attached):
    """One person in one room, at a terminal that this process draws on."""

    def __init__(
        self, session: Session, client: JamClient, ref: str, history: int, *, view: RoomView, clock: Clock | None = None
    ) -> None:
        """Take the room and how it stands."""
        super().__init__(session, client, ref, history, watch=False)
        self._clock = clock or SystemClock()
        self._told_to_end = False
        self._status = Status.of(view)
        self._events = LiveView(self._output, ref=ref)
        below = Below(
            running=lambda: self._events.folds.running,
            busy=lambda: self._status.state in {WORKING, ASKS},
            prompt=lambda: "allow? > " if self._status.state == ASKS else "> ",
            status=lambda: self._status.line(self._clock.now()),
        )
        self._screen = Screen(below, history=RoomHistory(session.directory, view.room.id), interrupted=self._guard.pressed)

    async def _talk(self, past: Past, view: RoomView) -> None:
        # Before the terminal is changed: whatever ends this process from outside, it is changed back.
        with self._printing(), anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as ends:
            async with self._screen.shown(), anyio.create_task_group() as tasks:
                self._greet(view)
                tasks.start_soon(self._show, past)
                tasks.start_soon(self._end, ends, tasks.cancel_scope)
                await self._read(self._screen.typed)
                tasks.cancel_scope.cancel()

    def _outcome(self) -> Exit:
        return Exit.INTERRUPTED if self._told_to_end else Exit.OK

    @contextmanager
    def _printing(self) -> Iterator[None]:
        """Let everything that prints print above the line to type in."""
        plain = self._output
        self._output = self._session.output = Output(json=False, out=self._screen.stream, err=self._screen.stream)
        try:
            yield
        finally:
            self._output = self._session.output = plain

    async def _end(self, signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope) -> None:
        """Leave when this process is told to end, or when the terminal goes away."""
        await anext(signals)
        self._told_to_end = True
        scope.cancel()

    def _view(self, past: Past) -> LiveView:
        self._events = LiveView(self._output, ref=self._ref, past=past)
        return self._events

    async def _shown(self, event: RoomEvent, *, is_past: bool) -> None:
        self._status = self._status.after(event, past=is_past)
        if not is_past and isinstance(event.payload, TurnStateChanged) and event.payload.state == TurnState.CAPTURED:
            with suppress(JamError):
                self._status = self._status.proven(await self._client.inspect(self._ref))
        await self._screen.drained()

    async def _inspected(self) -> SessionInspection:
        found = await super()._inspected()
        self._status = self._status.proven(found)
        return found

    async def _slash(self, line: str) -> Next:
        self._output.note(f"> {line}")
        return await super()._slash(line)

    def _unfold(self, word: str) -> bool:
        return self._events.unfold(word)

    def _refused(self, line: str) -> None:
        self._screen.restore(line)
