"""The ways down: park (stop and keep), remove (verified), and the confirmed override for a guest that destroyed its proof."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import anyio
import structlog

from jamcore.domain.errors import JamError, RefusalError
from jamcore.domain.limits import LIFECYCLE_TIMEOUT_S, PARK_RETRY_S
from jamcore.domain.ownership import OwnerMarker
from jamcore.domain.plan import Owner
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import Presence
from jamcore.engines.port import Engine
from jamcore.sandbox.ownership import NonceState, Ownership

Sleep = Callable[[float], Awaitable[None]]


class Removal(StrEnum):
    """What a removal found."""

    REMOVED = "removed"
    ALREADY_ABSENT = "already-absent"


class OverrideEvidence(Record):
    """What an operator confirms when a sandbox is removed although its guest's proof is gone (OWN-8).

    The stored marker still must be the owner's: the override replaces the nonce alone.
    """

    sandbox: str
    presence: str
    marker_digest: str
    nonce: str


@dataclass(eq=False)
class OverrideRefusedError(RefusalError):
    """The confirmation does not fit what is there now; nothing was removed."""

    code: ClassVar[str] = "ownership.override_refused"
    hint: ClassVar[str] = "Inspect the sandbox again and confirm the evidence that you are shown."

    sandbox: str
    problem: str


async def park(engine: Engine, sandbox: str, *, sleep: Sleep = anyio.sleep, limit_s: float = LIFECYCLE_TIMEOUT_S) -> int:
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
            await sleep(PARK_RETRY_S)
        else:
            return attempts


async def remove(ownership: Ownership, sandbox: str, owner: Owner) -> Removal:
    """Remove a sandbox that is proven to be this owner's, then its marker (OWN-3). The guest's disk stays with the core.

    Raises:
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
    await _remove(ownership, sandbox)
    return Removal.REMOVED


async def inspect_override(ownership: Ownership, sandbox: str, owner: Owner) -> OverrideEvidence:
    """Return the evidence that an operator must confirm before a sandbox without its proof is removed. Changes nothing lasting.

    Raises:
        OwnershipMismatchError: The marker is missing or somebody else's: no override replaces it.
        EngineUnknownError: It cannot be said.
    """
    marker = ownership.verify_removable(sandbox, owner)
    presence = await ownership.calls.presence(sandbox)
    nonce = NonceState.MISSING if presence is Presence.ABSENT else await ownership.nonce_state(sandbox, marker.nonce)
    return _evidence(sandbox, presence, marker, nonce)


async def remove_overridden(ownership: Ownership, sandbox: str, owner: Owner, *, confirmed: str) -> Removal:
    """Remove a sandbox whose nonce is missing or differs, on an operator's word (OWN-8).

    Args:
        ownership: Whose records and engine.
        sandbox: The derived name.
        owner: Whose sandbox the marker must say it is.
        confirmed: The digest of the evidence that the operator was shown; it must still be true.

    Raises:
        OverrideRefusedError: Something changed since, or the proof holds and no override is needed.
        OwnershipMismatchError: The marker is missing or somebody else's.
    """
    evidence = await inspect_override(ownership, sandbox, owner)
    if evidence.content_digest() != confirmed:
        raise OverrideRefusedError(sandbox=sandbox, problem="the evidence is no longer what was confirmed")
    if evidence.nonce == NonceState.MATCHES:
        raise OverrideRefusedError(sandbox=sandbox, problem="the proof holds: remove it without an override")
    structlog.get_logger("jam.audit").warning("sandbox removed without its proof", **evidence.model_dump(), evidence=confirmed)
    if await ownership.calls.presence(sandbox) is not Presence.ABSENT:
        await _remove(ownership, sandbox)
        return Removal.REMOVED
    ownership.records.forget_marker(sandbox)
    return Removal.ALREADY_ABSENT


async def _remove(ownership: Ownership, sandbox: str) -> None:
    await ownership.remove_confirmed(sandbox)
    ownership.records.forget_marker(sandbox)
    ownership.records.forget_pending(sandbox)


def _evidence(sandbox: str, presence: Presence, marker: OwnerMarker, nonce: NonceState) -> OverrideEvidence:
    return OverrideEvidence(sandbox=sandbox, presence=presence.value, marker_digest=marker.content_digest(), nonce=nonce.value)
