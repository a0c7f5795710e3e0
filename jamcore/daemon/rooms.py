"""Rooms as clients see them: made, spoken to, parked, brought back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal
from uuid import UUID

import anyio

from jamcore.daemon.last_checkpoints import LastCheckpoints
from jamcore.daemon.removed_hosts import require_there
from jamcore.daemon.resolve import Resolver, require_model
from jamcore.daemon.views import BoundRoom, RoomRecords, bound_room, readable_rooms, room_records
from jamcore.domain.errors import InvalidInputError, RefusalError
from jamcore.domain.events import RoomEvent, SessionNotice, TurnStateChanged, UserSaid
from jamcore.domain.limits import TURN_TEXT_CHARACTERS
from jamcore.domain.requests import RoomRequest, RoomView, SessionInspection, StopResult, TurnRequest
from jamcore.domain.sandboxes import Isolation
from jamcore.domain.sessions import TURN, Turn, TurnState
from jamcore.runtime.allocator import Allocator, require_same_request
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.leases import Leases
from jamcore.runtime.pool import WorkerPool
from jamcore.runtime.provision import SessionProvisioner
from jamcore.runtime.turns import settle_turn
from jamcore.runtime.worker import HostWorker
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock

Outcome = Literal["parked", "left", "already-parked"]


NOT_ISOLATED = SessionNotice(
    code="engine.no_isolation",
    detail="nothing isolates this agent: it runs on the machine as the daemon's user, and can read and change everything that user can",
)
"""Said once in each room of host processes, so that whoever comes to it later reads it too (CAP-1)."""


@dataclass(eq=False)
class RoomBusyError(RefusalError):
    """Too many turns wait in this room already."""

    code: ClassVar[str] = "conflict.room_busy"
    hint: ClassVar[str] = "Wait for the running turn, or interrupt it with `jam room interrupt`."

    room: str


@dataclass(frozen=True, slots=True)
class _Said:
    """What became of a message: a turn that is known already, one that was accepted, or neither because the room is not live."""

    bound: BoundRoom
    known: Turn | None = None
    turn: Turn | None = None
    events: tuple[RoomEvent, ...] = ()


class Rooms:
    """See :class:`~jamcore.daemon.services.RoomService`."""

    def __init__(
        self,
        *,
        store: Store,
        feed: RoomFeed,
        pool: WorkerPool,
        leases: Leases,
        last: LastCheckpoints,
        resolver: Resolver,
        allocator: Allocator,
        provisioner: SessionProvisioner,
        clock: Clock,
        gate: StopGate,
    ) -> None:
        self._store = store
        self._feed = feed
        self._pool = pool
        self._leases = leases
        self._last = last
        self._resolver = resolver
        self._allocator = allocator
        self._provisioner = provisioner
        self._clock = clock
        self._gate = gate
        self._creating: dict[UUID, anyio.Lock] = {}

    async def create(self, request: RoomRequest) -> RoomView:
        """Allocate, provision and bring up a room. A failed bring-up leaves the parked room, so nothing is lost (PREP-5)."""
        async with self._creating.setdefault(request.id, anyio.Lock()):  # two exact retries at once must not allocate twice
            found = await self._store.read(lambda repos: repos.rooms.find_id(request.id))
            if found is not None:
                require_same_request(found, request)
            else:
                with self._gate.until_stop("make a room"):
                    resolved = await self._resolver.resolve(request)
                    require_model(request, resolved.hooks.description)
                allocation = await self._allocator.allocate(resolved)
                if resolved.engine.isolation is Isolation.NONE:
                    await self._feed.append(allocation.room.id, None, [NOT_ISOLATED])
                await self._provisioner.provision(allocation.provision)
        return await self.resume(str(request.id))

    async def list(self) -> tuple[RoomView, ...]:
        """Return all rooms, newest first. One whose records are damaged hides no other; the log names it."""
        found = await self._store.read(readable_rooms)
        return tuple(self._view(records) for records in found)

    async def get(self, ref: str) -> RoomView:
        """Return one room."""
        return self._view(await self._records(ref))

    async def say(self, ref: str, request: TurnRequest) -> Turn:
        """Accept a turn; a parked room is brought back first, exactly or not at all."""
        if not request.text.strip():
            raise InvalidInputError(field="text", problem="a message cannot be empty")
        if len(request.text) > TURN_TEXT_CHARACTERS:
            raise InvalidInputError(field="text", problem=f"a message has at most {TURN_TEXT_CHARACTERS} characters")
        said = await self._accept_if_live(ref, request)
        if said.known:
            return await self._known(said.bound, request, said.known)
        turn = said.turn
        if turn is None:
            await self._live(said.bound)
            turn = await self._accept(said.bound, request)
        return await self._submit(said.bound, turn)

    async def turns(self, ref: str) -> tuple[Turn, ...]:
        """Return the turns of a room, oldest first."""
        return await self._store.read(lambda repos: repos.turns.of_room(repos.rooms.find(ref).id))

    async def interrupt(self, ref: str) -> RoomView:
        """Interrupt what runs."""
        records = await self._records(ref)
        if worker := self._pool.get(records.host.id, records.session.id):
            await worker.interrupt(records.session.id)
        return await self.get(ref)

    async def stop(self, ref: str, *, accept_unsaved: bool = False) -> StopResult:
        """Checkpoint, and park the host unless other rooms are live on it (SHARE-2).

        On a parked host whose final checkpoint failed, that is what is done again (CONT-8). Who accepts that it fails need not ask twice.
        """
        records = await self._records(ref)
        host, session = records.host.id, records.session.id
        live = self._pool.get(host, session) is not None
        checkpoint = await self._pool.leave(host, session)
        outcome: Outcome = "already-parked" if not live else "left" if self._pool.is_up(host) else "parked"
        settled = None
        if checkpoint is None and (accept_unsaved or not live):
            checkpoint, settled = await self._last.repeat(host, accept=accept_unsaved)
            outcome = "parked" if settled is not None else outcome
        return StopResult(room=await self.get(ref), checkpoint=checkpoint, outcome=outcome, settled=settled)

    async def resume(self, ref: str) -> RoomView:
        """Bring the session back exactly, or refuse."""
        await self._live(await self._records(ref))
        return await self.get(ref)

    async def inspect(self, ref: str) -> SessionInspection:
        """Return the evidence about a session's continuity."""
        records = await self._records(ref)
        session, host = records.session.id, records.host.id

        def read(repos: Repos) -> SessionInspection:
            return SessionInspection(
                room=self._view(records),
                decision=repos.activations.latest_of_session(session),
                checkpoints=tuple(repos.checkpoints.of_host(host)),
                observations=tuple(repos.observations.of_session(session)),
                turns=tuple(repos.turns.of_session(session)),
            )

        return await self._store.read(read)

    @asynccontextmanager
    async def events(self, ref: str, *, after: int, follow: bool) -> AsyncIterator[AsyncIterator[RoomEvent]]:
        """Stream the room's events."""
        room = await self._store.read(lambda repos: repos.rooms.find(ref))
        async with self._feed.following(room.id, after=after, follow=follow) as events:
            yield events

    async def _live(self, records: BoundRoom) -> HostWorker:
        """Return the room's live worker, bringing it up first when there is none."""
        if worker := self._pool.get(records.host.id, records.session.id):
            return worker
        await self._store.read(lambda repos: require_there(repos, records.host))
        await self._provisioner.require_ready(records.workspace)
        return await self._pool.start(records.host.id, records.session.id)

    async def _submit(self, records: BoundRoom, turn: Turn) -> Turn:
        """Hand an accepted turn to the room's worker; one that it cannot take any more is settled at once."""
        try:
            worker = self._pool.get(records.host.id, records.session.id)
            if worker is not None:
                worker.submit(turn)
                return turn
        except anyio.WouldBlock as error:
            await self._settle_refused(turn, TurnState.FAILED, "too many turns wait in this room")
            raise RoomBusyError(room=records.room.name) from error
        except anyio.ClosedResourceError:
            pass  # it began to stop in between
        await self._settle_refused(turn, TurnState.INTERRUPTED, "the room was being stopped: say it again")
        return await self._store.read(lambda repos: repos.turns.get(turn.id))

    async def _known(self, records: BoundRoom, request: TurnRequest, known: Turn) -> Turn:
        """Answer an exact retry with the turn as it is. One that a dead daemon left unfinished is decided first: kept or cut."""
        stored = await self._store.transact(lambda repos: repos.turns.accept(_turn(records, request, known)))
        if TURN.is_terminal(stored.state) or self._pool.get(records.host.id, records.session.id):
            return stored
        await self._live(records)
        return await self._store.read(lambda repos: repos.turns.get(known.id))

    async def _records(self, ref: str) -> RoomRecords:
        return await self._store.read(lambda repos: room_records(repos, repos.rooms.find(ref)))

    def _view(self, records: RoomRecords) -> RoomView:
        worker = self._pool.get(records.host.id, records.session.id)
        seat = worker.seat(records.session.id) if worker is not None else None
        trouble = self._leases.trouble_of(records.host.id)
        known: dict[str, object] = {"trouble": self._pool.capture_trouble(records.host.id)}
        if unwritten := self._last.unwritten(records.host.id):
            known["unsaved"] = unwritten
        return RoomView(
            room=records.room,
            session=records.session,
            host=records.host,
            workspace=records.workspace,
            isolation=self._resolver.engines.isolation(records.host.engine),
            live=worker is not None,
            busy=seat is not None and seat.running is not None,
            not_parked=str(trouble) if trouble is not None else "",
            last_turn=records.last_turn,
            last_seq=records.last_seq,
            safety=records.safety.model_copy(update=known),
            fresh_starts=records.fresh_starts,
        )

    async def _accept_if_live(self, ref: str, request: TurnRequest) -> _Said:
        """Find the room and, where that is all there is to do, accept the turn: one transaction for an ordinary message."""
        live = self._pool.sessions()

        def work(repos: Repos) -> _Said:
            bound = bound_room(repos, repos.rooms.find(ref))
            if known := repos.turns.find_id(request.id):
                return _Said(bound, known=known)
            if bound.session.id not in live:
                return _Said(bound)
            return self._write_accepted(repos, bound, request)

        return self._announced(await self._store.transact(work))

    async def _accept(self, records: BoundRoom, request: TurnRequest) -> Turn:
        said = self._announced(await self._store.transact(lambda repos: self._write_accepted(repos, records, request)))
        assert said.turn is not None
        return said.turn

    def _write_accepted(self, repos: Repos, records: BoundRoom, request: TurnRequest) -> _Said:
        turn = repos.turns.accept(_turn(records, request, None, at=self._clock))
        payloads = (UserSaid(text=request.text), TurnStateChanged(state=TurnState.ACCEPTED))
        return _Said(records, turn=turn, events=repos.events.append(records.room.id, turn.id, payloads))

    def _announced(self, said: _Said) -> _Said:
        if said.events:
            self._feed.announce(said.bound.room.id, said.events)
        return said

    async def _settle_refused(self, turn: Turn, state: TurnState, why: str) -> None:
        await settle_turn(self._store, self._feed, turn, state, why, at=self._clock.now())


def _turn(records: BoundRoom, request: TurnRequest, known: Turn | None, *, at: Clock | None = None) -> Turn:
    """Build the turn to accept; for a known id with its stored time, so that an exact retry is equal and another is a conflict."""
    if known is not None:
        return known.model_copy(update={"text": request.text, "room_id": records.room.id})
    assert at is not None
    return Turn(
        id=request.id,
        room_id=records.room.id,
        session_id=records.session.id,
        text=request.text,
        state=TurnState.ACCEPTED,
        provider_turn=None,
        detail="",
        checkpoint_id=None,
        workspace_digest=None,
        process_epoch=records.host.fence_epoch,
        accepted_at=at.now(),
        ended_at=None,
    )
