"""Removing the payload of checkpoints on a person's word: what keeps each one, the plan, and the removal (WS-9)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from uuid import UUID

from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.generations.publish import Generations
from jamcore.continuity.retention.deletion import PayloadRemover, RemovalIntent
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.views import bound_room
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.retention import (
    Blocker,
    CheckpointStanding,
    RemovalPlan,
    RemovalQuestion,
    RemovalRequest,
    RemovalResult,
)
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.gate import StopGate
from jamcore.store import Repos, Store


class StoredKeeping:
    """Satisfies :class:`~jamcore.continuity.retention.deletion.Keeping` on the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def kept(self, host: UUID) -> Mapping[UUID, tuple[Blocker, str]]:
        """See :class:`~jamcore.continuity.retention.deletion.Keeping`."""
        return await self._store.read(partial(kept_in, host))


class Removals:
    """Part of :class:`~jamcore.daemon.services.CheckpointService`; adds the journaled removal to ``actions``."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        generations: Generations,
        broker: CheckpointBroker,
        gate: StopGate,
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._store = store
        self._gate = gate
        self._runner = runner
        self._remover = PayloadRemover(
            generations,
            broker=broker,
            store=store,
            keeping=StoredKeeping(store),
            clock=options.clock,
            ids=options.ids,
            crash=options.crash,
        )
        actions.register(self._remover.action)

    async def standings(self, room: str) -> tuple[CheckpointStanding, ...]:
        """Return the generations of a room's host, newest first, each with what keeps it as far as the store knows.

        Those of hosts that a fresh start left behind come after them.
        """
        return await self._store.read(partial(_standings, room))

    async def plan(self, question: RemovalQuestion) -> RemovalPlan:
        """Return what the removal of these checkpoints would free, and what stands against it. Changes nothing.

        Raises:
            InvalidInputError: They are of several hosts.
        """
        host, chosen = await self._store.read(partial(_chosen, question.checkpoints))
        evidence = await self._remover.evidence(host, chosen)
        return RemovalPlan(evidence=evidence, digest="" if evidence.blocked else evidence.content_digest())

    async def remove(self, request: RemovalRequest) -> RemovalResult:
        """Remove what was confirmed. An exact retry changes nothing and returns the same; a cut removal is finished by the next start.

        Raises:
            RemovalRefusedError: Something stands against it, or it is not what was confirmed.
            CheckpointCorruptError: Something is damaged, so that all of it stays.
            RemovalSpaceError, StorageFullError: There is no room to copy what other checkpoints need.
        """
        host, chosen = await self._store.read(partial(_chosen, request.checkpoints))
        intent = RemovalIntent(id=request.id, host_id=host, checkpoints=chosen, confirmed=request.confirmed)
        with self._gate.until_stop("remove the payload of checkpoints"):
            async with self._remover.one_at_a_time(host):
                done = await self._runner.run(self._remover.action, request.id, intent)
        return RemovalResult(id=done.id, host_id=host, checkpoints=chosen, bytes_freed=done.freed or 0)


def kept_in(host: UUID, repos: Repos) -> dict[UUID, tuple[Blocker, str]]:
    """Return the checkpoints of a host that something refers to, besides the newest."""
    bound = (Blocker.REFERENCED, "a fresh start is bound to it")
    exported = (Blocker.REFERENCED, "an export was made with it")
    kept = dict.fromkeys(repos.exports.referenced_checkpoints(host), exported)
    kept |= dict.fromkeys(repos.continuity_resets.referenced_checkpoints(host), bound)
    if repos.leases.live_of_host(host):
        for session in repos.sessions.of_host(host):
            decision = repos.activations.latest_of_session(session.id)
            if decision is not None and decision.evidence.checkpoint_id is not None:
                kept.setdefault(decision.evidence.checkpoint_id, (Blocker.IN_USE, "a session that is live came back from it"))
    return kept


def _standings(room: str, repos: Repos) -> tuple[CheckpointStanding, ...]:
    hosts = repos.continuity_resets.lineage(bound_room(repos, repos.rooms.find(room)).host.id)
    return tuple(standing for host in hosts for standing in _standings_of(host, repos))


def _standings_of(host: UUID, repos: Repos) -> tuple[CheckpointStanding, ...]:
    rows = repos.checkpoints.of_host(host)
    kept = kept_in(host, repos)
    if rows:
        kept[rows[-1].id] = (Blocker.NEWEST, "it is the newest of its sandbox")
    removed = {deletion.checkpoint_id: deletion.removed_at for deletion in repos.payload_deletions.of_host(host)}
    found = []
    for row in reversed(rows):
        because, detail = kept.get(row.id, (None, ""))
        if (gone := removed.get(row.id)) is not None:
            because, detail = Blocker.REMOVED, ""
        elif (read := repos.verifications.of_checkpoint(row.id)) is not None and read.problem:
            because, detail = Blocker.CORRUPT, read.problem
        found.append(CheckpointStanding(checkpoint=row, kept_because=because, detail=detail, removed_at=gone))
    return tuple(found)


def _chosen(refs: tuple[str, ...], repos: Repos) -> tuple[UUID, tuple[UUID, ...]]:
    """Return the host and the checkpoints that a person meant, oldest first."""
    rows = [repos.checkpoints.find(ref) for ref in refs]
    if len({row.host_id for row in rows}) != 1:
        raise InvalidInputError(field="checkpoints", problem="they are of several rooms' hosts: remove them one room at a time")
    return rows[0].host_id, tuple(sorted({row.id for row in rows}))
