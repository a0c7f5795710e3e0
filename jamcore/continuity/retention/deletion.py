"""Removing the payload of checkpoints on a person's word, in three stages (WS-9).

Prepared: everything was looked at anew and is what was confirmed. PayloadRemoved: what others need lies in shared packs, and the rest is
gone. Succeeded: all that stays was looked at again. What cannot be told, or is damaged anywhere, ends it before anything is gone.

Reading and copying go on beside captures and turns. Captures are kept out only for the moment in which packs are exchanged.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

import anyio
import anyio.from_thread
import anyio.to_thread
import structlog

from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.generations.publish import CheckpointFailedError, Generations
from jamcore.continuity.ports import CheckpointStore, Rows
from jamcore.continuity.retention.repack import REPACK_POINTS, Repacker
from jamcore.continuity.retention.survey import Moves, Survey
from jamcore.domain.continuity import Checkpoint, CheckpointCorruptError
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.domain.retention import (
    Blocker,
    DeletionStage,
    PayloadDeletion,
    RemovalEvidence,
    RemovalRefusedError,
    RemovalSpaceError,
    Retention,
)
from jamcore.journal.declaration import Declaration
from jamcore.journal.points import CrashPoints
from jamcore.journal.steps import Action, Observed, Step, boundaries
from jamcore.system.clock import Clock
from jamcore.system.files import StorageFullError, storage_error
from jamcore.system.ids import IdSource

T = TypeVar("T")

KIND = "payload-deletion"
PREPARE, REPACK, RETIRE, UNLINK, PROVE = "prepare", "repack", "retire", "unlink", "prove"
REMOVAL_POINTS = (*boundaries(KIND, (PREPARE, REPACK, RETIRE, UNLINK, PROVE)), *REPACK_POINTS)
"""Every boundary of one removal: those of its steps, and those inside them."""
SPARE_BYTES = 1 << 20
"""What must be free on the disk besides what is copied."""


class RemovalIntent(Record):
    """One removal. ``packs`` names the shared packs: an id that Jam makes, since of two copies of a unit the one in the newer pack counts.

    ``freed`` is known once it is settled what goes.
    """

    id: UUID
    host_id: UUID
    checkpoints: tuple[UUID, ...]
    confirmed: str
    packs: UUID | None = None
    freed: int | None = None


class Keeping(Protocol):
    """What keeps a checkpoint besides its being the newest: known to whoever composes the removal."""

    async def kept(self, host: UUID) -> Mapping[UUID, tuple[Blocker, str]]:
        """Return the checkpoints of a host that something refers to, and what does."""


class PayloadRemover:
    """Says what a removal would do, and does it. One object per daemon; it shares ``generations`` with the broker."""

    def __init__(
        self,
        generations: Generations,
        *,
        broker: CheckpointBroker,
        store: CheckpointStore,
        keeping: Keeping,
        clock: Clock,
        ids: IdSource,
        crash: CrashPoints,
    ) -> None:
        self._generations = generations
        self._broker = broker
        self._store = store
        self._keeping = keeping
        self._clock = clock
        self._ids = ids
        self._crash = crash
        self._removing: dict[UUID, anyio.Lock] = {}
        self._looked_for: dict[UUID, tuple[UUID, Survey]] = {}
        self.action = Action(
            KIND,
            RemovalIntent,
            (
                Step(PREPARE, self._prepare, OnRestart.OBSERVE_THEN_FINISH, observe=self._is_prepared, leaves="everything"),
                Step(REPACK, self._repack, OnRestart.REPLAY, leaves="every checkpoint; some units may lie on the disk twice"),
                Step(RETIRE, self._retire, OnRestart.REPLAY, leaves="every checkpoint that was not removed yet"),
                Step(UNLINK, self._unlink, OnRestart.REPLAY, leaves="packs that nobody needs"),
                Step(PROVE, self._prove, OnRestart.REPLAY, leaves="the checkpoints that stay, one of them damaged"),
            ),
            hopeless=(RemovalRefusedError, RemovalSpaceError, CheckpointCorruptError, StorageFullError),
            declares=Declaration(
                title="removal of checkpoints",
                evidence="every checkpoint of the host, and what refers to each",
                replay="checkpoint payload deletions",
                confirms=RemovalEvidence,
            ),
        )

    def one_at_a_time(self, host: UUID) -> anyio.Lock:
        """Return what a removal holds from its beginning to its end: two at once would not know what the other one leaves."""
        return self._removing.setdefault(host, anyio.Lock())

    async def evidence(self, host: UUID, checkpoints: Sequence[UUID]) -> RemovalEvidence:
        """Look, and return what the removal of these checkpoints would free and what stands against it. Changes nothing.

        Args:
            host: Whose.
            checkpoints: Recorded generations of this host.

        Damage to a checkpoint that would be left keeps all of them, as a blocker that names it.

        Raises:
            CheckpointFailedError: The machine failed.
        """
        return (await self._weighed(host, checkpoints))[0]

    async def _weighed(self, host: UUID, checkpoints: Sequence[UUID]) -> tuple[RemovalEvidence, Survey | None]:
        rows, deletions = await self._store.read(partial(_rows, host))
        kept = dict(await self._keeping.kept(host))
        if rows:
            kept[rows[-1].id] = (Blocker.NEWEST, "it is what the rooms come back from")
        for deletion in deletions:
            if deletion.removed_at is not None:
                kept[deletion.checkpoint_id] = (Blocker.REMOVED, f"its payload was removed on {deletion.removed_at:%Y-%m-%d}")
        for each in await self._in_thread(host, partial(self._begun, deletions)):
            kept[each] = (Blocker.REMOVED, "it goes with a removal that was begun, which the next start of the daemon finishes")
        selected = frozenset(checkpoints)
        items = tuple(
            Retention(checkpoint_id=row.id, generation=row.generation, blocker=kept[row.id][0], detail=kept[row.id][1])
            if row.id in kept
            else Retention(checkpoint_id=row.id, generation=row.generation)
            for row in rows
            if row.id in selected
        )
        if any(item.blocker for item in items):
            return RemovalEvidence(host_id=host, items=items, bytes_freed=0, bytes_stay=0, bytes_copied=0), None
        try:
            return await self._in_thread(host, partial(self._weigh, host, rows, selected))
        except CheckpointCorruptError as error:
            return _kept_by_damage(host, items, rows, error), None

    def require_confirmed(self, evidence: RemovalEvidence, confirmed: str) -> None:
        """Require that nothing stands against a removal, and that it is the one that was confirmed.

        Raises:
            RemovalRefusedError: It is not.
        """
        host = str(evidence.host_id)
        if blocked := evidence.blocked:
            first = blocked[0]
            raise RemovalRefusedError(host=host, problem=f"generation {first.generation} stays ({first.blocker}): {first.detail}")
        if not hmac.compare_digest(evidence.content_digest(), confirmed):
            raise RemovalRefusedError(host=host, problem="what would be removed is no longer what was confirmed")

    # ------------------------------------------------------------------------------------------------------------- the steps

    async def _prepare(self, intent: RemovalIntent) -> RemovalIntent:
        evidence, survey = await self._weighed(intent.host_id, intent.checkpoints)
        self.require_confirmed(evidence, intent.confirmed)
        await self._in_thread(intent.host_id, partial(self._require_space, evidence))
        structlog.get_logger("jam.audit").warning(
            "payload of checkpoints is removed",
            action=str(intent.id),
            host=str(intent.host_id),
            generations=f"{len(evidence.items)} from {evidence.items[0].generation} to {evidence.items[-1].generation}",
            bytes=evidence.bytes_freed,
        )
        planned = [self._planned(intent, item) for item in evidence.items]
        await self._store.transact(lambda rows: [rows.payload_deletions.prepare(row) for row in planned])
        if survey is not None:
            self._looked_for[intent.host_id] = (intent.id, survey)
        return intent.model_copy(update={"packs": self._ids.uuid()})

    async def _is_prepared(self, intent: RemovalIntent) -> Observed[RemovalIntent]:
        rows = await self._store.read(lambda rows: rows.payload_deletions.of_removal(intent.id))
        done = {row.checkpoint_id for row in rows} == set(intent.checkpoints)
        return Observed(done, intent.model_copy(update={"packs": intent.packs or self._ids.uuid()}) if done else intent)

    async def _repack(self, intent: RemovalIntent) -> RemovalIntent:
        await self._require_ours(intent)
        survey = await self._survey(intent)
        await self._in_thread(intent.host_id, partial(self._copy, intent, survey))
        self._looked_for[intent.host_id] = (intent.id, survey)
        return intent

    async def _retire(self, intent: RemovalIntent) -> RemovalIntent:
        """Exchange the packs, then end the generations.

        Raises:
            CheckpointCorruptError: One that stays is damaged, and none has ended yet: all of them stay.
            CheckpointFailedError: The machine failed, or one that stays is damaged after some have ended: every start tries again.
        """
        await self._require_ours(intent)
        try:
            moves = await self._exchanged(intent)
        except CheckpointCorruptError as error:
            if not await self._in_thread(intent.host_id, partial(self._has_ended, intent)):
                raise
            problem = f"a removal that was begun cannot be finished yet: checkpoint {error.checkpoint}: {error.detail}"
            raise CheckpointFailedError(host=str(intent.host_id), problem=problem) from error
        freed = await self._in_thread(intent.host_id, partial(self._end, intent, moves))
        return intent.model_copy(update={"freed": freed})

    async def _exchanged(self, intent: RemovalIntent) -> Moves:
        """Exchange. What was published since the last look is looked at once more while nobody publishes: that is little."""
        survey = await self._survey(intent)
        await self._in_thread(intent.host_id, survey.moves)
        async with self._broker.between_publications(intent.host_id):
            return await self._in_thread(intent.host_id, partial(self._exchange, intent, survey))

    async def _unlink(self, intent: RemovalIntent) -> RemovalIntent:
        await self._in_thread(intent.host_id, lambda: self._repacker(intent).unlink(intent.checkpoints))
        await self._store.transact(partial(_removed, intent))
        return intent

    async def _prove(self, intent: RemovalIntent) -> RemovalIntent:
        """Look at all that stays from the start, as a new process would."""
        rows, _ = await self._store.read(partial(_rows, intent.host_id))
        fresh = self._generations.afresh()
        await self._in_thread(intent.host_id, lambda: Survey(fresh, intent.host_id, rows, frozenset(), _alive).look())
        await self._store.transact(lambda rows: rows.payload_deletions.advance(intent.id, DeletionStage.SUCCEEDED))
        return intent

    async def _require_ours(self, intent: RemovalIntent) -> None:
        """Stop a removal that failed once and was taken over by another one since."""
        if not (await self._is_prepared(intent)).done:
            raise RemovalRefusedError(host=str(intent.host_id), problem="another removal has taken these checkpoints over")

    async def _survey(self, intent: RemovalIntent) -> Survey:
        """Return what an earlier step of this run has looked at, with what is new since; or look from the start.

        The host is repaired first: the broker sweeps what a killed writer left once in its life, which must not be what is written here.
        """
        await self._broker.repair(intent.host_id)
        removal, survey = self._looked_for.pop(intent.host_id, (None, None))
        if survey is not None and removal == intent.id:
            await self._in_thread(intent.host_id, survey.look)
            return survey
        rows, _ = await self._store.read(partial(_rows, intent.host_id))
        return await self._in_thread(intent.host_id, partial(self._looked, intent.host_id, rows, frozenset(intent.checkpoints)))

    def _planned(self, intent: RemovalIntent, item: Retention) -> PayloadDeletion:
        return PayloadDeletion(
            id=self._ids.uuid(),
            checkpoint_id=item.checkpoint_id,
            host_id=intent.host_id,
            removal_id=intent.id,
            stage=DeletionStage.PREPARED,
            planned_bytes=item.bytes_freed,
            freed_bytes=None,
            prepared_at=self._clock.now(),
            removed_at=None,
            ended_at=None,
        )

    # --------------------------------------------------------------------------------------------------------- worker thread

    async def _in_thread(self, host: UUID, work: Callable[[], T]) -> T:
        """Run in a worker thread; what the machine refuses is a fault, after which the same is tried again."""
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            raise CheckpointFailedError(host=str(host), problem=str(error)) from error

    def _begun(self, deletions: Sequence[PayloadDeletion]) -> list[UUID]:
        """Return what goes with a removal of which a generation has ended: it can only be finished, and by nobody else."""
        open_ones = [deletion for deletion in deletions if deletion.removed_at is None]
        begun = {each.removal_id for each in open_ones if self._generations.is_retired(each.host_id, each.checkpoint_id)}
        return [each.checkpoint_id for each in open_ones if each.removal_id in begun]

    def _has_ended(self, intent: RemovalIntent) -> bool:
        """Say whether a generation of a removal has ended, so that the removal can only be finished."""
        return any(self._generations.is_retired(intent.host_id, each) for each in intent.checkpoints)

    def _looked(self, host: UUID, rows: Sequence[Checkpoint], selected: frozenset[UUID]) -> Survey:
        survey = Survey(self._generations, host, rows, selected, _alive)
        survey.look()
        return survey

    def _weigh(self, host: UUID, rows: Sequence[Checkpoint], selected: frozenset[UUID]) -> tuple[RemovalEvidence, Survey]:
        survey = self._looked(host, rows, selected)
        moves = survey.moves()
        items = survey.retention(moves)
        blocked = any(item.blocker for item in items)
        evidence = RemovalEvidence(
            host_id=host,
            items=items,
            bytes_freed=0 if blocked else moves.bytes_freed,
            bytes_stay=0 if blocked else sum(item.bytes_stay for item in items),
            bytes_copied=0 if blocked else moves.bytes_copied,
        )
        return evidence, survey

    def _require_space(self, evidence: RemovalEvidence) -> None:
        free = self._generations.files.free_bytes(self._generations.packs(evidence.host_id))
        needed = evidence.bytes_copied + SPARE_BYTES
        if free < needed:
            raise RemovalSpaceError(host=str(evidence.host_id), needed=needed, free=free, missing=needed - free)

    def _copy(self, intent: RemovalIntent, survey: Survey) -> None:
        """Copy; a full disk ends the removal, which has taken nothing away yet."""
        try:
            self._repacker(intent).copy(survey.moves().entries)
        except OSError as error:
            if isinstance(typed := storage_error(error), StorageFullError):
                raise typed from error
            raise

    def _exchange(self, intent: RemovalIntent, survey: Survey) -> Moves:
        survey.look()
        repacker = self._repacker(intent)
        moves = survey.moves()
        repacker.copy(moves.entries)
        repacker.forget(moves, intent.checkpoints)
        return moves

    def _end(self, intent: RemovalIntent, moves: Moves) -> int:
        repacker = self._repacker(intent)
        repacker.retire(moves, intent.checkpoints[::-1])
        return repacker.balance(intent.checkpoints)

    def _repacker(self, intent: RemovalIntent) -> Repacker:
        if intent.packs is None:
            raise ValueError("an earlier step has not named the packs")
        return Repacker(self._generations, intent.host_id, intent.packs, reach=self._crash.reach, alive=_alive)


def _kept_by_damage(
    host: UUID, items: Sequence[Retention], rows: Sequence[Checkpoint], error: CheckpointCorruptError
) -> RemovalEvidence:
    """Return the evidence when one that would be left is damaged: nothing goes."""
    number = next((str(row.generation) for row in rows if str(row.id) == error.checkpoint), error.checkpoint)
    because = {"blocker": Blocker.DAMAGE_BESIDE, "detail": f"generation {number} would be left, and is damaged: {error.detail}"}
    kept = tuple(item.model_copy(update=because) for item in items)
    return RemovalEvidence(host_id=host, items=kept, bytes_freed=0, bytes_stay=0, bytes_copied=0)


def _alive() -> None:
    anyio.from_thread.check_cancelled()


def _rows(host: UUID, rows: Rows) -> tuple[tuple[Checkpoint, ...], tuple[PayloadDeletion, ...]]:
    return rows.checkpoints.of_host(host), rows.payload_deletions.of_host(host)


def _removed(intent: RemovalIntent, rows: Rows) -> None:
    """Note what was freed: each its share, and the oldest what came otherwise than planned."""
    planned = {row.checkpoint_id: row.planned_bytes for row in rows.payload_deletions.of_removal(intent.id)}
    first = min(planned)
    planned[first] += (intent.freed or 0) - sum(planned.values())
    rows.payload_deletions.advance(intent.id, DeletionStage.PAYLOAD_REMOVED, freed=planned)
