"""Cleaning a whole host up, as a journaled action: first the sandbox, once it is proven Jam's, then its directory (WS-8, WS-17).

Everything is looked at anew before the record is made and again before anything is gone; until then a refusal ends the action with the
host as it was. Once the sandbox is gone the action can only be finished. What a start finds absent then counts as done; a sandbox that was
absent from the first must be so still.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID

import anyio
import structlog

from jamcore.domain.cleanup_plans import (
    CleanupConflictError,
    CleanupEvidence,
    CleanupItem,
    CleanupRefusedError,
    CleanupUnfinishedError,
    kept_state,
)
from jamcore.domain.host_cleanups import CleanupStage, HostCleanup
from jamcore.domain.operations import OnRestart
from jamcore.domain.ownership import MarkerUnreadableError, OwnershipMismatchError
from jamcore.domain.plan import Owner
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import EngineUnknownError, Presence
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries
from jamcore.sandbox.calls import EngineCalls
from jamcore.sandbox.ownership import Ownership

KIND = "host-cleanup"
PREPARE, SANDBOX, MARKER, PENDING, NOTE_SANDBOX = "prepare", "sandbox", "marker", "pending", "note-sandbox"
ASIDE, ROOT, NOTE_ROOT, SETTLE = "aside", "root", "note-root", "settle"
CLEANUP_POINTS = boundaries(KIND, (PREPARE, SANDBOX, MARKER, PENDING, NOTE_SANDBOX, ASIDE, ROOT, NOTE_ROOT, SETTLE))
"""Every boundary of one clean-up, in the order in which a run passes them."""


async def agreed_presence(calls: EngineCalls, sandbox: str) -> Presence:
    """Ask an engine in three ways whether a sandbox is there, and believe it if they agree: nothing is removed on one answer.

    Raises:
        EngineUnknownError: It is not well, did not answer, or contradicts itself.
    """
    engine = calls.engine
    presence = await calls.presence(sandbox)
    problem = f"it took longer than {calls.limits.read_s:g} s"
    with anyio.move_on_after(calls.limits.read_s):
        health, found = await engine.probe(), {item.name: item.presence for item in await engine.inventory()}
        listed = found.get(sandbox)
        if health.usable and listed is (None if presence is Presence.ABSENT else presence):
            return presence
        problem = f"it says {presence}, and lists {listed or 'nothing'}" if health.usable else "it cannot work now"
    raise EngineUnknownError(engine=engine.name, operation="presence", detail=problem)


class CleanupIntent(Record):
    """One clean-up.

    Attributes:
        sandbox_absent: As it was looked at before the record was made.
        root_state: Digest of what the host's directory held then, but for what goes with the sandbox.
        removed_bytes: What goes, as it was looked at when nothing had gone yet.
    """

    id: UUID
    host_id: UUID
    sandbox: str
    confirmed: str
    force: bool
    sandbox_absent: bool | None = None
    root_state: str | None = None
    removed_bytes: int | None = None


class CleanupSources(Protocol):
    """What the action needs of whoever composes it. Each of these may be done again."""

    async def proofs(self, host: UUID) -> tuple[Ownership, Owner]:
        """Return the records and engine of the host, and whom its marker must name."""

    async def look(self, intent: CleanupIntent) -> CleanupEvidence:
        """Look at everything now."""

    async def prepare(self, intent: CleanupIntent, evidence: CleanupEvidence) -> None:
        """Keep the record of the clean-up.

        Raises:
            ConflictError: Another clean-up of the host has not ended.
        """

    async def prepared(self, intent: CleanupIntent) -> bool:
        """Say whether the record is there."""

    async def advance(self, intent: CleanupIntent, stage: CleanupStage) -> HostCleanup:
        """Move the record to its next stage."""

    async def stage(self, intent: CleanupIntent) -> CleanupStage:
        """Return the stage of the record."""

    async def root_items(self, intent: CleanupIntent) -> tuple[CleanupItem, ...]:
        """Return what the host's directory holds now; nothing when it is gone.

        Raises:
            CleanupUnfinishedError: It cannot be looked at, or something is mounted there.
        """

    async def set_aside(self, intent: CleanupIntent) -> None:
        """Give the directory another name, which nothing uses; that it has it, or is gone, is fine."""

    async def is_aside(self, intent: CleanupIntent) -> bool:
        """Say whether nothing has the directory's own name."""

    async def remove_root(self, intent: CleanupIntent) -> None:
        """Remove what was set aside; that it is gone is fine."""

    async def settle(self, intent: CleanupIntent) -> None:
        """Make the host Removed and the record Succeeded, and say it in the host's rooms, in one transaction."""


