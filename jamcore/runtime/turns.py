"""Runs one turn: permits, the provider's events, and what Jam knows of the turn at each moment (CONT-11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from types import MappingProxyType
from uuid import UUID

from jamcore.continuity.coordinator import HostCoordinator
from jamcore.domain.errors import JamError
from jamcore.domain.events import (
    IN_DOUBT,
    ApprovalRequested,
    RoomEvent,
    RoomPayload,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    TurnStateChanged,
    Working,
)
from jamcore.domain.ids import ProviderIdentity
from jamcore.domain.providers import ProviderGoneError
from jamcore.domain.sessions import Turn, TurnState
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.runtime.approvals import ApprovalDesk
from jamcore.runtime.deadlines import Deadlines, TurnWatch
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.recorder import EventRecorder, recording
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock

START_SEEN = "turn: start seen"
"""Crash point: the provider has the turn, and Jam has not noted it yet."""

STATE_OF_OUTCOME: Mapping[TurnOutcome, TurnState] = MappingProxyType(
    {
        TurnOutcome.COMPLETED: TurnState.COMPLETED,
        TurnOutcome.INTERRUPTED: TurnState.INTERRUPTED,
        TurnOutcome.FAILED: TurnState.FAILED,
    }
)


class TurnRunner:
    """Runs turns of one session, one at a time. The caller owns the runtime.

    Not ``captures``: the provider declares no continuity, so a completed turn has come to its end.
    """

    def __init__(
        self,
        *,
        store: Store,
        feed: RoomFeed,
        clock: Clock,
        coordinator: HostCoordinator,
        desk: ApprovalDesk,
        deadlines: Deadlines | None = None,
        crash: CrashPoints | None = None,
        captures: bool = True,
    ) -> None:
        self._captures = captures
        self._deadlines = deadlines or Deadlines(clock)
        self._crash = crash or NoCrash()
        self._store = store
        self._feed = feed
        self._clock = clock
        self._coordinator = coordinator
        self._desk = desk

    async def run(
        self,
        turn: Turn,
        runtime: ProviderRuntime,
        identity: ProviderIdentity,
        *,
        started: Callable[[], None],
        said_as: str = "",
    ) -> TurnState:
        """Run an accepted turn to the provider's end mark and return its state; ``started`` is called when it can be interrupted.

        ``said_as`` names it to those who wait for the host.

        Raises:
            ProviderGoneError: The program ended first. Whether the turn was kept is decided when the session comes back.
            ProviderProtocolError: The program spoke nonsense; likewise.
            TurnStuckError: The turn ran out of time, and the program did not end it; likewise.
        """
        async with (
            self._coordinator.turn_permit(turn.session_id, said_as=said_as),
            recording(self._feed, room=turn.room_id, turn=turn.id) as recorder,
            self._deadlines.watching(partial(runtime.interrupt, identity), recorder.record) as watch,
            self._desk.counter(turn, runtime, identity, waits=partial(self._waits, watch)) as counter,
            runtime.turn(identity, turn.text) as events,
        ):
            state = None
            async for event in events:  # to its own end: leaving earlier would interrupt
                watch.heard(event, self._clock.monotonic())
                if isinstance(event, TurnStarted):
                    await self._started(turn, identity, event)
                    started()
                elif isinstance(event, ApprovalRequested):
                    await recorder.flush()  # what led to the question stands before it
                    await counter.ask(event)
                elif isinstance(event, TurnEnded):
                    await counter.expire()
                    state = await self._ended(turn, watch.judged(event), recorder)
                elif not isinstance(event, Working):
                    await recorder.record(event)
        if state is not None:
            return state
        raise ProviderGoneError(provider="", detail="the turn's events ended without an end mark")

    def resuming(self, session: UUID, *, said_as: str) -> AbstractAsyncContextManager[None]:
        """Hold the host together with its turns while a session is brought back: no generation is made meanwhile (CONT-7).

        What a program writes before it is known what came back would be in it. ``said_as`` names it to those who wait for the host.
        """
        return self._coordinator.turn_permit(session, said_as=said_as)

    async def doubt(self, turn: Turn, error: JamError) -> None:
        """Say that a turn's end was not seen; the state stays, because only the provider's own state can decide it."""
        said = TurnStateChanged(state=IN_DOUBT, detail=str(error))
        await self._feed.append(turn.room_id, turn.id, [said])

    def _waits(self, watch: TurnWatch, questions: int) -> None:
        watch.waits(questions, self._clock.monotonic())

    async def _started(self, turn: Turn, identity: ProviderIdentity, event: TurnStarted) -> None:
        def write(repos: Repos) -> tuple[RoomEvent, ...]:
            repos.sessions.bind_identity(turn.session_id, identity)
            repos.turns.move(turn.id, TurnState.RUNNING, provider_turn=event.provider_turn)
            return repos.events.append(turn.room_id, turn.id, [event, TurnStateChanged(state=TurnState.RUNNING)])

        self._crash.reach(START_SEEN)
        self._feed.announce(turn.room_id, await self._store.transact(write))

    async def _ended(self, turn: Turn, event: TurnEnded, recorder: EventRecorder) -> TurnState:
        state = STATE_OF_OUTCOME[event.outcome]
        detail = event.detail if event.outcome is TurnOutcome.FAILED else ""
        async with recorder.rest() as before:
            await self.settle(turn, state, detail, also=(*before, event))
        return state

    async def settle(self, turn: Turn, state: TurnState, detail: str, *, also: tuple[RoomPayload, ...] = ()) -> None:
        """Move a turn to an end state. See :func:`settle_turn`."""
        uncaptured = state is TurnState.COMPLETED and not self._captures
        await settle_turn(self._store, self._feed, turn, state, detail, at=self._clock.now(), also=also, uncaptured=uncaptured)


async def settle_turn(
    store: Store,
    feed: RoomFeed,
    turn: Turn,
    state: TurnState,
    detail: str,
    *,
    at: datetime,
    also: tuple[RoomPayload, ...] = (),
    uncaptured: bool = False,
) -> None:
    """Move a turn to an end state, with its events, in one transaction."""

    def write(repos: Repos) -> tuple[RoomEvent, ...]:
        repos.turns.move(turn.id, state, detail=detail, ended_at=at)
        moved = TurnStateChanged(state=state, detail=detail, uncaptured=uncaptured)
        return repos.events.append(turn.room_id, turn.id, [*also, moved])

    feed.announce(turn.room_id, await store.transact(write))


def kept_or_cut(turn: Turn, remembered: dict[str, TurnOutcome]) -> tuple[TurnState, str] | None:
    """Decide, from what the provider remembers, what became of a turn whose end Jam did not see or not capture (CONT-11).

    Returns:
        The new state and why; ``None`` when the turn stays as it is (completed, remembered, to be captured).
    """
    outcome = remembered.get(turn.provider_turn) if turn.provider_turn else None
    if turn.state is TurnState.COMPLETED:
        return None if outcome is TurnOutcome.COMPLETED else (TurnState.CUT, "completed, but the provider's state does not hold it")
    if turn.state is TurnState.ACCEPTED:
        return TurnState.CUT, "Jam did not see it reach the provider: look at the conversation before you say it again"
    if outcome is TurnOutcome.COMPLETED:
        return TurnState.COMPLETED, "kept: the provider had finished it"
    if outcome is None:
        return (
            TurnState.CUT,
            "the provider ended in the middle of it and holds nothing of it: look at the files before you say it again",
        )
    # Programs show what they do before they write it down, and a resume knows what was written down alone.
    return (
        TurnState.CUT,
        "the provider ended in the middle of it; its conversation has what it had written down, which may be less than this",
    )
