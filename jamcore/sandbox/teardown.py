"""The ways down: park (stop and keep) and remove (verified). Without its proof a sandbox goes by :mod:`jamcore.sandbox.override`."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from enum import StrEnum

import anyio
import structlog

from jamcore.domain.errors import JamError
from jamcore.domain.limits import LIFECYCLE_TIMEOUT_S, PARK_RETRY_S
from jamcore.domain.plan import Owner
from jamcore.domain.sandboxes import Presence
from jamcore.engines.port import Engine
from jamcore.sandbox.clones import goes_with_sandbox, require_nothing_lost
from jamcore.sandbox.ownership import Ownership

Sleep = Callable[[float], Awaitable[None]]
NotParked = Callable[[int, str], None]
"""Told after each failed attempt: how many there were, and what the last one met."""


def _untold(_attempts: int, _problem: str) -> None:
    return None


class Removal(StrEnum):
    """What a removal found."""

    REMOVED = "removed"
    ALREADY_ABSENT = "already-absent"


async def park(
    engine: Engine,
    sandbox: str,
    *,
    sleep: Sleep = anyio.sleep,
    limit_s: float = LIFECYCLE_TIMEOUT_S,
    told: NotParked = _untold,
) -> int:
    """Stop a sandbox and keep its disk, trying again each second until it is done (START-5). Returns the number of attempts.

    One attempt takes ``limit_s`` seconds at the most. It goes on for as long as the caller lets it: bound it with a shielded scope where
    something else waits.
    """
    log = structlog.get_logger("jam.park")
    attempts = 0
    while True:
        attempts += 1
        try:
            with anyio.fail_after(limit_s):
                await engine.stop(sandbox)
        except (JamError, OSError) as error:  # TimeoutError is an OSError
            log.warning("not parked yet", sandbox=sandbox, attempt=attempts, error=type(error).__name__)
            told(attempts, str(error) or type(error).__name__)
            await sleep(PARK_RETRY_S)
        else:
            return attempts


async def remove(ownership: Ownership, sandbox: str, owner: Owner, *, discard: str | None = None) -> Removal:
    """Remove a sandbox that is proven to be this owner's, then its marker (OWN-3).

    Where the guest's disk stays with the core, so does its work. Where a private clone goes with the sandbox, the sandbox is stopped, so
    that nothing is written any more, and the clone must hold no work (OWN-9).

    Args:
        ownership: The engine and its proofs.
        sandbox: Its name.
        owner: Whom its marker must name.
        discard: The digest of the work that may be lost, as somebody saw and confirmed it.

    Raises:
        WorkWouldBeLostError: The clone holds work, or that cannot be said; the sandbox is stopped, and whole.
        OwnershipMismatchError: The marker, or neither the nonce nor the engine's own proof, proves it; nothing was removed.
        MarkerUnreadableError: The marker is damaged; nothing was removed.
        EngineUnknownError: It cannot be said whether it is there, or whether it is gone; the marker stays.
    """
    if await ownership.calls.presence(sandbox) is Presence.ABSENT:
        ownership.records.forget_marker(sandbox)
        ownership.records.forget_pending(sandbox)
        return Removal.ALREADY_ABSENT
    marker = ownership.verify_removable(sandbox, owner)
    await ownership.prove(sandbox, marker.nonce)
    if goes_with_sandbox(marker.plan, ownership.engine):
        await ownership.calls.stop(sandbox)
        work = await ownership.work(marker.plan, await ownership.calls.presence(sandbox))
        confirmed = work is not None and discard is not None and hmac.compare_digest(work.content_digest(), discard)
        require_nothing_lost(sandbox, work, discard=confirmed)
    await _remove(ownership, sandbox)
    return Removal.REMOVED


async def _remove(ownership: Ownership, sandbox: str) -> None:
    await ownership.remove_confirmed(sandbox)
    ownership.records.forget_marker(sandbox)
    ownership.records.forget_pending(sandbox)
