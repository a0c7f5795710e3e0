"""Proof of ownership: the marker on the host, the nonce in the guest, and the reviewed ways a stored plan may differ (OWN)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal
from uuid import UUID

from jamcore.domain.clone_work import CloneWork
from jamcore.domain.errors import RefusalError
from jamcore.domain.plan import Plan, RuntimeHostOwner, RuntimeSessionOwner
from jamcore.domain.records import Record

GUEST_MARKER = "/home/agent/.jam-sandbox-owner.json"


class OwnerMarker(Record):
    """The host's proof, ``cfg/sandbox-owners/<name>.json``: the authority on what Jam made (OWN-2)."""

    schema_version: Literal[1] = 1
    plan: Plan
    nonce: str
    mcp_digest: str
    task_receipt: str | None = None


class PendingCleanup(Record):
    """A sandbox whose marker could not be written and that could not be removed at once (OWN-5)."""

    schema_version: Literal[1] = 1
    plan: Plan
    nonce: str


class PlanMatch(StrEnum):
    """How a stored plan relates to the one asked for."""

    EXACT = "exact"
    DEDICATED_SESSION_COMPATIBILITY = "dedicated-session-compatibility"
    DIFFERENT = "different"


class Disposition(StrEnum):
    """What a sandbox or a marker was classified as; none of them authorises a change (OWN-6)."""

    HEALTHY = "healthy"
    PERSISTED_WITHOUT_OWNER_MARKER = "persisted-without-owner-marker"
    OWNER_WITHOUT_SANDBOX = "owner-without-sandbox"
    ORPHAN_OWNER_MARKER = "orphan-owner-marker"
    COMPATIBILITY_VERIFICATION_REQUIRED = "compatibility-verification-required"
    OWNERSHIP_MISMATCH = "ownership-mismatch"


class ReconciledSandbox(Record):
    """One sandbox, or one marker without one, and how they stand to what the store says. Authorises no change (OWN-6).

    ``presence`` is the engine's word; ``detail`` says what differs, in bounded words.
    """

    sandbox: str
    engine: str
    host_id: UUID | None
    disposition: Disposition
    presence: str
    detail: str = ""


class Reconciliation(Record):
    """All sandboxes and markers of an app directory at one moment.

    ``foreign`` counts sandboxes that Jam neither stored nor marked: they are never listed. ``of_other_daemons`` counts those that other
    daemons on the same database stored, which these list. Of an engine in ``unanswered`` nothing is said, because what cannot be asked is
    not absent.
    """

    at: datetime
    sandboxes: tuple[ReconciledSandbox, ...]
    foreign: int
    of_other_daemons: int = 0
    unanswered: tuple[str, ...]


class OverrideEvidence(Record):
    """What an operator confirms when a sandbox is removed although its proof is gone (OWN-8).

    The stored marker still must be the owner's: the override replaces the nonce alone.

    Attributes:
        kind: Binds the digest to this action (WS-10).
        sandbox: Its derived name.
        presence: Whether it runs, is stopped, or is absent.
        marker_digest: Of the whole stored marker.
        nonce: What the guest's copy is: it matches, differs, is missing or unanswered.
        engine_proof: The same of the copy that the engine keeps, or that it keeps none.
        clone_goes: Whether a private clone goes with the sandbox.
        work: What that clone holds of its own (OWN-9).
    """

    kind: Literal["host-override"] = "host-override"
    sandbox: str
    presence: str
    marker_digest: str
    nonce: str
    engine_proof: str
    clone_goes: bool = False
    work: CloneWork | None = None


@dataclass(eq=False)
class OwnershipMismatchError(RefusalError):
    """The sandbox is there, but the proof does not hold; nothing was changed (OWN-3)."""

    code: ClassVar[str] = "ownership.mismatch"
    hint: ClassVar[str] = (
        "Jam changes only what it can prove is its own. Look at the marker and the sandbox; remove it by hand if it is yours."
    )

    sandbox: str
    part: str


@dataclass(eq=False)
class ProofLostError(OwnershipMismatchError):
    """The marker is the owner's, but the guest's own proof is gone or another one, and the engine has none; nothing was changed (OWN-8)."""

    code: ClassVar[str] = "ownership.proof_lost"
    hint: ClassVar[str] = (
        "`jam host override ROOM` shows the evidence; confirmed, it removes the sandbox and keeps its files, and a resume makes it anew."
    )


@dataclass(eq=False)
class MarkerUnreadableError(RefusalError):
    """The owner marker exists but cannot be read as one; it is preserved as it is."""

    code: ClassVar[str] = "ownership.marker_unreadable"
    hint: ClassVar[str] = "Move the marker file away after looking at it, then try again."

    sandbox: str
    problem: str


def match_plans(stored: Plan, asked: Plan) -> PlanMatch:
    """Compare a stored plan with the one asked for (OWN-4).

    Equal plans are EXACT. The one reviewed transition so far: a plan owned by a session may be reused as the Dedicated host of
    the same agent whose host UUID is that session's UUID, when everything but the owner is equal; never the other way round.
    """
    if stored == asked:
        return PlanMatch.EXACT
    old, new = stored.owner, asked.owner
    if (
        isinstance(old, RuntimeSessionOwner)
        and isinstance(new, RuntimeHostOwner)
        and old.agent_id == new.agent_id
        and old.session_id == new.host_id
        and stored.model_copy(update={"owner": new}) == asked
    ):
        return PlanMatch.DEDICATED_SESSION_COMPATIBILITY
    return PlanMatch.DIFFERENT
