"""How a session may start, and its state in place before it does (CONT-1, CONT-7, CONT-11)."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import anyio.from_thread
import anyio.to_thread
import structlog

from jamcore.continuity.capturing.broker import CheckpointBroker
from jamcore.continuity.coordinator import Coordinators
from jamcore.continuity.generations.blocks import COMPLETE, mode_of
from jamcore.continuity.generations.damage import damage_of
from jamcore.continuity.generations.objects import Kind, Root, read_root, walk_tree
from jamcore.continuity.generations.publish import CheckpointFailedError, Generation, Generations
from jamcore.continuity.generations.restoring import is_half_restored
from jamcore.continuity.generations.verify import verify
from jamcore.continuity.ports import CheckpointStore, Rows
from jamcore.continuity.resuming.compare import Comparer, Comparison, RestoredOtherwiseError
from jamcore.continuity.resuming.newest import AcceptsVersion, GenerationState, Newest, accepts, evidence_of, refusal
from jamcore.continuity.resuming.replaced import newest_replaced, prune_replaced
from jamcore.continuity.resuming.restore import Place, Restore
from jamcore.continuity.tree.patterns import CaptureRules, Globs
from jamcore.continuity.tree.walk import find
from jamcore.domain import limits
from jamcore.domain.continuity import (
    Activation,
    ActivationDecision,
    ActivationPlan,
    CaptureList,
    Checkpoint,
    CheckpointCorruptError,
    ContinuityFailure,
    ContinuityRefusedError,
    ResumeSource,
    decide_activation,
)
from jamcore.domain.sessions import RuntimeHost, RuntimeSession
from jamcore.journal.points import CrashPoints
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource, behind
from jamcore.system.trees import open_root, owned

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Placement:
    """Which bytes the provider will find, why not the live ones, and where replaced files were put, if any were."""

    source: ResumeSource
    why_restored: str = ""
    set_aside: Path | None = None


@dataclass(frozen=True, slots=True)
class _Task:
    """One placing, with everything it was asked with."""

    session: RuntimeSession
    checkpoint_id: UUID
    state_root: Path
    scratch_root: Path | None
    rules: CaptureRules
    plan: ActivationPlan


class Activator:
    """Inspects, records the decision, and places. One object per daemon."""

    def __init__(
        self,
        generations: Generations,
        *,
        broker: CheckpointBroker,
        store: CheckpointStore,
        coordinators: Coordinators,
        clock: Clock,
        ids: IdSource,
        crash: CrashPoints,
    ) -> None:
        self._generations = generations
        self._broker = broker
        self._store = store
        self._coordinators = coordinators
        self._clock = clock
        self._ids = ids
        self._crash = crash

    async def inspect(
        self,
        session: RuntimeSession,
        host: RuntimeHost,
        *,
        accepts_version: AcceptsVersion,
        current_version: str | None,
        state_root: Path | None = None,
    ) -> ActivationDecision:
        """Collect the evidence on a session and decide; the newest generation is read whole and verified. Changes nothing.

        Args:
            session: The session as stored.
            host: Its host as stored.
            accepts_version: The provider's own rule.
            current_version: Version of the program that would start; ``None`` when it is not known, which is not compatible.
            state_root: The provider's state root, where the live state may prove itself against a damaged generation.

        Raises:
            CheckpointFailedError: A pack or ``complete.json`` is there and cannot be read: that is no evidence of anything.
        """
        if session.provider_identity is None:
            return decide_activation(evidence_of(session, None, "none", compatible=False, current=current_version))
        newest = await self.newest(host, accepts_version=accepts_version, current_version=current_version, state_root=state_root)
        return newest.decide(session)

    async def newest(
        self,
        host: RuntimeHost,
        *,
        accepts_version: AcceptsVersion,
        current_version: str | None,
        state_root: Path | None = None,
    ) -> Newest:
        """Read the newest generation of a host whole, for decisions about its sessions. Changes nothing.

        A damaged one is held against the live state below ``state_root``: its directories name every byte by digest, so where they are
        sound, and every file is there with its digest, nothing of what was captured is lost.

        Raises:
            CheckpointFailedError: As :meth:`inspect`.
        """
        await self._broker.repair(host.id)
        row = await self._store.read(lambda rows: rows.checkpoints.latest_of_host(host.id))
        if row is None:
            return Newest(None, "none", current_version)
        state, problem = await self._in_thread(host.id, partial(self._state_of, row))
        compatible = current_version is not None and await accepts(accepts_version, row.provider_version, current_version)
        found = Newest(row, state, current_version, compatible=compatible, problem=problem)
        if state != "corrupt" or state_root is None:
            return found
        lost = await self._in_thread(host.id, partial(self._lost_besides, row, state_root))
        said = f"the live state does not hold all of it: {lost}" if lost else "the live state holds all of it, and is resumed"
        return replace(found, problem=f"{problem}; {said}", live_holds=not lost)

    async def lacking(
        self,
        decision: ActivationDecision,
        session: RuntimeSession,
        *,
        state_root: Path,
        capture_list: CaptureList,
        activation_plan: ActivationPlan,
    ) -> str:
        """Say what :meth:`place` would miss for an EXACT_RESUME decision as things are now; empty: nothing. Changes nothing.

        Raises:
            CheckpointCorruptError: The generation is damaged.
            CheckpointFailedError: The machine failed.
        """
        if decision.evidence.checkpoint_id is None:
            return ""
        task = _Task(session, decision.evidence.checkpoint_id, state_root, None, CaptureRules(capture_list), activation_plan)
        return await self._in_thread(session.host_id, partial(self._lacking, task))

    async def hindrance(self, session: RuntimeSession, checkpoint: UUID, *, state_root: Path) -> str | None:
        """Return why the live state does not extend a generation of a session's host, or ``None``. Changes nothing.

        Raises:
            CheckpointFailedError: The machine failed.
        """
        task = _Task(session, checkpoint, state_root, None, CaptureRules(CaptureList(entries=())), ActivationPlan())
        try:
            return await self._in_thread(session.host_id, partial(self._hindrance, task))
        except CheckpointCorruptError as error:
            return error.detail

    async def record(self, session: RuntimeSession, decision: ActivationDecision) -> UUID:
        """Store the decision, and with it what reading the generation whole showed; nothing may start before this returned.

        Returns the decision's id.
        """
        decision_id, now, evidence = self._ids.uuid(), self._clock.now(), decision.evidence

        def write(rows: Rows) -> None:
            rows.activations.record(decision_id, session.id, decision, now)
            if evidence.checkpoint_id is not None and evidence.generation_state in ("verified", "corrupt"):
                problem = "" if evidence.generation_state == "verified" else evidence.problem or "it is damaged"
                rows.verifications.note(evidence.checkpoint_id, session.host_id, problem)

        await self._store.transact(write)
        return decision_id

    async def place(
        self,
        decision: ActivationDecision,
        session: RuntimeSession,
        *,
        state_root: Path,
        scratch_root: Path | None,
        capture_list: CaptureList,
        activation_plan: ActivationPlan,
        may_restore: bool = True,
        why_not_live: str | None = None,
        bound_s: float = limits.CHECKPOINT_WAIT_S,
    ) -> Placement:
        """Put the state in place for an exact resume: leave it as it is if it provably extends the generation, else restore.

        A damaged generation, which the decision found in the live state, is never restored.
        Where the provider declares databases, a restore is at its end only when :class:`DatabaseActivator` has put them in place as well.

        Args:
            decision: An EXACT_RESUME decision; any other is refused.
            session: Whose it is.
            state_root: The provider's state root on the host's file system.
            scratch_root: The guest's home on the host's file system, where it has one.
            capture_list: What the provider declared.
            activation_plan: What it declared for a restore.
            may_restore: False while another session's provider runs on this host: its state must not be exchanged under it.
            why_not_live: Why the live state may not be used, when that is known already.
            bound_s: Seconds to wait for running turns before a restore.

        Raises:
            ContinuityRefusedError: The decision is a refusal, the declared check does not hold, or a restore may not be done now.
            CheckpointCorruptError: The generation is damaged.
            RestoredOtherwiseError: What was restored is not what was captured.
            CheckpointFailedError: The machine failed.
        """
        if decision.outcome is not Activation.EXACT_RESUME or decision.evidence.checkpoint_id is None:
            raise refusal(session, decision)
        task = _Task(
            session=session,
            checkpoint_id=decision.evidence.checkpoint_id,
            state_root=state_root,
            scratch_root=scratch_root,
            rules=CaptureRules(capture_list),
            plan=activation_plan,
        )
        hindrance = why_not_live or await self._in_thread(session.host_id, partial(self._hindrance, task))
        if hindrance is None:
            await self._in_thread(session.host_id, partial(_require_check, task))
            return Placement(ResumeSource.LIVE)
        if decision.evidence.generation_state == "corrupt":
            raise ContinuityRefusedError(
                session=str(session.id),
                failure=ContinuityFailure.CORRUPT,
                detail=f"the last checkpoint is damaged, and the live state does not hold all of it: {hindrance}",
            )
        if not may_restore:
            raise ContinuityRefusedError(
                session=str(session.id), failure="live-state", detail=f"{hindrance}, and other sessions of the host are running"
            )
        async with self._coordinators.for_host(session.host_id).exclusive("restore", bound_s):
            set_aside = await self._in_thread(session.host_id, partial(self._restore, task))
        return Placement(ResumeSource.GENERATION, hindrance, set_aside)

    # ---------------------------------------------------------------------------------------------------- worker thread

    async def _in_thread(self, host_id: UUID, work: Callable[[], T]) -> T:
        """Run in a worker thread; what the machine refuses is a fault and never evidence."""
        try:
            return await anyio.to_thread.run_sync(work)
        except OSError as error:
            raise CheckpointFailedError(host=str(host_id), problem=str(error)) from error

    def _state_of(self, row: Checkpoint) -> tuple[GenerationState, str]:
        """Return what a recorded generation is, and what is wrong with it."""
        try:
            generation = self._recorded(row)
            if generation is None:
                return "incomplete", f"{COMPLETE} of generation {row.generation} is gone"
            with self._generations.blocks(row.host_id).reader() as source:
                verify(source, generation, anyio.from_thread.check_cancelled)
        except CheckpointCorruptError as error:
            return "corrupt", error.detail
        return "verified", ""

    def _recorded(self, row: Checkpoint) -> Generation | None:
        generation = self._generations.read(row.host_id, row.id)
        if generation is not None:
            generation.require_recorded(row)
        return generation

    def _lost_besides(self, row: Checkpoint, state_root: Path) -> str | None:
        """Return what the live state lacks of a damaged generation, or ``None``: it holds all that was captured."""
        try:
            self._recorded(row)
            return self._extending(row.host_id, row.id, state_root)
        except CheckpointCorruptError as error:
            return error.detail

    def _hindrance(self, task: _Task) -> str | None:
        """Return why the live state may not be used, or ``None``: it extends the generation."""
        return self._extending(task.session.host_id, task.checkpoint_id, task.state_root)

    def _extending(self, host: UUID, checkpoint: UUID, state_root: Path) -> str | None:
        if is_half_restored(self._generations.recovery(host)):
            return "a restore was interrupted"
        if not _is_directory(state_root):
            return "the live state is gone"
        return self._compared(host, checkpoint, state_root)[1].hindrance

    def _lacking(self, task: _Task) -> str:
        """Look where :func:`_require_check` would: at the live state if that would be used, else at what would be restored."""
        if not task.plan.check or (self._hindrance(task) is None and _has_needed(task)):
            return ""
        needed = Globs(task.plan.check)
        generation = self._generations.read(task.session.host_id, task.checkpoint_id)
        if generation is not None:
            with damage_of(task.checkpoint_id), self._generations.blocks(task.session.host_id).reader() as source:
                for path, entry in walk_tree(source, read_root(source, bytes.fromhex(generation.root_digest))):
                    if entry.kind is Kind.FILE and needed.matches(path):
                        return ""
        return f"nothing matches {', '.join(task.plan.check)}"

    def _restore(self, task: _Task) -> Path | None:
        recovery = self._generations.recovery(task.session.host_id)
        if not _is_directory(task.state_root):
            self._generations.files.make_private(task.state_root)
        root, compared = self._compared(task.session.host_id, task.checkpoint_id, task.state_root)
        restore_id = behind(self._ids.uuid(), newest_replaced(recovery))
        place = Place(task.state_root, task.scratch_root, recovery, restore_id, task.rules.has_databases)
        with damage_of(task.checkpoint_id), self._generations.blocks(task.session.host_id).reader() as source:
            restore = Restore(
                source,
                root,
                place,
                files=self._generations.files,
                reach=self._crash.reach,
                alive=anyio.from_thread.check_cancelled,
            )
            set_aside = restore.run(compared.standings, task.rules, task.plan)
        if hindrance := self._compared(task.session.host_id, task.checkpoint_id, task.state_root)[1].hindrance:
            raise RestoredOtherwiseError(host=str(task.session.host_id), problem=f"restored, and yet {hindrance}")
        _require_check(task)
        self._thin_out(recovery)
        return set_aside

    def _thin_out(self, recovery: Path) -> None:
        """Drop what older restores replaced. The session is in place by now: what cannot be removed stays until the next restore."""
        try:
            prune_replaced(recovery, anyio.from_thread.check_cancelled)
        except OSError as error:
            structlog.get_logger("jam.continuity").warning("replaced files kept", directory=str(recovery), error=error.strerror)

    def _compared(self, host: UUID, checkpoint: UUID, state_root: Path) -> tuple[Root, Comparison]:
        generation = self._generations.read(host, checkpoint)
        if generation is None:
            raise CheckpointCorruptError(checkpoint=str(checkpoint), detail="it is not complete any more")
        blocks = self._generations.blocks(host)
        with damage_of(checkpoint), blocks.reader() as source, owned(open_root(state_root)) as state:
            root = read_root(source, bytes.fromhex(generation.root_digest))
            return root, Comparer(source, anyio.from_thread.check_cancelled).compare(root, state)


def _is_directory(path: Path) -> bool:
    """Say whether a directory is there; that this cannot be found out is no evidence that it is gone."""
    mode = mode_of(path)
    return mode is not None and stat.S_ISDIR(mode)


def _require_check(task: _Task) -> None:
    """Hold the provider to its own word: at least one file that a resume needs is there."""
    if _has_needed(task):
        return
    raise ContinuityRefusedError(
        session=str(task.session.id), failure=ContinuityFailure.MISSING, detail=f"nothing matches {', '.join(task.plan.check)}"
    )


def _has_needed(task: _Task) -> bool:
    if not task.plan.check:
        return True
    needed = Globs(task.plan.check)
    with owned(open_root(task.state_root)) as state:
        found = find(state, lambda seen: seen.is_file and needed.matches(seen.path), needed.may_match_below)
        return next(found, None) is not None
