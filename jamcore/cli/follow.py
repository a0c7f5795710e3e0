"""Following one turn to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from uuid import UUID

import anyio

from jamcore.cli.events import EventView
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session
from jamcore.cli.signals import Interruptible, second_leaves
from jamcore.cli.words import quoted
from jamcore.control.client import JamClient
from jamcore.domain.errors import JamError, NotFoundError
from jamcore.domain.events import IN_DOUBT, RoomEvent, SessionNotice, TurnStateChanged
from jamcore.domain.sessions import TURN, Turn, TurnState

CAPTURE_WAIT_S = 20.0
"""After the agent's own end mark, how long to wait for the checkpoint that makes the turn safe. The turn is done either way."""
GONE = frozenset({"session.interrupted", "session.parked"})
"""The room's notices after which no turn of it runs on."""
GOOD = frozenset({TurnState.COMPLETED, TurnState.CAPTURED})


class TurnWatch:
    """Shows the events of a room until one turn has ended; Ctrl-C interrupts it, a second one detaches."""

    def __init__(self, session: Session, client: JamClient, *, ref: str, turn: UUID, after: int, behind: bool = False) -> None:
        """Take the turn.

        Args:
            session: The command's.
            client: The command's.
            ref: How the person calls the room.
            turn: Which turn to follow.
            after: The number of the last event before it was handed in.
            behind: Whether another turn of the room ran then, so that this one waits for it.
        """
        self._session = session
        self._client = client
        self._ref = ref
        self._turn = turn
        self.last_seq = after
        """The last event that was shown."""
        self._view = EventView(session.output, ref=ref, mine={turn})
        self._state = TurnState.ACCEPTED
        self._begun = False
        self._waiting = behind
        self.in_doubt = False
        """Whether the agent or the daemon ended before the turn did: nothing more will come until the room is brought back."""

    async def run(self) -> Turn | None:
        """Return the ended turn, or ``None`` when the person detached."""
        guarded = Interruptible(self._follow, self._press(second_leaves(self._interrupt)))
        if self._waiting:
            self._session.output.note("waiting for the running turn (Ctrl-C detaches)")
        with self._session.output.ticker.during("working (Ctrl-C interrupts)"):
            turn = await guarded.run()
        self._view.close()
        if turn is None:
            self._session.output.note(f"Detached; the work goes on. Come back with: jam attach {quoted(self._ref)}", "bold")
        return turn

    async def _follow(self) -> Turn:
        async with aclosing(self._client.events(self._ref, after=self.last_seq)) as events:
            with anyio.CancelScope() as scope:
                async for event in events:
                    if event.turn_id in {None, self._turn}:
                        self._view.show(event)
                    self.last_seq = event.seq
                    if self._is_last(event):
                        break
                    if self._state is TurnState.COMPLETED:
                        scope.deadline = min(scope.deadline, anyio.current_time() + CAPTURE_WAIT_S)
        return await self._record()

    def _is_last(self, event: RoomEvent) -> bool:
        """Whether nothing more of the turn will come: it ended, or what ran it did."""
        payload = event.payload
        if event.turn_id == self._turn:
            self._begun = True
            if isinstance(payload, TurnStateChanged):
                # That it was accepted says only that it waits: another turn runs, which may be somebody else's.
                self._waiting = self._waiting and payload.state == TurnState.ACCEPTED
                self.in_doubt = payload.state == IN_DOUBT
                if not self.in_doubt:
                    self._state = TurnState(payload.state)
                if payload.uncaptured:
                    return True
        elif self._begun and isinstance(payload, SessionNotice) and payload.code in GONE:
            # A daemon that says no more than this leaves the turn open for ever.
            self.in_doubt = self._state is not TurnState.COMPLETED
            if self.in_doubt and not self._session.output.json:
                self._view.in_doubt()
            return True
        return self.in_doubt or TURN.is_terminal(self._state)

    async def _record(self) -> Turn:
        for turn in await self._client.turns(self._ref):
            if turn.id == self._turn:
                return turn
        raise NotFoundError(kind="turn", ref=str(self._turn))

    def _press(self, interrupt: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
        """Detach while another turn runs: Ctrl-C is about this turn, and the other one may be somebody else's."""

        async def press() -> bool:
            return False if self._waiting else await interrupt()

        return press

    async def _interrupt(self) -> None:
        self._session.output.note("Interrupting the turn … (Ctrl-C again detaches and lets it go on)", "bold")
        try:
            await self._client.interrupt(self._ref)
        except JamError as error:
            self._session.output.problem(error)


def exit_of_turn(turn: Turn | None) -> Exit:
    """Return the status of a command that followed a turn."""
    if turn is None or turn.state is TurnState.INTERRUPTED:
        return Exit.INTERRUPTED
    return Exit.OK if turn.state in GOOD else Exit.NOT_WELL
