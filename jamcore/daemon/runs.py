"""Runs: an objective becomes a room, one turn, and a change request when the turn has ended (RUN-1)."""

from __future__ import annotations

from uuid import UUID

import structlog
from anyio.abc import TaskGroup

from jamcore.daemon.changes import Changes
from jamcore.daemon.rooms import Rooms
from jamcore.domain.changes import Run
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.domain.events import SessionNotice, TurnStateChanged
from jamcore.domain.requests import RunRequest, RunView, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.runtime.feed import RoomFeed
from jamcore.store import Store

ENDED = frozenset({TurnState.CAPTURED, TurnState.INTERRUPTED, TurnState.FAILED, TurnState.CUT})
"""A completed turn is waited for until it is captured: only then is it safe."""


class Runs:
    """See :class:`~jamcore.daemon.services.RunService`. Runs go on in the daemon's task group, whatever becomes of the client."""

    def __init__(self, *, store: Store, rooms: Rooms, changes: Changes, feed: RoomFeed, tasks: TaskGroup) -> None:
        self._store = store
        self._rooms = rooms
        self._changes = changes
        self._feed = feed
        self._tasks = tasks

    async def start(self, request: RunRequest) -> RunView:
        """Create the room, accept the turn, and return.

        Raises:
            InvalidInputError: The room's id is not the run's.
            JamError: The room or the turn is refused.
        """
        if request.room.id != request.id:
            raise InvalidInputError(field="room.id", problem="a run's room has the run's id")
        await self._rooms.create(request.room)
        run = Run(room_id=request.id, turn_id=request.turn_id, change_id=request.change_id, objective=request.objective)
        await self._store.transact(lambda repos: repos.runs.insert(run))
        await self._rooms.say(str(request.id), TurnRequest(id=request.turn_id, text=request.objective))
        self._tasks.start_soon(self._finish, run)
        return await self.get(str(request.id))

    async def get(self, ref: str) -> RunView:
        """Return a run by its room."""
        room = await self._rooms.get(ref)
        run = await self._store.read(lambda repos: repos.runs.of_room(room.room.id))
        turn = await self._store.read(lambda repos: repos.turns.get(run.turn_id))
        change = await self._store.read(lambda repos: repos.changes.find_id(run.change_id))
        return RunView(room=room, turn=turn, change=change)

    async def finish_interrupted(self) -> None:
        """Take up the runs that have no change request yet: those whose turn has ended get theirs. For start-up."""
        for run in await self._store.read(lambda repos: tuple(repos.runs.unfinished())):
            self._tasks.start_soon(self._finish, run)

    async def _finish(self, run: Run) -> None:
        """Wait for the end of the turn and build the change request; a named boundary, because nobody awaits it."""
        try:
            await self._wait(run.room_id, run.turn_id)
            await self._changes.build(str(run.room_id), run.change_id)
            notice = SessionNotice(code="run.change-request", detail=str(run.change_id))
        except (JamError, OSError) as error:
            structlog.get_logger("jam.runs").warning("no change request", room=str(run.room_id), error=str(error))
            notice = SessionNotice(code="run.no-change-request", detail=str(error))
        await self._feed.append(run.room_id, run.turn_id, [notice])

    async def _wait(self, room: UUID, turn: UUID) -> None:
        async with self._feed.following(room, after=0, follow=True) as events:
            async for event in events:
                if event.turn_id == turn and isinstance(event.payload, TurnStateChanged) and event.payload.state in ENDED:
                    return