def cleanup_action(sources: CleanupSources) -> Action[CleanupIntent]:
    """Return the action."""
    steps = _Steps(sources)
    whole, disk = "everything as it was", "the host's directory; the sandbox is gone"
    rest = "what is left of the host's directory; the sandbox is gone"
    return Action(
        KIND,
        CleanupIntent,
        (
            Step(PREPARE, steps.prepare, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_prepared, leaves=whole),
            Step(SANDBOX, steps.remove_sandbox, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_gone, leaves=whole),
            Step(MARKER, steps.forget_marker, OnRestart.REPLAY, leaves=disk),
            Step(PENDING, steps.forget_pending, OnRestart.REPLAY, leaves=disk),
            Step(NOTE_SANDBOX, steps.note_sandbox, OnRestart.REPLAY, leaves=disk),
            Step(ASIDE, steps.set_aside, OnRestart.OBSERVE_THEN_FINISH, observe=steps.is_aside, leaves=disk),
            Step(ROOT, steps.remove_root, OnRestart.REPLAY, leaves=rest),
            Step(NOTE_ROOT, steps.note_root, OnRestart.REPLAY, leaves="nothing; its rows and its exports stay"),
            Step(SETTLE, steps.settle, OnRestart.REPLAY, leaves="nothing; its rows and its exports stay"),
        ),
        hopeless=(CleanupRefusedError, CleanupConflictError, OwnershipMismatchError, MarkerUnreadableError),
        commits_at=SANDBOX,
        lets_go=True,
        declares=Declaration(
            title="clean-up",
            evidence="its rooms' rows, three answers of the engine, the proof of its sandbox, its directory, and exports, read whole",
            replay="host clean-ups",
            confirms=CleanupEvidence,
        ),
    )


