"""One host's continuity as its worker uses it: decide, place, observe, settle what was in doubt, capture (CONT)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID

from jamcore.continuity.capturing.broker import CheckpointBroker, Freeze
from jamcore.continuity.capturing.kept import can_keep
from jamcore.continuity.resets.evidence import BoundSession, Looked, RecoveryInspector, ResumeRules
from jamcore.continuity.resuming.activate import Activator, Placement
from jamcore.continuity.resuming.compare import RestoredOtherwiseError
from jamcore.continuity.resuming.observe import Observer, observation_of, require_success
from jamcore.domain import limits
from jamcore.domain.continuity import (
    Activation,
    ActivationDecision,
    CaptureKind,
    CaptureRefusedError,
    Checkpoint,
    CheckpointReason,
    ContinuityRefusedError,
    DatabaseHelperError,
    Observation,
    ObservationOutcome,
    ResumeSource,
    SiblingRefusedError,
)
from jamcore.domain.events import SessionNotice, TurnStarted, TurnStateChanged
from jamcore.domain.providers import ProviderTurn
from jamcore.domain.sessions import RuntimeHost, RuntimeSession, Turn, TurnState
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.databases import HostDatabases
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.proof import Lineage, came_with_turns, still_held, what_is_lost
from jamcore.runtime.seat import Seat
from jamcore.runtime.turns import kept_or_cut
from jamcore.runtime.unseen import match_unseen
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource

FilesBetween = Callable[[str, str], Awaitable[str]]
"""``between(before, now)``: what differs between two states of a work tree, in words that end a sentence; empty when that is not known."""


@dataclass(slots=True)
class HostContinuity:
    """Owned by one worker. ``expectations`` holds, for each session that resumes, its decision and where its bytes come from.

    ``settling`` is the session for which the host's state was put in place when it came up. ``unproven`` are the sessions, with their
    rooms, whose program came back with something else than was captured while this host was up.
    """

    host: RuntimeHost
    hooks: ProviderHooks
    state_root: Path
    scratch_root: Path | None
    program_version: str
    freeze: Freeze | None
    broker: CheckpointBroker
    activator: Activator
    observer: Observer
    store: Store
    feed: RoomFeed
    clock: Clock
    ids: IdSource
    databases: HostDatabases | None = None
    expectations: dict[UUID, tuple[ActivationDecision, Placement]] = field(default_factory=dict)
    settling: RuntimeSession | None = None
    unproven: dict[UUID, str] = field(default_factory=dict)

    async def activate(self, seat: Seat, *, may_restore: bool = True) -> None:
        """Decide how the session may start, store the decision, and put its state in place (CONT-7).

        ``may_restore``: false while siblings' provider runs on the host, since a generation holds the state of all of them.

        Raises:
            ContinuityRefusedError: It may not start; the refusal names the room.
        """
        try:
            await self._activate(seat, may_restore=may_restore)
        except ContinuityRefusedError as refused:
            refused.session, refused.room = f"{seat.said_as} (session {seat.session.id})", seat.room_name
            raise

    async def _activate(self, seat: Seat, *, may_restore: bool) -> None:
        session = seat.session
        decision = await self.activator.inspect(
            session,
            self.host,
            accepts_version=self.hooks.accepts_version,
            current_version=self.program_version,
            state_root=self.state_root,
        )
        await self.activator.record(session, decision)
        if decision.outcome is not Activation.FRESH_START:
            await self._expect(decision, session, may_restore=may_restore)
        elif may_restore:
            await self._place_for_siblings()

    async def _expect(self, decision: ActivationDecision, session: RuntimeSession, *, may_restore: bool = True) -> None:
        try:
            placement = await self._place_files(decision, session, may_restore=may_restore)
        except RestoredOtherwiseError as failed:
            self.expectations[session.id] = (decision, Placement(ResumeSource.GENERATION))
            await self._record(session, reported=None, detail=f"{failed.code}: {failed}")  # an attempt that failed (CONT-7)
            raise
        self.expectations[session.id] = (decision, placement)
        if may_restore:
            self.settling = session

    async def _place_for_siblings(self) -> None:
        """Put the host's state in place before a new conversation is begun beside others, where databases belong to it.

        A log that lost what was captured keeps the next checkpoint from being made. A database that lost it does not: the checkpoint after
        the new conversation's first turn would be the newest, and the others would be in none that counts.
        """
        if not any(entry.kind is CaptureKind.DATABASE for entry in (await self.hooks.declare_capture()).entries):
            return
        sessions = await self.store.read(lambda repos: repos.sessions.of_host(self.host.id))
        newest = await self.activator.newest(
            self.host,
            accepts_version=self.hooks.accepts_version,
            current_version=self.program_version,
            state_root=self.state_root,
        )
        for sibling in sessions:
            decision = newest.decide(sibling)
            if decision.outcome is Activation.EXACT_RESUME:
                await self.activator.record(sibling, decision)
                await self._expect(decision, sibling)
                return
            if decision.failure is not None and newest.state in ("corrupt", "incomplete"):
                why = f"another conversation of its sandbox cannot be brought back, and would be overwritten: {newest.problem}"
                raise ContinuityRefusedError(session=str(sibling.id), failure=decision.failure, detail=why)

    async def place_databases(self) -> bool:
        """Finish the placing of a host that comes up: the sandbox runs by now, and its provider does not yet (CONT-5).

        A session that joins others has nothing to finish: their provider runs on what was put in place when the host came up.

        Returns:
            Whether files were restored for it, so that what was prepared since then is to be prepared again.

        Raises:
            DatabaseRefusedError, DatabaseHelperError, CheckpointFailedError: The databases could not be put in place.
            ContinuityRefusedError: They are not those of a damaged checkpoint, which cannot be restored.
        """
        session = self.settling
        if session is None or self.databases is None:
            return False
        decision, placement = self.expectations[session.id]
        assert decision.evidence.checkpoint_id is not None
        try:
            placed = await self.databases.activator.place(
                placement,
                host=self.host.id,
                checkpoint=decision.evidence.checkpoint_id,
                guest=self.databases.guest,
                captures=await self.hooks.declare_capture(),
                restore_files=lambda why: self._place_files(decision, session, why_not_live=why),
            )
        except (CaptureRefusedError, DatabaseHelperError, RestoredOtherwiseError, ContinuityRefusedError) as failed:
            await self._record(session, reported=None, detail=f"{failed.code}: {failed}")  # an attempt that failed (CONT-12)
            raise
        self.expectations[session.id] = (decision, placed)
        return placed != placement

    async def _place_files(
        self, decision: ActivationDecision, session: RuntimeSession, *, may_restore: bool = True, why_not_live: str | None = None
    ) -> Placement:
        return await self.activator.place(
            decision,
            session,
            state_root=self.state_root,
            scratch_root=self.scratch_root,
            capture_list=await self.hooks.declare_capture(),
            activation_plan=await self.hooks.declare_activation(),
            may_restore=may_restore,
            why_not_live=why_not_live,
        )

    async def look(self, bound: tuple[BoundSession, ...]) -> Looked:
        """Return the evidence on all sessions of the host: can they be brought back (CONT-9)? Changes nothing."""
        rules = ResumeRules(
            accepts_version=self.hooks.accepts_version,
            current_version=self.program_version,
            state_root=self.state_root,
            capture_list=await self.hooks.declare_capture(),
            activation_plan=await self.hooks.declare_activation(),
        )
        return await RecoveryInspector(self.activator, self.observer).look(self.host, bound, rules)

    async def observe(
        self, seat: Seat, *, reported: str | None, detail: str, remembered: tuple[ProviderTurn, ...] | None = None
    ) -> None:
        """Write the immutable observation of this resume attempt; nothing of the provider is shown before (CONT-7, CONT-12).

        ``remembered``: the turns that it came back with, which must hold every captured one; ``None``: it did not come back.

        Raises:
            ResumeFailedError: The provider came back as somebody else, without a captured turn, or not at all; that is stored.
            ObservationLostError: It could not be stored.
        """
        turns, generation, lineage = await self.store.read(partial(self._captured, seat.session.id))
        held = still_held(turns, seat.session.id, lineage)
        lost = "" if remembered is None else what_is_lost(held, remembered)
        if remembered == () and came_with_turns(turns, seat.session.id, lineage):
            lost = "the conversation that was imported had turns, and it has none"
        observation = await self._record(seat.session, reported=reported, detail=detail or lost, lost=lost != "")
        if observation.outcome is ObservationOutcome.SUCCEEDED:
            self.unproven.pop(seat.session.id, None)
        elif reported is not None:
            self.unproven[seat.session.id] = seat.said_as
        require_success(observation, room=seat.room_name)
        placement = self.expectations[seat.session.id][1]
        later = sum(turn.state is TurnState.CAPTURED for turn in turns) - len(held)
        await self.feed.append(seat.room_id, None, [_resumed(reported, placement, generation, later)])

    def _captured(self, session: UUID, repos: Repos) -> tuple[tuple[Turn, ...], int, Lineage]:
        """Return the session's turns, the number of the generation from which it comes back, and where that comes from."""
        checkpoint = self.expectations[session][0].evidence.checkpoint_id
        assert checkpoint is not None
        row = repos.checkpoints.get(checkpoint)
        made = tuple(each for each in repos.checkpoints.from_exports_of(row.host_id) if each.generation <= row.generation)
        numbers = repos.checkpoints.numbers_of(row.host_id) if made else {}  # they matter only where something was restored
        return repos.turns.of_session(session), row.generation, Lineage(numbers, made)

    async def _record(self, session: RuntimeSession, *, reported: str | None, detail: str, lost: bool = False) -> Observation:
        decision, placement = self.expectations[session.id]
        checkpoint = decision.evidence.checkpoint_id
        assert checkpoint is not None
        observation = observation_of(
            session,
            checkpoint,
            observation_id=self.ids.uuid(),
            observed_at=self.clock.now(),
            source=placement.source,
            reported=reported,
            detail=detail,
            lost=lost,
        )
        await self.observer.record(observation)
        return observation

    async def settle(self, seat: Seat, remembered: tuple[ProviderTurn, ...]) -> bool:
        """Mark every turn whose end was not seen or not captured as kept or cut (CONT-11).

        One whose start was not even noted is first bound to the provider's turn that it is, where the provider remembers it.

        Args:
            seat: The session's seat.
            remembered: The turns the provider reports; empty for a session that starts fresh.

        Returns:
            Whether a kept turn now waits to be captured.
        """
        outcomes = {turn.provider_turn: turn.outcome for turn in remembered}
        now = self.clock.now()

        def write(repos: Repos) -> bool:
            if unseen := match_unseen(repos.turns.of_session(seat.session.id), remembered):
                _note_start(repos, *unseen)
            waiting = False
            for turn in repos.turns.unfinished_of(seat.session.id):
                decided = kept_or_cut(turn, outcomes)
                if decided is None:
                    waiting = True
                    continue
                state, why = decided
                waiting = waiting or state is TurnState.COMPLETED
                repos.turns.move(turn.id, state, detail=why, ended_at=now)
                repos.events.append(seat.room_id, turn.id, [TurnStateChanged(state=state, detail=why)])
            return waiting

        waiting = await self.store.transact(write)
        self.feed.announce(seat.room_id)
        return waiting

    def needs_new_generation(self, seat: Seat) -> bool:
        """Say whether a session came back from live state alone, because the generation that it extends is damaged."""
        decision, _ = self.expectations[seat.session.id]
        return decision.evidence.generation_state == "corrupt"

    async def capture(
        self,
        reason: CheckpointReason,
        identities: Mapping[UUID, str] | None = None,
        *,
        bound_s: float = limits.CHECKPOINT_WAIT_S,
        checkpoint_id: UUID | None = None,
        confirmed: bool = True,
    ) -> Checkpoint | None:
        """Publish a generation of the host, which makes its completed turns safe; ``None`` when the provider declares no continuity.

        ``bound_s``: how long the turns that run are waited for. ``checkpoint_id``: where it must be an exact retry.
        Not ``confirmed``: turns that were completed are not taken to be in it.

        Raises:
            SiblingRefusedError: A session was refused and cannot be kept as the generation before has it.
            JamError: As :meth:`CheckpointBroker.capture`.
        """
        if not self.hooks.description.continuity:
            return None
        captures = await self.hooks.declare_capture()
        if self.unproven and not can_keep(captures):
            why = "its program came back with something else than was captured"
            raise SiblingRefusedError(path=".", reason=why, concerns=", ".join(self.unproven.values()))
        try:
            row = await self.broker.capture(
                self.host,
                reason=reason,
                state_root=self.state_root,
                capture_list=captures,
                provider_version=self.program_version,
                freeze=self.freeze,
                databases=self.databases.guest if self.databases else None,
                identities=identities,
                bound_s=bound_s,
                checkpoint_id=checkpoint_id,
                confirmed=confirmed,
            )
        except CaptureRefusedError as refused:
            refused.concerns = await self.store.read(partial(_concerned, self.host.id, refused.path))
            raise
        for turn in await self.store.read(lambda repos: repos.turns.captured_by(row.id)):
            self.feed.announce(turn.room_id)
        return row

    async def hindrance(self) -> str | None:
        """Return why the live state would not be used for a resume; ``None``: it extends the newest generation."""
        row = await self.store.read(lambda repos: repos.checkpoints.latest_of_host(self.host.id))
        sessions = await self.store.read(lambda repos: repos.sessions.of_host(self.host.id))
        if row is None:
            return "there is no checkpoint"
        hindrance = await self.activator.hindrance(sessions[0], row.id, state_root=self.state_root)
        if hindrance is not None or self.databases is None:
            return hindrance
        self.databases.let_wake()  # nothing runs on this host
        return await self.databases.activator.hindrance(self.host.id, row.id, self.databases.guest)

    async def note_files(self, turn: Turn, digest: str | None) -> None:
        """Record the work tree's state at the end of a turn (CONT-11)."""
        if digest is not None:
            await self.store.transact(lambda repos: repos.turns.note_workspace(turn.id, digest))

    async def compare_files(self, seat: Seat, digest: str | None, between: FilesBetween) -> None:
        """Say in the room when the files are not those of the last turn whose state is known: they are ahead of the conversation.

        ``between`` says what lies between two states of the work tree.
        """
        turns = await self.store.read(lambda repos: repos.turns.of_session(seat.session.id))
        known = next((turn for turn in reversed(turns) if turn.workspace_digest is not None), None)
        if known is not None and known.workspace_digest and digest is not None and digest != known.workspace_digest:
            what = await between(known.workspace_digest, digest)
            detail = (
                f"the files are ahead of the conversation: they changed after turn {known.id}, the last whose end was seen{what}"
            )
            await self.feed.append(seat.room_id, None, [SessionNotice(code="workspace.ahead", detail=detail)])

    def melt(self) -> None:
        """Stop freezing: the guest's processes are gone, so there is nothing to hold still."""
        self.freeze = None
        if self.databases:
            self.databases.let_wake()


