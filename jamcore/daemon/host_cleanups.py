"""Cleaning whole hosts up on a person's word: what would go, and the journaled clean-up (WS-8, WS-10, WS-17)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from uuid import UUID, uuid5

from anyio import to_thread

from jamcore.daemon.cleanup_looks import CleanupLooks
from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.host_files import HostFiles
from jamcore.daemon.host_overrides import find_host
from jamcore.domain.cleanup_plans import (
    CleanupEvidence,
    CleanupItem,
    CleanupPlan,
    CleanupQuestion,
    CleanupRequest,
    CleanupResult,
    CleanupUnfinishedError,
)
from jamcore.domain.events import SessionNotice
from jamcore.domain.host_cleanups import CleanupStage, HostCleanup
from jamcore.domain.keeping import KeptBytes
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.plan import Owner, Plan
from jamcore.domain.retention import DeletionStage, PayloadDeletion
from jamcore.domain.sandboxes import Presence
from jamcore.domain.sessions import HostState, RuntimeHost
from jamcore.engines.port import Engine
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.gate import StopGate
from jamcore.sandbox.cleanup import CleanupIntent, cleanup_action
from jamcore.sandbox.override import HostInUseError
from jamcore.sandbox.ownership import Ownership
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.system.clock import Clock

REMOVED = "host.removed"
"""Code of what is said in the rooms."""


class HostCleanups:
    """See :class:`~jamcore.daemon.services.CleanupService`; also what the journaled clean-up asks for, which it adds to ``actions``."""

    def __init__(
        self,
        *,
        store: Store,
        feed: RoomFeed,
        engines: EngineHouse,
        ownership: Callable[[Engine], Ownership],
        kept_down: Callable[[UUID], AbstractAsyncContextManager[None]],
        looks: CleanupLooks,
        files: HostFiles,
        gate: StopGate,
        clock: Clock,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._store = store
        self._feed = feed
        self._engines = engines
        self._ownership = ownership
        self._kept_down = kept_down
        self._looks = looks
        self._files = files
        self._gate = gate
        self._clock = clock
        self._runner = runner
        self._action = cleanup_action(self)
        actions.register(self._action)

    async def plan(self, ref: str, question: CleanupQuestion) -> CleanupPlan:
        """Return what the clean-up of a host would take away, and what stands against it. Changes nothing."""
        host = await self._store.read(partial(find_host, ref))
        unfinished = await self._store.read(lambda repos: repos.host_cleanups.unfinished(host.id))
        evidence = await self._looks.look(host.id, own=unfinished.id if unfinished else None)
        standing = evidence.standing(discard_work=question.discard_work)
        return CleanupPlan(
            evidence=evidence,
            standing=standing,
            planned_bytes=evidence.planned_bytes,
            retained_bytes=evidence.retained_bytes,
            change_requests=await self._store.read(partial(_changes, host.id)),
            unfinished=unfinished,
            digest="" if standing or unfinished else evidence.content_digest(),
        )

    async def clean_up(self, ref: str, request: CleanupRequest) -> CleanupResult:
        """Clean up what was confirmed. What can be refused is refused before anything is begun; meanwhile nobody brings the host up.

        One that was cut goes on when it is confirmed once more, by the digest that it was begun with.

        Raises:
            HostInUseError: A session of the host is live, or comes up.
            CleanupRefusedError: Something stands against it, or it is not what was confirmed.
            CleanupConflictError: A sandbox is there that was not.
            OwnershipMismatchError, MarkerUnreadableError: It is not proven to be Jam's.
            EngineUnknownError: It cannot be said what is there.
            CleanupUnfinishedError: It was begun and could not be finished.
        """
        host = await self._store.read(partial(find_host, ref))
        intent = await self._intent(host, request)
        known = await self._store.read(lambda repos: repos.operations.knows(intent.id))
        if not known:
            await self._require_free(host.id)  # whoever brings it up now is not waited for
        with self._gate.until_stop("clean a host up"):
            async with self._kept_down(host.id):
                if not known:
                    await self._require_free(host.id)
                    (await self._looks.look(host.id)).require(request.confirmed, discard_work=request.discard_work)
                await self._runner.run(self._action, intent.id, intent)
        return await self._store.read(partial(_result, intent))

    async def _intent(self, host: RuntimeHost, request: CleanupRequest) -> CleanupIntent:
        """Return what is run: the clean-up that was cut, where this confirms the same, otherwise a new one."""
        cut = await self._store.read(partial(_cut, host.id))
        if cut is not None and cut.confirmed == request.confirmed:
            return cut
        return CleanupIntent(
            id=request.id, host_id=host.id, sandbox=host.sandbox, confirmed=request.confirmed, force=request.discard_work
        )

    async def _require_free(self, host: UUID) -> None:
        if await self._store.read(lambda repos: repos.leases.live_of_host(host)):
            raise HostInUseError(host=str(host))

    # ------------------------------------------------------------------------------------------------------- of the action

    async def proofs(self, host: UUID) -> tuple[Ownership, Owner]:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        row = await self._store.read(lambda repos: repos.hosts.get(host))
        return self._ownership(self._engines.get(row.engine)), Plan.model_validate_json(row.plan_json).owner

    async def look(self, intent: CleanupIntent) -> CleanupEvidence:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        return await self._looks.look(intent.host_id, own=intent.id)

    async def prepare(self, intent: CleanupIntent, evidence: CleanupEvidence) -> None:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        prepared = HostCleanup(
            id=intent.id,
            host_id=intent.host_id,
            stage=CleanupStage.PREPARED,
            confirmed=intent.confirmed,
            sandbox_absent=evidence.presence == Presence.ABSENT,
            planned_bytes=evidence.planned_bytes,
            removed_bytes=None,
            retained_bytes=evidence.retained_bytes,
            prepared_at=self._clock.now(),
            ended_at=None,
        )
        await self._store.transact(lambda repos: repos.host_cleanups.prepare(prepared))

    async def prepared(self, intent: CleanupIntent) -> bool:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        return await self._store.read(
            lambda repos: any(each.id == intent.id for each in repos.host_cleanups.of_host(intent.host_id))
        )

    async def advance(self, intent: CleanupIntent, stage: CleanupStage) -> HostCleanup:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        removed = intent.removed_bytes if stage is CleanupStage.ROOT_REMOVED else None
        return await self._store.transact(lambda repos: repos.host_cleanups.advance(intent.id, stage, removed_bytes=removed))

    async def stage(self, intent: CleanupIntent) -> CleanupStage:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        return (await self._store.read(lambda repos: repos.host_cleanups.get(intent.id))).stage

    async def root_items(self, intent: CleanupIntent) -> tuple[CleanupItem, ...]:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        host = await self._store.read(lambda repos: repos.hosts.get(intent.host_id))
        try:
            return await self._looks.root_items(host)
        except OSError as error:
            raise CleanupUnfinishedError(sandbox=intent.sandbox, problem=str(error)) from error

    async def set_aside(self, intent: CleanupIntent) -> None:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        await in_thread(partial(self._files.set_aside, intent.host_id))

    async def is_aside(self, intent: CleanupIntent) -> bool:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        return not await to_thread.run_sync(self._files.is_there, intent.host_id)

    async def remove_root(self, intent: CleanupIntent) -> None:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        await to_thread.run_sync(self._files.remove, intent.host_id)

    async def settle(self, intent: CleanupIntent) -> None:
        """See :class:`~jamcore.sandbox.cleanup.CleanupSources`."""
        for room in await self._store.transact(partial(_settle, intent)):
            self._feed.announce(room)


def _changes(host: UUID, repos: Repos) -> int:
    """Count the change requests of a host's sessions: their packages lie elsewhere, and stay."""
    sessions = {session.id for session in repos.sessions.of_host(host)}
    return sum(change.session_id in sessions for change in repos.changes.list())