class _Steps:
    def __init__(self, sources: CleanupSources) -> None:
        self._sources = sources

    async def prepare(self, intent: CleanupIntent) -> CleanupIntent:
        evidence = await self._sources.look(intent)
        evidence.require(intent.confirmed, discard_work=intent.force)
        await self._sources.prepare(intent, evidence)
        return _learned(intent, evidence)

    async def is_prepared(self, intent: CleanupIntent) -> Observed[CleanupIntent]:
        """Look again: the record that is there says that this was confirmed, not that it is so still."""
        if not await self._sources.prepared(intent):
            return Observed(done=False, record=intent)
        evidence = await self._sources.look(intent)
        evidence.require(intent.confirmed, discard_work=intent.force)
        return Observed(done=True, record=_learned(intent, evidence))

    async def remove_sandbox(self, intent: CleanupIntent) -> CleanupIntent:
        """Remove the sandbox, if everything still is what was confirmed and it is proven to be the host's own (OWN-3)."""
        ownership, owner = await self._sources.proofs(intent.host_id)
        presence = await agreed_presence(ownership.calls, intent.sandbox)
        if intent.sandbox_absent and presence is not Presence.ABSENT:
            raise CleanupConflictError(sandbox=intent.sandbox, presence=presence)
        evidence = await self._sources.look(intent)
        evidence.require(intent.confirmed, discard_work=intent.force)
        if not intent.sandbox_absent:
            marker = ownership.verify_removable(intent.sandbox, owner)
            await ownership.prove(intent.sandbox, marker.nonce)
        structlog.get_logger("jam.audit").warning(
            "host is cleaned up",
            action=str(intent.id),
            host=str(intent.host_id),
            sandbox=intent.sandbox,
            evidence=intent.confirmed,
            bytes=evidence.planned_bytes,
        )
        if not intent.sandbox_absent:
            await ownership.remove_confirmed(intent.sandbox)
        return intent.model_copy(update={"removed_bytes": evidence.planned_bytes})

    async def is_gone(self, intent: CleanupIntent) -> Observed[CleanupIntent]:
        """A sandbox that was there and is absent was removed; one that was absent from the first is looked for again by the step."""
        if intent.sandbox_absent:
            return Observed(done=False, record=intent)
        ownership, _ = await self._sources.proofs(intent.host_id)
        gone = await agreed_presence(ownership.calls, intent.sandbox) is Presence.ABSENT
        return Observed(done=gone, record=intent)

    async def forget_marker(self, intent: CleanupIntent) -> CleanupIntent:
        ownership, _ = await self._sources.proofs(intent.host_id)
        ownership.records.forget_marker(intent.sandbox)
        return intent

    async def forget_pending(self, intent: CleanupIntent) -> CleanupIntent:
        ownership, _ = await self._sources.proofs(intent.host_id)
        ownership.records.forget_pending(intent.sandbox)
        return intent

    async def note_sandbox(self, intent: CleanupIntent) -> CleanupIntent:
        await self._sources.advance(intent, CleanupStage.SANDBOX_REMOVED)
        return intent

    async def set_aside(self, intent: CleanupIntent) -> CleanupIntent:
        """Put the directory out of reach, if it holds what was confirmed: never before the sandbox is gone."""
        await self._require_sandbox_removed(intent)
        found = await self._sources.root_items(intent)
        if found and kept_state(found) != intent.root_state:
            problem = "the host's directory is no longer what was confirmed: take out or put back what somebody changed there"
            raise CleanupUnfinishedError(sandbox=intent.sandbox, problem=problem)
        await self._sources.set_aside(intent)
        return intent

    async def is_aside(self, intent: CleanupIntent) -> Observed[CleanupIntent]:
        return Observed(await self._sources.is_aside(intent), intent)

    async def remove_root(self, intent: CleanupIntent) -> CleanupIntent:
        async def work() -> None:
            await self._sources.remove_root(intent)

        await self._require_sandbox_removed(intent)
        await _finished(intent, work)
        return intent

    async def note_root(self, intent: CleanupIntent) -> CleanupIntent:
        await self._sources.advance(intent, CleanupStage.ROOT_REMOVED)
        return intent

    async def settle(self, intent: CleanupIntent) -> CleanupIntent:
        await self._sources.settle(intent)
        return intent

    async def _require_sandbox_removed(self, intent: CleanupIntent) -> None:
        """Require the stage, and that the engine says so still: never the directory of a sandbox that somebody made anew."""
        stage = await self._sources.stage(intent)
        ownership, _ = await self._sources.proofs(intent.host_id)
        presence = await agreed_presence(ownership.calls, intent.sandbox)
        if stage is not CleanupStage.SANDBOX_REMOVED or presence is not Presence.ABSENT:
            problem = f"its record says {stage}, and the sandbox is {presence}"
            raise CleanupUnfinishedError(sandbox=intent.sandbox, problem=problem)


def _learned(intent: CleanupIntent, evidence: CleanupEvidence) -> CleanupIntent:
    """Keep what later steps hold the world against."""
    absent, state = evidence.presence == Presence.ABSENT, kept_state(item for item in evidence.items if item.in_root)
    return intent.model_copy(update={"sandbox_absent": absent, "root_state": state, "removed_bytes": evidence.planned_bytes})


async def _finished(intent: CleanupIntent, work: Callable[[], Awaitable[None]]) -> None:
    """Do what can only be finished; every start goes on with what fails.

    Raises:
        CleanupUnfinishedError: It failed.
    """
    try:
        await work()
    except OSError as error:
        raise CleanupUnfinishedError(sandbox=intent.sandbox, problem=error.strerror or str(error)) from error
