"""``jam room attach`` and ``jam attach``."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import Annotated
from uuid import UUID

import anyio
import typer

from jamcore.cli.approvals import Asking
from jamcore.cli.engines import warn
from jamcore.cli.events import ENDED, EventView, Past
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.lines import read_lines
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.signals import Interruptible
from jamcore.cli.views import room_state
from jamcore.control.client import JamClient
from jamcore.domain.errors import JamError
from jamcore.domain.events import TurnStateChanged
from jamcore.domain.requests import RoomView, TurnRequest

HELP = "A line is said to the agent; end it with \\ to go on in the next. /interrupt  /quit (or Ctrl-D)  /help"


def command(
    room: RoomArgument,
    history: Annotated[int, typer.Option(metavar="N", min=0, help="Begin with this many past events.")] = 200,
    watch: Annotated[bool, typer.Option("--watch", help="Only watch; read nothing.")] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Watch a room live, and talk in it: each line that you type is a message.

    Ctrl-C interrupts the turn that runs; a second one, or one when none runs, leaves. The room goes on either way.

    With --json each event is a line `{"event": …}`.
    """

    async def work(session: Session) -> Exit:
        return await _Attached(session, session.client(), room, history, watch=watch).run()

    invoke(work, json=json, directory=app_directory)


class _Attached:
    """One person in one room."""

    def __init__(self, session: Session, client: JamClient, ref: str, history: int, *, watch: bool) -> None:
        self._session = session
        self._output = session.output
        self._client = client
        self._ref = ref
        self._history = history
        self._watch = watch
        self._mine: set[UUID | None] = set()
        self._pressing = False
        self._interrupted: UUID | None = None
        self._ended: set[UUID | None] = set()
        self._turn_ended = anyio.Event()
        self._asking = Asking(session, client, ref, watch=watch)

    async def run(self) -> Exit:
        view = await self._client.room(self._ref)
        self._greet(view)
        past = Past.of(view, await self._client.turns(self._ref))
        left_by_choice = await Interruptible(lambda: self._both(past), self._press).run()
        self._output.note(f"Left; the room goes on. Come back with: jam attach {self._ref}", "bold")
        return Exit.OK if left_by_choice else Exit.INTERRUPTED

    def _greet(self, view: RoomView) -> None:
        self._output.note(f"{view.room.name}: {view.host.provider} in {view.host.engine}, {room_state(view)}", "bold")
        warn(self._output, view)
        if not self._watch:
            self._output.note(HELP)

    async def _both(self, past: Past) -> bool:
        """Show and read until the person leaves; a refusal of the stream ends it too."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show, past)
            if self._watch:
                await anyio.sleep_forever()
            await self._read()
            if not sys.stdin.isatty():
                await self._answered()  # who pipes messages in wants their answers
            tasks.cancel_scope.cancel()
        return True

    async def _show(self, past: Past) -> None:
        view = EventView(self._output, ref=self._ref, mine=self._mine, past=past, how_to_answer=not self._asking.prompts)
        after = await self._asking.begin(past.last_seq, self._history)
        async with aclosing(self._client.events(self._ref, after=after)) as events:
            async for event in events:
                view.show(event)
                self._asking.heard(event)
                if isinstance(event.payload, TurnStateChanged) and event.payload.state in ENDED:
                    self._ended.add(event.turn_id)
                    self._turn_ended.set()

    async def _answered(self) -> None:
        while not self._mine <= self._ended:
            self._turn_ended = anyio.Event()
            await self._turn_ended.wait()

    async def _read(self) -> None:
        async with aclosing(read_lines(sys.stdin.fileno())) as lines:
            async for line in lines:
                if line.strip() == "/quit":
                    return
                if line.strip() and not await self._asking.answered(line):
                    await self._handle(line)

    async def _handle(self, line: str) -> None:
        request = TurnRequest(id=self._session.ids.uuid(), text=line)
        try:
            if line.strip() == "/interrupt":
                await self._client.interrupt(self._ref)
            elif line.startswith("/"):
                self._output.note(HELP)
            else:
                self._mine.add(request.id)
                await self._client.say(self._ref, request)
        except JamError as error:
            self._mine.discard(request.id)
            self._output.problem(error)

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