def _cut(host: UUID, repos: Repos) -> CleanupIntent | None:
    """Return what a clean-up of a host that has not ended was begun with."""
    unfinished = repos.host_cleanups.unfinished(host)
    begun = {identifier: initial for identifier, _, initial in repos.operations.running()} if unfinished else {}
    initial = begun.get(unfinished.id) if unfinished else None
    return None if initial is None else CleanupIntent.model_validate_json(initial)


def _rooms(repos: Repos, host: UUID) -> tuple[UUID, ...]:
    return tuple(repos.bindings.of_session(session.id).room_id for session in repos.sessions.of_host(host))


def _settle(intent: CleanupIntent, repos: Repos) -> tuple[UUID, ...]:
    if repos.hosts.get(intent.host_id).state is HostState.REMOVED:
        return ()
    done = repos.host_cleanups.advance(intent.id, CleanupStage.SUCCEEDED)
    _note_payloads_gone(repos, done)
    repos.hosts.move(intent.host_id, HostState.REMOVED)
    detail = (
        f"the sandbox {intent.sandbox} and its files were removed on a person's word: {done.removed_bytes or 0} bytes went,"
        f" {done.retained_bytes} bytes of exports stay (clean-up {intent.id}, evidence {intent.confirmed})"
    )
    rooms = _rooms(repos, intent.host_id)
    for room in rooms:
        repos.events.append(room, None, [SessionNotice(code=REMOVED, detail=detail)])
    return rooms


def _note_payloads_gone(repos: Repos, done: HostCleanup) -> None:
    """Note that the payload of the host's checkpoints went with it: their rows stay, and lists say so."""
    known = {each.checkpoint_id for each in repos.payload_deletions.of_host(done.host_id)}
    for row in repos.checkpoints.of_host(done.host_id):
        if row.id not in known:
            gone = PayloadDeletion(
                id=uuid5(done.id, str(row.id)),
                checkpoint_id=row.id,
                host_id=done.host_id,
                removal_id=done.id,
                stage=DeletionStage.PREPARED,
                planned_bytes=0,
                freed_bytes=None,
                prepared_at=done.prepared_at,
                removed_at=None,
                ended_at=None,
            )
            repos.payload_deletions.prepare(gone)
    for stage in (DeletionStage.PAYLOAD_REMOVED, DeletionStage.SUCCEEDED):
        repos.payload_deletions.advance(done.id, stage)


def _result(intent: CleanupIntent, repos: Repos) -> CleanupResult:
    exports = (each for each in repos.exports.of_host(intent.host_id) if each.state is not ExportState.DELETED)
    return CleanupResult(
        cleanup=repos.host_cleanups.get(intent.id),
        sandbox=intent.sandbox,
        rooms=tuple(repos.rooms.get(room).name for room in _rooms(repos, intent.host_id)),
        exports=tuple(KeptBytes(id=each.id, bytes_total=each.bytes_total) for each in exports),
    )