def _concerned(host: UUID, path: str, repos: Repos) -> str:
    """Return the rooms whose provider named the path after their conversation; all rooms of the host, where none is named by it."""
    named, every = [], []
    for session in repos.sessions.of_host(host):
        binding = repos.bindings.of_session(session.id)
        if binding.live:
            room = f"room {repos.rooms.get(binding.room_id).name}"
            every.append(room)
            if session.provider_identity and session.provider_identity in path:
                named.append(room)
    return ", ".join(named or every)


def _note_start(repos: Repos, turn: Turn, found: ProviderTurn) -> None:
    """Write down, late, that the provider began a turn."""
    repos.turns.move(turn.id, TurnState.RUNNING, provider_turn=found.provider_turn)
    started = TurnStarted(provider_turn=found.provider_turn)
    repos.events.append(turn.room_id, turn.id, [started, TurnStateChanged(state=TurnState.RUNNING)])


def _resumed(identity: str | None, placement: Placement, generation: int, later: int) -> SessionNotice:
    if placement.source is ResumeSource.LIVE:
        how = "its live state extends the last checkpoint"
    else:
        how = f"restored from the last checkpoint: {placement.why_restored}"
    gone = f"; captured later, and in no checkpoint any more: {later} of its turns" if later else ""
    return SessionNotice(
        code="session.resumed", detail=f"resumed exactly (generation {generation}): {how}; thread {identity}{gone}"
    )
