"""Runs: an objective becomes a room, one turn, and a change request when the turn has ended (RUN-1)."""

from __future__ import annotations

from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskGroup

from jamcore.daemon.changes import Changes
from jamcore.daemon.rooms import Rooms
from jamcore.domain.changes import Run
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.domain.events import IN_DOUBT, SessionNotice, TurnStateChanged
from jamcore.domain.requests import RunRequest, RunView, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.runtime.feed import RoomFeed
from jamcore.store import Repos, Store

ENDED = frozenset({TurnState.CAPTURED, TurnState.INTERRUPTED, TurnState.FAILED, TurnState.CUT})
"""A completed turn is waited for until it is captured: only then is it safe."""
LOOKED_AT = 256
"""Events of a room that are looked at for what was said already."""
CAPTURE_WAIT_S = 60.0
"""How long that wait is at the most: a checkpoint that is refused, or a provider without any, must not keep a run open for ever."""


class Runs:
    """See :class:`~jamcore.daemon.services.RunService`. Runs go on in the daemon's task group, whatever becomes of the client."""

    def __init__(self, *, store: Store, rooms: Rooms, changes: Changes, feed: RoomFeed, tasks: TaskGroup) -> None:
        self._store = store
        self._rooms = rooms
        self._changes = changes
        self._feed = feed
        self._tasks = tasks
        self._finishing: set[UUID] = set()

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
        self._begin(run)
        return await self.get(str(request.id))

    async def get(self, ref: str) -> RunView:
        """Return a run by its room."""
        room = await self._rooms.get(ref)
        run = await self._store.read(lambda repos: repos.runs.of_room(room.room.id))
        turn = await self._store.read(lambda repos: repos.turns.get(run.turn_id))
        change = await self._store.read(lambda repos: repos.changes.find_id(run.change_id))
        return RunView(room=room, turn=turn, change=change)

    async def unfinished(self) -> tuple[UUID, ...]:
        """Return the rooms whose run has no change request yet, for :meth:`take_up`."""
        return await self._store.read(lambda repos: repos.runs.unfinished_rooms())

    async def take_up(self, room: UUID) -> None:
        """Go on with a run that a daemon's end interrupted. For start-up.

        One whose turn was never accepted stays as it is; one whose turn a dead daemon left undecided waits until its room is used again.
        """

        def read(repos: Repos) -> Run | None:
            run = repos.runs.of_room(room)
            return run if repos.turns.find_id(run.turn_id) is not None else None

        if run := await self._store.read(read):
            self._begin(run)

    def _begin(self, run: Run) -> None:
        """Start finishing a run, once: an exact retry finds it under way."""
        if run.room_id not in self._finishing:
            self._finishing.add(run.room_id)
            self._tasks.start_soon(self._finish, run)

    async def _finish(self, run: Run) -> None:
        """Wait for the end of the turn, build the change request and park the room: the run is done.

        A named boundary, because nobody awaits it: whatever fails here ends this run's task and nothing else.
        """
        log = structlog.get_logger("jam.runs")
        try:
            notice = await self._build(run)
            await self._say(run, notice)
            await self._park(run)
        except Exception as error:  # noqa: BLE001 - the top of a task
            log.error("run not finished", room=str(run.room_id), error=str(error))  # noqa: TRY400 - start-up takes it up again
        finally:
            self._finishing.discard(run.room_id)

    async def _say(self, run: Run, notice: SessionNotice) -> None:
        """Tell the room, unless its last words about this run were the same: each start takes up a run that could not be finished."""

        def last(repos: Repos) -> SessionNotice | None:
            events = repos.events.after(run.room_id, max(0, repos.events.last_seq(run.room_id) - LOOKED_AT), LOOKED_AT)
            said = [event.payload for event in events if event.turn_id == run.turn_id and isinstance(event.payload, SessionNotice)]
            return said[-1] if said else None

        if await self._store.read(last) != notice:
            await self._feed.append(run.room_id, run.turn_id, [notice])

    async def _park(self, run: Run) -> None:
        """Park the room, unless a person went on in it meanwhile: their turn is not the run's to interrupt."""
        view = await self._rooms.get(str(run.room_id))
        if view.live and (view.last_turn is None or view.last_turn.id == run.turn_id):
            await self._rooms.stop(str(run.room_id))

    async def _build(self, run: Run) -> SessionNotice:
        if not await self._ended(run.room_id, run.turn_id):
            return SessionNotice(
                code="run.no-change-request", detail="the turn's end was not seen: resume the room, then `jam change new`"
            )
        try:
            await self._changes.build(str(run.room_id), run.change_id)
        except (JamError, OSError) as error:
            return SessionNotice(code="run.no-change-request", detail=str(error))
        return SessionNotice(code="run.change-request", detail=str(run.change_id))

    async def _ended(self, room: UUID, turn: UUID) -> bool:
        """Wait for the turn's end; False when it is in doubt. A completed turn gets a moment to be captured, and counts without it."""
        state = ""
        async with self._feed.following(room, after=0, follow=True) as events:
            with anyio.CancelScope() as scope:
                async for event in events:
                    if event.turn_id == turn and isinstance(event.payload, TurnStateChanged):
                        state = event.payload.state
                        if state == IN_DOUBT or state in ENDED or event.payload.uncaptured:
                            break
                        if state == TurnState.COMPLETED:
                            scope.deadline = anyio.current_time() + CAPTURE_WAIT_S
        return state != IN_DOUBT
