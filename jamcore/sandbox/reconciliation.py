"""How what engines have, what markers prove and what the store says fit together: a report, never a reason to change anything (OWN-6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from jamcore.domain.ownership import Disposition, MarkerUnreadableError, OwnerMarker, PlanMatch, ReconciledSandbox, match_plans
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import Presence

ARCHIVED = "archived: its rooms began a new conversation"
"""Said of a host that is kept as evidence and is never started."""

Inventory = Mapping[str, Presence]
"""What one engine answered: presence by name."""


@dataclass(frozen=True, slots=True)
class StoredHost:
    """What the store says of a host that was not removed; ``plan`` is ``None`` where what is stored cannot be read as one."""

    id: UUID
    sandbox: str
    engine: str
    plan: Plan | None
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that is classified: of an engine that did not answer there is no inventory.

    ``others`` are the names of sandboxes of other daemons on the same database: nothing is said of them here.
    """

    hosts: tuple[StoredHost, ...]
    markers: Mapping[str, OwnerMarker | MarkerUnreadableError]
    inventories: Mapping[str, Inventory]
    others: frozenset[str] = frozenset()


def classify(seen: Seen) -> tuple[tuple[ReconciledSandbox, ...], int]:
    """Return one row for each sandbox and each marker that is not nobody's, in order of names, and how many sandboxes are foreign.

    A host without a sandbox and without a marker was never created, or is being created, and gives no row. Pure.
    """
    stored = {host.sandbox for host in seen.hosts} | seen.others
    rows = [row for host in seen.hosts if (row := _of_host(host, seen)) is not None]
    rows += [_orphan(name, marker, seen) for name, marker in seen.markers.items() if name not in stored]
    foreign = sum(name not in stored and name not in seen.markers for inventory in seen.inventories.values() for name in inventory)
    return tuple(sorted(rows, key=lambda row: row.sandbox)), foreign


def _of_host(host: StoredHost, seen: Seen) -> ReconciledSandbox | None:
    inventory = seen.inventories.get(host.engine)
    if inventory is None:
        return None
    presence = inventory.get(host.sandbox, Presence.ABSENT)
    marker = seen.markers.get(host.sandbox)
    disposition, detail = _disposition(host, marker, presence)
    if disposition is None:
        return None
    if host.archived:
        detail = "; ".join(filter(None, (ARCHIVED, detail)))
    return ReconciledSandbox(
        sandbox=host.sandbox, engine=host.engine, host_id=host.id, disposition=disposition, presence=presence, detail=detail
    )


def _disposition(
    host: StoredHost, marker: OwnerMarker | MarkerUnreadableError | None, presence: Presence
) -> tuple[Disposition | None, str]:
    if marker is None:
        return (None, "") if presence is Presence.ABSENT else (Disposition.PERSISTED_WITHOUT_OWNER_MARKER, "")
    if isinstance(marker, MarkerUnreadableError):
        return Disposition.OWNERSHIP_MISMATCH, f"the marker cannot be read: {marker.problem}"[:200]
    if host.plan is None:
        return Disposition.OWNERSHIP_MISMATCH, "the stored plan cannot be read"
    match = match_plans(marker.plan, host.plan)
    if match is PlanMatch.DIFFERENT:
        return Disposition.OWNERSHIP_MISMATCH, "the marker holds another plan"
    if presence is Presence.ABSENT:
        return Disposition.OWNER_WITHOUT_SANDBOX, ""
    if match is PlanMatch.DEDICATED_SESSION_COMPATIBILITY:
        return Disposition.COMPATIBILITY_VERIFICATION_REQUIRED, "made for a session, kept as its host"
    return Disposition.HEALTHY, ""


def _orphan(name: str, marker: OwnerMarker | MarkerUnreadableError, seen: Seen) -> ReconciledSandbox:
    engine = marker.plan.engine if isinstance(marker, OwnerMarker) else "unknown"
    inventory = seen.inventories.get(engine)
    return ReconciledSandbox(
        sandbox=name,
        engine=engine,
        host_id=None,
        disposition=Disposition.ORPHAN_OWNER_MARKER,
        presence="unknown" if inventory is None else inventory.get(name, Presence.ABSENT),
        detail="no stored host has this sandbox",
    )
