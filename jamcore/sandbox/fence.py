"""Makes sure that nobody works in a sandbox before its host comes up: a sandbox that outlived its daemon is proven and stopped (SHARE-4).

Asked before a session's state is looked at or put in place, since an orphaned provider could still write it, and before any process is
started. Whether a daemon of ours uses the sandbox is not asked here: a host comes up only when this daemon has no worker for it, and the
app directory has one daemon.
"""

from __future__ import annotations

from enum import StrEnum

import structlog

from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import EngineUnknownError, Presence
from jamcore.sandbox.ownership import Ownership


class Fenced(StrEnum):
    """What the fence found: the evidence that nobody else writes now."""

    NOTHING_RAN = "nothing-ran"
    STOPPED = "orphan-stopped"


async def fence(ownership: Ownership, plan: Plan) -> Fenced:
    """Return once nothing runs in the plan's sandbox.

    Raises:
        OwnershipMismatchError, ProofLostError: Something runs under this name that is not proven to be this plan's: it is left alone.
        MarkerUnreadableError: The marker is damaged: likewise.
        EngineUnknownError: It cannot be said whether it runs, or whether it stopped. Unknown is not absent, and not stopped.
        JamError: The engine would not stop it.
    """
    sandbox = plan.name
    await ownership.settle_pending(sandbox)
    if await ownership.calls.presence(sandbox) is not Presence.RUNNING:
        return Fenced.NOTHING_RAN
    marker, _ = ownership.verify_record(plan)
    await ownership.prove(sandbox, marker.nonce)
    structlog.get_logger("jam.fence").warning("a sandbox without a daemon is stopped", sandbox=sandbox)
    await ownership.calls.stop(sandbox)
    if await ownership.calls.presence(sandbox) is Presence.RUNNING:
        raise EngineUnknownError(engine=ownership.engine.name, operation="stop", detail=f"{sandbox} still runs")
    return Fenced.STOPPED
