"""Conversations that cannot be brought back: the evidence, and a fresh start on a person's word (CONT-9)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from jamcore.continuity.resets.action import ResetIntent, reset_action
from jamcore.continuity.resets.evidence import BoundSession, Looked, require_confirmed
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.hosts import HostWorkers
from jamcore.daemon.reset_files import ResetFiles
from jamcore.daemon.reset_plan import ResetPlanner, SourceSession, source_sessions
from jamcore.daemon.reset_rows import apply_reset, cut_turns, keep_record
from jamcore.daemon.reset_standing import standing_against
from jamcore.daemon.rooms import Rooms
from jamcore.daemon.views import bound_room
from jamcore.domain.continuity import CheckpointReason, ContinuityFailure
from jamcore.domain.errors import ConflictError, JamError, bounded
from jamcore.domain.plan import Plan
from jamcore.domain.resets import (
    MEANING,
    ContinuityReset,
    ContinuityView,
    ResetRefusedError,
    RoomStanding,
    StartFreshRequest,
    StartFreshResult,
)
from jamcore.domain.sessions import RuntimeHost, SessionWorkspace, TurnState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.runtime.provision import SessionProvisioner
from jamcore.sandbox.fence import fence
from jamcore.store import Repos, Store
from jamcore.system.clock import Clock

FINISHED = (TurnState.COMPLETED, TurnState.CAPTURED)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request to start afresh turned out to mean: which action, of which host, and the room that it came from."""

    action: UUID
    host: RuntimeHost
    room: UUID
    begun: bool


