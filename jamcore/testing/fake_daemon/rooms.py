"""Rooms of the fake."""

# ruff: noqa: D101, D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import UUID

from jamcore.domain.cells import (
    EngineLacksAbilityError,
    UnknownProviderError,
)
from jamcore.domain.continuity import (
    ActivationEvidence,
    ContinuityRefusedError,
    Observation,
    ObservationOutcome,
    ResumeSource,
    decide_activation,
)
from jamcore.domain.errors import ConflictError
from jamcore.domain.events import (
    RoomEvent,
    SessionNotice,
    TurnStateChanged,
    UserSaid,
)
from jamcore.domain.providers import ProviderGoneError
from jamcore.domain.requests import (
    RoomRequest,
    RoomView,
    SessionInspection,
    StopResult,
    TurnRequest,
)
from jamcore.domain.safekeeping import HostUnsavedError
from jamcore.domain.sessions import (
    Turn,
    TurnState,
)
from jamcore.testing.fake_daemon.acting import act
from jamcore.testing.fake_daemon.records import (
    AT,
    CELL,
    Conversation,
    checkpoint,
    conversation_of,
    turn_of,
    unsaved,
)
from jamcore.testing.fake_daemon.state import Part

DAMAGE = "a block of it is damaged"


class FakeRooms(Part):
    async def create(self, request: RoomRequest) -> RoomView:
        await self.fake.note("create", request)
        await self.fake.gate.wait()
        if request.provider != "codex":
            raise UnknownProviderError(provider=request.provider, known=("codex",))
        if request.engine == "weak":
            raise EngineLacksAbilityError(provider="codex", engine="weak", asked="x", missing=("clone",), nearest=(str(CELL),))
        if known := self.fake.rooms.get(request.id):
            if known.request != request:
                raise ConflictError(kind="room", ref=str(request.id), problem="another request has this id")
            return known.view()
        if request.name is not None and request.name in {each.room.name for each in self.fake.rooms.values()}:
            raise ConflictError(kind="room", ref=str(request.id), problem=f"the name {request.name} is taken")
        self.fake.rooms[request.id] = conversation_of(request)
        self.fake.calls.append(("created", request.id))
        if request.model == "gone":
            raise ProviderGoneError(provider="codex", detail="it ended at once")
        return self.fake.rooms[request.id].view()

    async def list(self) -> tuple[RoomView, ...]:
        await self.fake.note("rooms")
        return tuple(room.view() for room in reversed(self.fake.rooms.values()))

    async def get(self, ref: str) -> RoomView:
        await self.fake.note("room", ref)
        return self.fake.find(ref).view()

    async def say(self, ref: str, request: TurnRequest) -> Turn:
        await self.fake.note("say", request)
        room = self.fake.find(ref)
        if request.id in room.turns:
            return room.turns[request.id]
        busy = room.view().busy
        room.turns[request.id] = turn_of(room, request)
        room.emit(request.id, UserSaid(text=request.text))
        if busy:  # the real daemon says so always
            room.emit(request.id, TurnStateChanged(state=TurnState.ACCEPTED))
        self.fake.tasks.start_soon(act, self.fake, room, request)
        return room.turns[request.id]

    async def turns(self, ref: str) -> tuple[Turn, ...]:
        await self.fake.note("turns", ref)
        return tuple(self.fake.find(ref).turns.values())

    async def interrupt(self, ref: str) -> RoomView:
        await self.fake.note("interrupt", ref)
        self.fake.find(ref).interrupt.set()
        return self.fake.find(ref).view()

    async def stop(self, ref: str, *, accept_unsaved: bool = False) -> StopResult:
        await self.fake.note("stop", (ref, accept_unsaved))
        room = self.fake.find(ref)
        if room.unsaved is not None:
            return self._settled(room, accept=accept_unsaved)
        if room.room.name.startswith("unsaved") and room.live:
            room.unsaved, room.live = unsaved(room), False
            if accept_unsaved:
                return self._settled(room, accept=True)
            return StopResult(room=room.view(), checkpoint=None, outcome="parked")
        outcome = "parked" if room.live else "already-parked"
        room.live = False
        return StopResult(
            room=room.view(), checkpoint=checkpoint(room), outcome="parked" if outcome == "parked" else "already-parked"
        )

    def _settled(self, room: Conversation, *, accept: bool) -> StopResult:
        assert room.unsaved is not None
        if not accept:
            raise HostUnsavedError(rooms=room.room.name, problem=room.unsaved.problem, failed_at=AT.isoformat())
        settled = room.unsaved.model_copy(
            update={
                "settlement": "accepted",
                "settled_at": AT,
                "detail": "1 completed turn is in no checkpoint",
                "turns": (UUID(int=9),),
            }
        )
        room.unsaved = None
        return StopResult(room=room.view(), checkpoint=None, outcome="parked", settled=settled)

    async def resume(self, ref: str) -> RoomView:
        await self.fake.note("resume", ref)
        room = self.fake.find(ref)
        if room.unsaved is not None:
            raise HostUnsavedError(rooms=room.room.name, problem=room.unsaved.problem, failed_at=AT.isoformat())
        if room.room.name == "lost":
            raise ContinuityRefusedError(session=str(room.session.id), failure="corrupt", detail=DAMAGE, room=room.room.name)
        if not room.live:
            room.live = True
            room.emit(None, SessionNotice(code="session.live", detail="jam-x"))
            if room.room.name.startswith("ahead"):
                room.emit(None, SessionNotice(code="workspace.ahead", detail="the files are ahead: ~ a\x1b[2J.txt"))
        return room.view()

    async def inspect(self, ref: str) -> SessionInspection:
        await self.fake.note("inspect", ref)
        room = self.fake.find(ref)
        lost, beside = (room.room.name.startswith(word) for word in ("lost", "beside"))
        evidence = ActivationEvidence(
            provider_identity="thread-1",
            checkpoint_id=UUID(int=5),
            generation_state="corrupt" if lost or beside else "verified",
            session_captured=True,
            captured_identity="thread-1",
            version_compatible=True,
            captured_version="0.163.0",
            current_version="0.163.0",
            problem=f"{DAMAGE} \x1b[2J" if lost or beside else "",
            live_holds=beside,
        )
        observation = Observation(
            id=UUID(int=6),
            session_id=room.session.id,
            checkpoint_id=UUID(int=5),
            outcome=ObservationOutcome.SUCCEEDED,
            source=ResumeSource.GENERATION,
            expected_identity="thread-1",
            reported_identity="thread-1",
            detail="",
            observed_at=AT,
        )
        return SessionInspection(
            room=room.view(),
            decision=decide_activation(evidence),
            checkpoints=(checkpoint(room),),
            observations=() if lost else (observation,),
            turns=tuple(room.turns.values()),
        )

    def events(self, ref: str, *, after: int, follow: bool) -> AbstractAsyncContextManager[AsyncIterator[RoomEvent]]:
        return self._events(ref, after, follow)

    @asynccontextmanager
    async def _events(self, ref: str, after: int, follow: bool) -> AsyncIterator[AsyncIterator[RoomEvent]]:
        await self.fake.note("events", (ref, after, follow))
        room = self.fake.find(ref)
        self.fake.readers += 1
        try:
            yield follow_room(room, after, follow)
        finally:
            self.fake.readers -= 1


async def follow_room(room: Conversation, after: int, follow: bool) -> AsyncIterator[RoomEvent]:
    """Yield a room's events after a number."""
    seen = after
    while True:
        changed = room.changed
        for event in room.events[seen:]:
            seen = event.seq
            yield event
        if not follow:
            return
        if seen >= len(room.events):
            await changed.wait()
