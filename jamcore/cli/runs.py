"""One run as `jam run` shows it: its turn live, then the change request."""

from __future__ import annotations

from contextlib import aclosing
from uuid import UUID

import anyio

from jamcore.cli.exits import Exit
from jamcore.cli.follow import TurnWatch, exit_of_turn
from jamcore.cli.invoke import Session
from jamcore.cli.rooms import making
from jamcore.cli.signals import Interruptible, second_leaves
from jamcore.cli.views import show_change
from jamcore.cli.words import quoted
from jamcore.control.client import JamClient
from jamcore.domain.events import SessionNotice
from jamcore.domain.requests import RunRequest, RunView

CHANGE_WAIT_S = 120.0
"""Building a change request reads the whole work tree; beyond this something is wrong, and it can be looked up later."""
BUILT = frozenset({"run.change-request", "run.no-change-request"})
"""The room's notice that a run has ended, with its change request or without one."""


class ShownRun:
    """One run of this command line, from its start to its report."""

    def __init__(self, session: Session, client: JamClient, request: RunRequest) -> None:
        self._session = session
        self._output = session.output
        self._client = client
        self._request = request

    async def go(self, *, detach: bool) -> Exit:
        """Start it, show its turn unless it is detached, and report."""
        with self._output.ticker.during(f"opening a room with {self._request.room.provider}"):
            await self._client.health()  # a start has no deadline, so a daemon that is stuck is found out before
            asked = self._request.room
            made = making(
                self._output, self._client, asked.id, lambda: self._client.start_run(self._request), provider=asked.provider
            )
            view = await Interruptible(made, second_leaves(self._still_starting)).run()
        if view is None:
            self._output.note(f"Detached; the run goes on: jam attach {self._request.id}", "bold")
            return Exit.INTERRUPTED
        self._output.note(f"{view.room.host.provider} in {view.room.host.engine}, room {view.room.room.name}")
        if detach:
            return self._detached(view)
        watch = TurnWatch(self._session, self._client, ref=str(self._request.id), turn=self._request.turn_id, after=0)
        turn = await watch.run()
        if turn is None:
            return Exit.INTERRUPTED
        if watch.in_doubt:
            self._undecided(await self._client.run(str(self._request.id)))
            return Exit.NOT_WELL
        self._report(await self._with_change(watch.last_seq))
        return exit_of_turn(turn)

    async def _still_starting(self) -> None:
        self._output.note("The sandbox is still starting. Ctrl-C again detaches; the run goes on.", "bold")

    async def _with_change(self, after: int) -> RunView:
        """Wait until the daemon says that it has built the change request, or that it could not."""
        ref = str(self._request.id)
        with self._output.ticker.during("building the change request"), anyio.move_on_after(CHANGE_WAIT_S):
            async with aclosing(self._client.events(ref, after=after)) as events:
                async for event in events:
                    if isinstance(event.payload, SessionNotice) and event.payload.code in BUILT:
                        break
        return await self._client.run(ref)

    def _undecided(self, view: RunView) -> None:
        """The change request comes when the room is back: no sooner is it known how the turn ended."""
        if self._output.json:
            self._output.json_line({"run": view})

    def _report(self, view: RunView) -> None:
        if self._output.json:
            self._output.json_line({"run": view})
        elif view.change is None:
            self._output.note(f"There is no change request; see: jam attach {quoted(view.room.room.name)}", "yellow")
        else:
            show_change(self._output, view.change)
            self._output.note(f"Look at the patch:   jam change show {view.change.id}")
            self._output.note(f"Talk with the agent: jam attach {quoted(view.room.room.name)}")

    def _detached(self, view: RunView) -> Exit:
        identifier: UUID = view.room.room.id
        if self._output.json:
            self._output.document(view)
        else:
            self._output.line(str(identifier))
            self._output.note(f"Watch it: jam attach {quoted(view.room.room.name)}    Result: jam change ls")
        return Exit.OK
