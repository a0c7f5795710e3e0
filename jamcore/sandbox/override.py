"""Removing a sandbox whose proof is gone, on an operator's word: what is shown and confirmed, and the journaled removal (OWN-8, WS-10).

The evidence is collected anew before the removal and must be, byte for byte, what was confirmed. The guest's disk is not touched: the
next resume makes the sandbox anew over the same files.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import ClassVar, Protocol
from uuid import UUID

import structlog

from jamcore.domain.errors import RefusalError
from jamcore.domain.operations import OnRestart
from jamcore.domain.ownership import MarkerUnreadableError, OverrideEvidence, OwnershipMismatchError
from jamcore.domain.plan import Owner
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import Presence
from jamcore.engines.port import Proves
from jamcore.journal.steps import Action, Observed, Step, boundaries
from jamcore.sandbox.ownership import NonceState, Ownership

KIND = "host-override"
SANDBOX, MARKER, PENDING, SAY = "sandbox", "marker", "pending", "say"
OVERRIDE_POINTS = boundaries(KIND, (SANDBOX, MARKER, PENDING, SAY))
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
    return OverrideEvidence(
        sandbox=sandbox,
        presence=presence.value,
        marker_digest=marker.content_digest(),
        nonce=nonce.value,
        engine_proof=(NonceState.MATCHES if matches else NonceState.DIFFERS).value if kept else NOT_KEPT,
    )


def is_proven(evidence: OverrideEvidence) -> bool:
    """Say whether either proof holds, so that there is nothing to override."""
    return NonceState.MATCHES.value in (evidence.nonce, evidence.engine_proof)


def require_confirmed(evidence: OverrideEvidence, confirmed: str) -> None:
    """Require that the evidence is what was confirmed and that an override is needed.

    Raises:
        OverrideRefusedError: It is not.
    """
    if not hmac.compare_digest(evidence.content_digest(), confirmed):
        raise OverrideRefusedError(sandbox=evidence.sandbox, problem="the evidence is no longer what was confirmed")
    if is_proven(evidence):
        raise OverrideRefusedError(sandbox=evidence.sandbox, problem="its proof holds: the sandbox can be used as it is")


def override_action(sources: OverrideSources) -> Action[OverrideIntent]:
    """Return the action: each step has one effect, and only the first needs the evidence."""
    steps = _Steps(sources)
    return Action(
        KIND,
        OverrideIntent,
        (
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
        hopeless=(OverrideRefusedError, HostInUseError, OwnershipMismatchError, MarkerUnreadableError),
    )


class _Steps:
    def __init__(self, sources: OverrideSources) -> None:
        self._sources = sources

    async def remove_sandbox(self, intent: OverrideIntent) -> OverrideIntent:
        """Look again, and remove what was confirmed."""
        ownership, owner = await self._sources.proofs(intent)
        await self._sources.require_free(intent.host_id)
        evidence = await inspect_override(ownership, intent.sandbox, owner)
        require_confirmed(evidence, intent.confirmed)
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