class ContinuityResets:
    """See :class:`~jamcore.daemon.services.ContinuityService`; also what the journaled reset asks for, which it adds to ``actions``."""

    def __init__(
        self,
        *,
        store: Store,
        feed: RoomFeed,
        engines: EngineHouse,
        hosts: HostWorkers,
        rooms: Rooms,
        provisioner: SessionProvisioner,
        planner: ResetPlanner,
        files: ResetFiles,
        kept_down: Callable[[UUID], AbstractAsyncContextManager[None]],
        gate: StopGate,
        clock: Clock,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._store = store
        self._feed = feed
        self._engines = engines
        self._hosts = hosts
        self._rooms = rooms
        self._provisioner = provisioner
        self._planner = planner
        self._files = files
        self._kept_down = kept_down
        self._gate = gate
        self._clock = clock
        self._runner = runner
        self._action = reset_action(self)
        actions.register(self._action)

    # ----------------------------------------------------------------------------------------------------- what clients ask

    async def inspect(self, ref: str) -> ContinuityView:
        """Return the evidence about a room's host. A fresh start that was cut shows what was confirmed."""
        host = await self._store.read(lambda repos: bound_room(repos, repos.rooms.find(ref)).host)
        sources = await self._store.read(lambda repos: source_sessions(repos, host.id))
        unfinished = await self._store.read(lambda repos: repos.continuity_resets.of_source(host.id))
        if unfinished is not None:
            looked, blocked = Looked(unfinished.evidence, ""), ""
        else:
            looked = await self._look(host, sources)
            blocked = await self._blocked(host)
        evidence = looked.evidence
        failures = {session.session_id: session.failure for session in evidence.sessions}

        def standings(repos: Repos) -> tuple[RoomStanding, ...]:
            return tuple(self._standing(repos, host, source, failures.get(source.session.id)) for source in sources)

        meaning = MEANING[evidence.failure] if evidence.failure else "every conversation of this host can be brought back"
        return ContinuityView(
            evidence=evidence,
            digest=evidence.checksum(),
            meaning=f"{meaning}: {looked.problem}" if looked.problem else meaning,
            rooms=await self._store.read(standings),
            can_start_fresh=evidence.failure is not None and not blocked,
            blocked=blocked,
            unfinished=unfinished.id if unfinished else None,
        )

    async def start_fresh(self, ref: str, request: StartFreshRequest) -> StartFreshResult:
        """Give up the conversations of the room's host on the confirmed evidence, and bring the room up with a new one.

        What can be refused is refused before anything is begun. Meanwhile nobody brings the host up.

        Raises:
            ResetRefusedError: There is no failure, the evidence changed, the host is in use, or somebody was faster.
            ConflictError: The id was used for another fresh start.
            DaemonStoppingError: The daemon is being stopped.
            JamError: What did not work; what was recorded is finished by the same request again, or by the next start.
        """
        asked = await self._asked(ref, request)
        intent = ResetIntent(id=asked.action, host_id=asked.host.id, confirmed=request.evidence)
        if not asked.begun:
            await self._require_down(asked.host.id)  # whoever brings it up now is not waited for
        with self._gate.until_stop("begin a conversation afresh"):
            async with self._kept_down(asked.host.id):
                if not asked.begun:
                    await self._require_down(asked.host.id)
                    require_confirmed((await self._look(asked.host)).evidence, request.evidence)
                done = await self._runner.run(self._action, asked.action, intent)
        return await self._brought_up(done, asked.room)

    # -------------------------------------------------------------------------------------------------- what the action asks

    async def plan(self, intent: ResetIntent) -> ContinuityReset:
        """See :class:`~jamcore.continuity.resets.action.ResetSources`. What outlived a daemon is proven and stopped first (SHARE-4)."""
        host = await self._require_down(intent.host_id)
        await self._fence(host)
        evidence = (await self._look(host)).evidence
        require_confirmed(evidence, intent.confirmed)
        return await self._planner.plan(intent.id, host, evidence)

    async def record(self, reset: ContinuityReset) -> None:
        """See :class:`~jamcore.continuity.resets.action.ResetSources`."""
        host = await self._require_down(reset.source_host_id)
        require_confirmed((await self._look(host)).evidence, reset.confirmed)
        await self._store.transact(partial(keep_record, reset=reset))

    async def is_recorded(self, reset: ContinuityReset) -> bool:
        """See :class:`~jamcore.continuity.resets.action.ResetSources`."""
        return await self._store.read(lambda repos: repos.continuity_resets.find_id(reset.id)) is not None

    async def settle(self, reset: ContinuityReset) -> None:
        """See :class:`~jamcore.continuity.resets.action.ResetSources`."""
        for room in await self._store.transact(partial(cut_turns, reset=reset, now=self._clock.now())):
            self._feed.announce(room)

    async def checkpoint(self, reset: ContinuityReset) -> str:
        """See :class:`~jamcore.continuity.resets.action.ResetSources`. That there is none hinders nothing: nothing is deleted.

        The sandbox is fenced first, each time: what ran on without a daemon would write while its state is read.
        """
        host = await self._store.read(lambda repos: repos.hosts.get(reset.source_host_id))
        try:
            await self._fence(host)
            continuity = self._hosts.continuity(host)
            continuity.melt()
            row = await continuity.capture(CheckpointReason.BEFORE_RESET, checkpoint_id=reset.checkpoint_id)
        except (JamError, OSError) as error:
            return f"no last checkpoint could be made of what is left of it: {bounded(str(error))}"
        return f"what is left of it is in checkpoint {row.id}" if row else "its agent declares no checkpoints"

    async def carry(self, reset: ContinuityReset) -> tuple[str, ...]:
        """See :class:`~jamcore.continuity.resets.action.ResetSources`."""
        return await self._files.carry(reset)

    async def apply(self, intent: ResetIntent) -> None:
        """See :class:`~jamcore.continuity.resets.action.ResetSources`."""
        reset = intent.planned()
        said = {each.room_id: f"{files}; {intent.checkpoint}" for each, files in zip(reset.sessions, intent.files, strict=True)}
        work = partial(apply_reset, reset=reset, said=said, fence=self._store.fence)
        for room in await self._store.transact(work):
            self._feed.announce(room)

    # ---------------------------------------------------------------------------------------------------------------- inside

    async def _asked(self, ref: str, request: StartFreshRequest) -> _Asked:
        """Find out what is asked for: an exact retry, the rest of one that was cut, or a new one."""

        def read(repos: Repos) -> _Asked:
            room = repos.rooms.find(ref)
            bound = bound_room(repos, room)
            known = repos.continuity_resets.find_id(request.id) or repos.continuity_resets.of_source(bound.host.id)
            if known is None:
                return _Asked(request.id, bound.host, room.id, begun=repos.operations.knows(request.id))
            if known.confirmed != request.evidence or room.id not in {each.room_id for each in known.sessions}:
                raise ConflictError(kind="continuity reset", ref=str(known.id), problem="it was confirmed for something else")
            return _Asked(known.id, repos.hosts.get(known.source_host_id), room.id, begun=True)

        return await self._store.read(read)

    async def _brought_up(self, done: ResetIntent, room: UUID) -> StartFreshResult:
        """Make the new directories and bring the room up; what hinders that is said, since the fresh start itself is done."""
        reset, problem = done.planned(), ""
        try:
            for each in reset.sessions:
                workspace = await self._store.read(partial(_workspace, each.session_id))
                await self._provisioner.require_ready(workspace)
            await self._rooms.resume(str(room))
        except JamError as error:
            problem = f"{error.code}: {bounded(str(error))}"

        def names(repos: Repos) -> tuple[str, ...]:
            return tuple(repos.rooms.get(each.room_id).name for each in reset.sessions)

        return StartFreshResult(
            id=reset.id,
            source_host_id=reset.source_host_id,
            source_sandbox=reset.evidence.sandbox,
            host_id=reset.host_id,
            sandbox=reset.sandbox,
            rooms=await self._store.read(names),
            checkpoint=done.checkpoint,
            files=done.files,
            live=not problem,
            problem=problem,
        )

    async def _look(self, host: RuntimeHost, sources: tuple[SourceSession, ...] | None = None) -> Looked:
        if sources is None:
            sources = await self._store.read(lambda repos: source_sessions(repos, host.id))
        bound = tuple(BoundSession(each.session, each.binding.room_id, each.binding.id) for each in sources)
        return await self._hosts.continuity(host).look(bound)

    async def _require_down(self, host_id: UUID) -> RuntimeHost:
        """Return a host on which no provider runs or comes up. A lease is taken before anything of a host is started.

        Raises:
            ResetRefusedError: A session holds it, it is not parked, it was started afresh already, or its files are not in their place.
        """
        host, problem = await self._store.read(partial(standing_against, host_id))
        if problem:
            raise ResetRefusedError(host=str(host_id), problem=problem)
        return host

    async def _fence(self, host: RuntimeHost) -> None:
        """Stop what runs in a host's sandbox without a worker, once it is proven to be Jam's (SHARE-4)."""
        await fence(self._hosts.ownership(self._engines.get(host.engine)), Plan.model_validate_json(host.plan_json))

    async def _blocked(self, host: RuntimeHost) -> str:
        try:
            await self._require_down(host.id)
        except ResetRefusedError as error:
            return error.problem
        return ""

    def _standing(self, repos: Repos, host: RuntimeHost, source: SourceSession, failure: ContinuityFailure | None) -> RoomStanding:
        turns = [turn.state for turn in repos.turns.of_session(source.session.id) if turn.state in FINISHED]
        return RoomStanding(
            room_id=source.binding.room_id,
            name=repos.rooms.get(source.binding.room_id).name,
            failure=failure,
            turns=len(turns),
            captured=turns.count(TurnState.CAPTURED),
            files=self._files.where(host, source),
            carried=self._files.carried(host, source),
        )


def _workspace(session: UUID, repos: Repos) -> SessionWorkspace:
    return repos.workspaces.of_session(session)
