"""Makes sure that a plan's sandbox runs and is Jam's: created, started or found running, and proven each time (OWN-1, OWN-3, OWN-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

import anyio
import structlog

from jamcore.domain.errors import JamError
from jamcore.domain.ownership import OwnerMarker, PendingCleanup
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import Presence, SandboxSpec
from jamcore.sandbox.ownership import Ownership, ProvenBy, mcp_digest
from jamcore.system.ids import IdSource

CREATE_POINTS = ("create.intended", "create.made", "create.proven", "create.marked", "create.recorded")
"""The boundaries of a creation, in order; between ``made`` and ``marked`` a sandbox exists that no marker vouches for."""

Approve = Callable[[Plan], Awaitable[None]]
"""Asks whoever must agree before a sandbox is created; raises a refusal when they do not."""


class Renewal(StrEnum):
    """What became of a guest's proof that was gone or forged while the engine's own held (OWN-8)."""

    WRITTEN = "it was written anew"
    REFUSED = "the guest does not let it be written anew"


Note = Callable[[Renewal], None]
"""Told when the guest's own proof did not hold."""


class Ensured(StrEnum):
    """What was needed."""

    CREATED = "created"
    STARTED = "started"
    REUSED = "reused"


def _unnoted(_renewal: Renewal) -> None:
    return None


async def ensure_created(
    ownership: Ownership,
    plan: Plan,
    spec: SandboxSpec,
    *,
    ids: IdSource,
    approve: Approve | None = None,
    note: Note = _unnoted,
) -> Ensured:
    """Return with the plan's sandbox running and proven.

    Args:
        ownership: Whose records and engine.
        plan: What must run.
        spec: What the engine makes of it, if it has to.
        ids: Where the nonce of a new sandbox comes from.
        approve: Asked before a creation.
        note: Told when the engine's proof had to stand for the guest's.

    A sandbox without a marker is never taken over. After a failure a sandbox made here is gone or recorded as pending clean-up, and one
    started here is stopped again.

    Raises:
        OwnershipMismatchError: There is a sandbox of this name that cannot be proven to be this plan's.
        MarkerUnreadableError: The marker is damaged.
        EngineUnknownError: It cannot be said whether there is one; nothing was done.
        JamError: What the engine or the approval said.
    """
    calls, records = ownership.calls, ownership.records
    await ownership.settle_pending(plan.name)
    presence = await calls.presence(plan.name)
    if presence is Presence.ABSENT:
        if records.marker(plan.name) is not None:
            # The engine confirms that it is gone: the marker alone is left, and proves nothing any more (OWN-3).
            records.forget_marker(plan.name)
        if approve is not None:
            await approve(plan)
        await _create(ownership, plan, spec, ids.nonce())
        return Ensured.CREATED
    marker, _ = ownership.verify_record(plan)
    if presence is Presence.RUNNING:
        await _prove(ownership, plan.name, marker.nonce, note)
        return Ensured.REUSED
    try:
        await calls.start(plan.name)
        await _prove(ownership, plan.name, marker.nonce, note)
    except BaseException as error:
        # Also after a start that failed or was cut: the engine may have carried it out all the same.
        with anyio.move_on_after(ownership.limits.finalise_s, shield=True):
            await _stop_again(ownership, plan.name, error)
        raise
    return Ensured.STARTED


async def _prove(ownership: Ownership, sandbox: str, nonce: str, note: Note) -> None:
    if await ownership.prove(sandbox, nonce) is ProvenBy.ENGINE:
        note(Renewal.WRITTEN if await ownership.renew_nonce(sandbox, nonce) else Renewal.REFUSED)


async def _stop_again(ownership: Ownership, sandbox: str, cause: BaseException) -> None:
    """Stop a sandbox that was stopped before; one that cannot be is fenced by the next bring-up (SHARE-4)."""
    try:
        await ownership.calls.stop(sandbox)
    except Exception as error:  # noqa: BLE001 - the cause is what the caller must see
        cause.add_note(f"the sandbox {sandbox} could not be stopped again: {error}")


async def _create(ownership: Ownership, plan: Plan, spec: SandboxSpec, nonce: str) -> None:
    """Create with both proofs. The intent is on disk first, so that no kill between two effects leaves a sandbox that nobody knows."""
    records = ownership.records
    reach = ownership.crash.reach
    records.write_pending(PendingCleanup(plan=plan, nonce=nonce))
    reach("create.intended")
    try:
        await ownership.calls.create(spec.model_copy(update={"proof": nonce}))
    except BaseException as error:
        with anyio.move_on_after(ownership.limits.finalise_s, shield=True):
            await _forget_intent(ownership, plan.name, error)
        raise
    try:
        reach("create.made")
        await ownership.write_nonce(plan.name, nonce)
        reach("create.proven")
        records.write_marker(OwnerMarker(plan=plan, nonce=nonce, mcp_digest=mcp_digest(plan)))
        reach("create.marked")
    except BaseException as error:
        with anyio.move_on_after(ownership.limits.finalise_s, shield=True):
            await _undo(ownership, plan.name, error)
        raise
    try:
        records.forget_pending(plan.name)
    except JamError as error:
        # The marker is there and names the same nonce, so the next look at the record will see that nothing is pending.
        structlog.get_logger("jam.ownership").warning("record left behind", sandbox=plan.name, code=error.code)
    reach("create.recorded")


async def _forget_intent(ownership: Ownership, sandbox: str, cause: BaseException) -> None:
    """Forget the intent once the engine confirms that nothing is there. A sandbox that is there may be somebody else's: it stays."""
    try:
        if await ownership.calls.presence(sandbox) is Presence.ABSENT:
            ownership.records.forget_pending(sandbox)
    except Exception as error:  # noqa: BLE001 - the cause is what the caller must see; the record carries the rest
        cause.add_note(f"whether {sandbox} was made cannot be said ({error}); it is recorded for clean-up")


async def _undo(ownership: Ownership, sandbox: str, cause: BaseException) -> None:
    """Remove what this creation made; what cannot be removed stays recorded for the next creation or start-up (OWN-5)."""
    try:
        await ownership.remove_confirmed(sandbox)
        ownership.records.forget_marker(sandbox)
        ownership.records.forget_pending(sandbox)
    except Exception as error:  # noqa: BLE001 - the cause is what the caller must see; the record carries the rest
        cause.add_note(f"the sandbox {sandbox} could not be removed at once ({error}); it is recorded for clean-up")
