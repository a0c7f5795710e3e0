"""A person, or a program, in a room: lines in, events out. The live terminal (:mod:`jamcore.cli.live`) is a special case of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID

import anyio

from jamcore.cli.approvals import Asking
from jamcore.cli.engines import warn
from jamcore.cli.events import ENDED, EventView, Past
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session
from jamcore.cli.lines import read_lines
from jamcore.cli.signals import Interruptible
from jamcore.cli.slash import HELP, Next, Slash
from jamcore.cli.standing import AHEAD, standing
from jamcore.cli.views import room_state
from jamcore.cli.words import quoted
from jamcore.control.client import JamClient
from jamcore.domain.errors import JamError
from jamcore.domain.events import RoomEvent, SessionNotice, TurnStateChanged
from jamcore.domain.requests import RoomView, SessionInspection, TurnRequest
from jamcore.domain.sessions import TurnState

WELL = frozenset({TurnState.CAPTURED, TurnState.COMPLETED})


class Attached:
    """One person in one room, line by line."""

    def __init__(self, session: Session, client: JamClient, ref: str, history: int, *, watch: bool) -> None:
        """Take the room.

        Args:
            session: The command's.
            client: The command's.
            ref: How the person calls the room.
            history: With how many past events to begin.
            watch: Whether nothing is read.
        """
        self._session = session
        self._output = session.output
        self._client = client
        self._ref = ref
        self._history = history
        self._watch = watch
        self._mine: set[UUID | None] = set()
        self._pressing = False
        self._interrupted: UUID | None = None
        self._ended: dict[UUID | None, str] = {}
        self._turn_ended = anyio.Event()
        self._ahead = ""
        self._caught_up = anyio.Event()
        self._asking = Asking(session, client, ref, watch=watch)
        self._guard = Interruptible(self._work, self._press)

    async def run(self) -> Exit:
        """Stay until the person leaves; return the status of the command."""
        left = await self._guard.run()
        self._output.note(f"Left; the room goes on. Come back with: jam attach {quoted(self._ref)}", "bold")
        return Exit.INTERRUPTED if left is None else left

    async def _work(self) -> Exit:
        """Show and read until the person leaves; a refusal of the stream ends it too."""
        view = await self._client.room(self._ref)
        past = Past.of(view, await self._client.turns(self._ref))
        await self._talk(past, view)
        return self._outcome()

    async def _talk(self, past: Past, view: RoomView) -> None:
        self._greet(view)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show, past)
            if self._watch:
                await anyio.sleep_forever()
            async with aclosing(read_lines(sys.stdin.fileno())) as lines:
                await self._read(lines)
            if not sys.stdin.isatty():
                await self._answered()  # who pipes messages in wants their answers
            tasks.cancel_scope.cancel()

    def _outcome(self) -> Exit:
        """Return how the messages of a pipe ended: the worst of it. What a person saw at a terminal needs no status."""
        ended = {self._ended.get(turn) for turn in self._mine}
        return Exit.OK if sys.stdin.isatty() or ended <= WELL else Exit.NOT_WELL

    # ----------------------------------------------------------------------------------------------------------------- what is shown

    def _greet(self, view: RoomView) -> None:
        self._output.note(f"{view.room.name}: {view.host.provider} in {view.host.engine}, {room_state(view)}", "bold")
        warn(self._output, view)
        if not self._watch:
            self._output.note(HELP)

    def _view(self, past: Past) -> EventView:
        return EventView(self._output, ref=self._ref, mine=self._mine, past=past, how_to_answer=not self._asking.prompts)

    async def _show(self, past: Past) -> None:
        view = self._view(past)
        after = await self._asking.begin(past.last_seq, self._history)
        if after >= past.last_seq:
            await self._stands()
        async with aclosing(self._client.events(self._ref, after=after)) as events:
            async for event in events:
                view.show(event)
                self._note(event)
                self._asking.heard(event)
                if event.seq == past.last_seq:
                    view.close()
                    await self._stands()
                await self._shown(event, is_past=event.seq <= past.last_seq)

    def _note(self, event: RoomEvent) -> None:
        payload = event.payload
        if isinstance(payload, SessionNotice) and payload.code == AHEAD:
            self._ahead = payload.detail
        if isinstance(payload, TurnStateChanged) and payload.state in ENDED:
            self._ahead = "" if payload.state == TurnState.CAPTURED else self._ahead
            self._ended.setdefault(event.turn_id, payload.state)
            self._turn_ended.set()

    async def _shown(self, event: RoomEvent, *, is_past: bool) -> None:
        """Do what else follows an event; nothing, line by line."""

    async def _stands(self) -> None:
        """Say how the conversation stands, once all that is past was shown."""
        if not self._output.json:
            self._output.note(*standing(await self._inspected(), ahead=self._ahead))
        self._caught_up.set()

    async def _inspected(self) -> SessionInspection:
        return await self._client.inspect(self._ref)

    async def _answered(self) -> None:
        """Wait until the past was shown, which is all that an empty pipe asks for, and each message answered."""
        await self._caught_up.wait()
        while not self._mine <= self._ended.keys():
            self._turn_ended = anyio.Event()
            await self._turn_ended.wait()

    # ------------------------------------------------------------------------------------------------------------------ what is typed

    async def _read(self, lines: AsyncIterator[str]) -> None:
        async for line in lines:
            if line.strip() and not await self._asking.answered(line) and await self._handle(line) is Next.LEAVE:
                return

    async def _handle(self, line: str) -> Next:
        if line.startswith("/"):
            return await self._slash(line)
        request = TurnRequest(id=self._session.ids.uuid(), text=line)
        self._mine.add(request.id)
        try:
            await self._client.say(self._ref, request)
        except JamError as error:
            self._mine.discard(request.id)
            self._output.problem(error)
            self._refused(line)
        return Next.STAY

    async def _slash(self, line: str) -> Next:
        try:
            return await Slash(self._session, self._client, self._ref, self._unfold).run(line)
        except JamError as error:
            self._output.problem(error)
            return Next.STAY

    def _unfold(self, word: str) -> bool:
        """Show one piece of work again; line by line, all of it was shown."""
        del word
        return False

    def _refused(self, line: str) -> None:
        """Do what else follows a message that was not accepted; nothing, line by line."""

    async def _press(self) -> bool:
        """Interrupt what runs and stay; leave when nothing runs, or at once when an earlier Ctrl-C still waits."""
        if self._pressing:
            return False
        self._pressing = True
        try:
            view = await self._client.room(self._ref)
            running = view.last_turn.id if view.busy and view.last_turn else None
            if running in {None, self._interrupted}:
                return False
            self._interrupted = running
            self._output.note("Interrupting the turn … (Ctrl-C again leaves and lets it go on)", "bold")
            await self._client.interrupt(self._ref)
        except JamError as error:
            self._output.problem(error)
            return False
        else:
            return True
        finally:
            self._pressing = False
