"""Removing a sandbox whose proof is gone, on an operator's word: what is shown and confirmed, and the journaled removal (OWN-8, WS-10).

The evidence is collected anew before the removal and must be, byte for byte, what was confirmed. Where the guest's disk stays, the next
resume makes the sandbox anew over the same files. Where a private clone goes with the sandbox, what it holds is part of the evidence, and
losing it needs a word of its own (OWN-9). What a running sandbox holds cannot be said: such a removal stops it, and is refused because
the evidence is another one then; the next one knows what it takes.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import ClassVar, Protocol
from uuid import UUID

import structlog

from jamcore.domain.clone_work import CloneWork, WorkWouldBeLostError
from jamcore.domain.errors import RefusalError
from jamcore.domain.operations import OnRestart
from jamcore.domain.ownership import MarkerUnreadableError, OverrideEvidence, OwnershipMismatchError
from jamcore.domain.plan import Owner
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import Presence
from jamcore.engines.port import Proves
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, boundaries
from jamcore.sandbox.clones import goes_with_sandbox, require_nothing_lost
from jamcore.sandbox.ownership import NonceState, Ownership

KIND = "host-override"
HALT, SANDBOX, MARKER, PENDING, SAY = "halt", "sandbox", "marker", "pending", "say"
OVERRIDE_POINTS = boundaries(KIND, (HALT, SANDBOX, MARKER, PENDING, SAY))
"""Every boundary of one removal, in the order in which a run passes them."""
NOT_KEPT = "not-kept"
"""An engine without a proof of its own, or with none of this sandbox."""


@dataclass(eq=False)
class OverrideRefusedError(RefusalError):
    """The confirmation does not fit what is there now; nothing was removed."""

    code: ClassVar[str] = "ownership.override_refused"
    hint: ClassVar[str] = "Inspect the sandbox again with `jam host override` and confirm the evidence that you are shown."

    sandbox: str
    problem: str


@dataclass(eq=False)
class HostInUseError(RefusalError):
    """The host is live: its sandbox is proven and in use, so nothing was removed."""

    code: ClassVar[str] = "conflict.host_in_use"
    hint: ClassVar[str] = "Stop the host's rooms first with `jam room stop`."

    host: str


class OverrideIntent(Record):
    """One removal. ``evidence`` is known once it has been looked at again and found to be what was confirmed."""

    id: UUID
    host_id: UUID
    sandbox: str
    confirmed: str
    discard_work: bool = False
    evidence: OverrideEvidence | None = None


class OverrideSources(Protocol):
    """What the action needs of whoever composes it."""

    async def proofs(self, intent: OverrideIntent) -> tuple[Ownership, Owner]:
        """Return the records and engine of the host, and whom its marker must name."""

    async def require_free(self, host: UUID) -> None:
        """Raise HostInUseError while a session holds the host."""

    async def say(self, intent: OverrideIntent) -> None:
        """Keep it in every room of the host, durably; the same again is fine."""


async def inspect_override(ownership: Ownership, sandbox: str, owner: Owner) -> OverrideEvidence:
    """Return the evidence that an operator must confirm before a sandbox without its proof is removed. Changes nothing lasting.

    Raises:
        OwnershipMismatchError: The marker is missing or somebody else's: no override replaces it.
        MarkerUnreadableError: The marker is damaged: likewise.
        EngineUnknownError: It cannot be said.
    """
    marker = ownership.verify_removable(sandbox, owner)
    presence = await ownership.calls.presence(sandbox)
    nonce, kept = NonceState.MISSING, ""
    if presence is not Presence.ABSENT:
        nonce = await ownership.nonce_state(sandbox, marker.nonce)
        if isinstance(ownership.engine, Proves):
            kept = await ownership.calls.proof(ownership.engine, sandbox)
    matches = hmac.compare_digest(kept.encode(), marker.nonce.encode())
    goes = goes_with_sandbox(marker.plan, ownership.engine)
    return OverrideEvidence(
        sandbox=sandbox,
        presence=presence.value,
        marker_digest=marker.content_digest(),
        nonce=nonce.value,
        engine_proof=(NonceState.MATCHES if matches else NonceState.DIFFERS).value if kept else NOT_KEPT,
        clone_goes=goes,
        work=await ownership.work(marker.plan, presence) if goes else None,
    )


async def work_that_stays(ownership: Ownership, sandbox: str, owner: Owner, presence: str) -> CloneWork | None:
    """Return what a clone holds that a removal leaves where it is: worth telling, and no part of the evidence.

    Raises:
        OwnershipMismatchError, MarkerUnreadableError: As :func:`inspect_override`.
    """
    plan = ownership.verify_removable(sandbox, owner).plan
    return None if goes_with_sandbox(plan, ownership.engine) else await ownership.work(plan, Presence(presence))


def is_proven(evidence: OverrideEvidence) -> bool:
    """Say whether either proof holds, so that there is nothing to override."""
    return NonceState.MATCHES.value in (evidence.nonce, evidence.engine_proof)


def require_confirmed(evidence: OverrideEvidence, confirmed: str, *, discard_work: bool = False) -> None:
    """Require that the evidence is what was confirmed, that an override is needed, and that no work is lost without a word.

    Raises:
        OverrideRefusedError: It is not.
        WorkWouldBeLostError: The clone goes with the sandbox and holds work, and nobody said that it may be lost.
    """
    if not hmac.compare_digest(evidence.content_digest(), confirmed):
        raise OverrideRefusedError(sandbox=evidence.sandbox, problem="the evidence is no longer what was confirmed")
    if is_proven(evidence):
        raise OverrideRefusedError(sandbox=evidence.sandbox, problem="its proof holds: the sandbox can be used as it is")
    require_nothing_lost(evidence.sandbox, evidence.work, discard=discard_work)


def override_action(sources: OverrideSources) -> Action[OverrideIntent]:
    """Return the action: each step has one effect, and the first two need the evidence."""
    steps = _Steps(sources)
    return Action(
        KIND,
        OverrideIntent,
        (
            Step(HALT, steps.halt, OnRestart.REPLAY, leaves="the sandbox, its marker and its files; it may be stopped"),
            Step(
                SANDBOX,
                steps.remove_sandbox,
                OnRestart.OBSERVE_THEN_FINISH,
                observe=steps.is_gone,
                leaves="the sandbox, its marker and its files",
            ),
            Step(MARKER, steps.forget_marker, OnRestart.REPLAY, leaves="the marker, and the files; the sandbox is gone"),
            Step(PENDING, steps.forget_pending, OnRestart.REPLAY, leaves="the files; the sandbox is gone"),
            Step(SAY, steps.say, OnRestart.REPLAY, leaves="the files; the sandbox is gone"),
        ),
        hopeless=(OverrideRefusedError, WorkWouldBeLostError, HostInUseError, OwnershipMismatchError, MarkerUnreadableError),
        declares=Declaration(
            title="removal of the sandbox, which lost its proof,",
            evidence="the engine's answer, the marker, both proofs, and the work in a clone that goes",
            replay="workspace reconciliation",
            confirms=OverrideEvidence,
        ),
    )


class _Steps:
    def __init__(self, sources: OverrideSources) -> None:
        self._sources = sources

    async def _confirmed(self, intent: OverrideIntent) -> tuple[Ownership, OverrideEvidence]:
        """Look again, and return what is there if it is what was confirmed."""
        ownership, owner = await self._sources.proofs(intent)
        await self._sources.require_free(intent.host_id)
        evidence = await inspect_override(ownership, intent.sandbox, owner)
        require_confirmed(evidence, intent.confirmed, discard_work=intent.discard_work)
        return ownership, evidence

    async def halt(self, intent: OverrideIntent) -> OverrideIntent:
        """Stop a sandbox whose clone goes with it: while it runs nobody can say what would be lost."""
        ownership, evidence = await self._confirmed(intent)
        if evidence.clone_goes and evidence.presence == Presence.RUNNING:
            await ownership.calls.stop(intent.sandbox)
        return intent

    async def remove_sandbox(self, intent: OverrideIntent) -> OverrideIntent:
        """Remove what was confirmed, if it is that still."""
        ownership, evidence = await self._confirmed(intent)
        structlog.get_logger("jam.audit").warning(
            "sandbox removed without its proof", action=str(intent.id), evidence=intent.confirmed, **evidence.model_dump()
        )
        if evidence.presence != Presence.ABSENT:
            await ownership.remove_confirmed(intent.sandbox)
        return intent.model_copy(update={"evidence": evidence})

    async def is_gone(self, intent: OverrideIntent) -> Observed[OverrideIntent]:
        ownership, _ = await self._sources.proofs(intent)
        return Observed(await ownership.calls.presence(intent.sandbox) is Presence.ABSENT, intent)

    async def forget_marker(self, intent: OverrideIntent) -> OverrideIntent:
        ownership, _ = await self._sources.proofs(intent)
        ownership.records.forget_marker(intent.sandbox)
        return intent

    async def forget_pending(self, intent: OverrideIntent) -> OverrideIntent:
        ownership, _ = await self._sources.proofs(intent)
        ownership.records.forget_pending(intent.sandbox)
        return intent

    async def say(self, intent: OverrideIntent) -> OverrideIntent:
        await self._sources.say(intent)
        return intent
