"""What clears the disk on a person's word: the clean-up of whole hosts, the deletion of exports, and what takes room."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.domain.capacity import CapacityReport
from jamcore.domain.cleanup_plans import CleanupPlan, CleanupQuestion, CleanupRequest, CleanupResult
from jamcore.domain.export_deletions import ExportDeletionPlan, ExportDeletionRequest, ExportDeletionResult


async def capacity(call: Call) -> CapacityReport:
    """Say what takes room."""
    return await call.services.capacity.report()


async def plan_cleanup(call: Call) -> CleanupPlan:
    """Say what the clean-up of a host would take away."""
    return await call.services.cleanups.plan(call.ref, call.body(CleanupQuestion))


async def clean_up(call: Call) -> CleanupResult:
    """Clean up what was confirmed."""
    return await call.services.cleanups.clean_up(call.ref, call.body(CleanupRequest))


async def plan_deletion(call: Call) -> ExportDeletionPlan:
    """Say what the deletion of an export would take away."""
    return await call.services.export_deletions.plan(call.ref)


async def delete_export(call: Call) -> ExportDeletionResult:
    """Delete what was confirmed."""
    return await call.services.export_deletions.delete(call.ref, call.body(ExportDeletionRequest))


ROUTES: tuple[AnyRoute, ...] = (
    Route("GET", "/v1/capacity", "capacity", "What each host and all exports take on the disk", capacity, CapacityReport),
    Route(
        "POST",
        "/v1/hosts/{ref}/cleanup/plan",
        "plan_host_cleanup",
        "What the clean-up of a host would take away, and what stands against it; changes nothing",
        plan_cleanup,
        CleanupPlan,
        body=CleanupQuestion,
    ),
    Route(
        "POST",
        "/v1/hosts/{ref}/cleanup",
        "clean_up_host",
        "Remove a host's sandbox and directory, confirmed by the plan's digest; its rows and its exports stay",
        clean_up,
        CleanupResult,
        body=CleanupRequest,
    ),
    Route(
        "POST",
        "/v1/exports/{ref}/deletion/plan",
        "plan_export_deletion",
        "What the deletion of an export would take away, and what stands against it; changes nothing",
        plan_deletion,
        ExportDeletionPlan,
    ),
    Route(
        "POST",
        "/v1/exports/{ref}/deletion",
        "delete_export",
        "Delete the payload of an export, confirmed by the plan's digest; its record stays",
        delete_export,
        ExportDeletionResult,
        body=ExportDeletionRequest,
    ),
)
