"""The typed client's part for what clears the disk: ``client.clearing``."""

from __future__ import annotations

from jamcore.control.approvals import Ask, Change, quoted
from jamcore.domain.capacity import CapacityReport
from jamcore.domain.cleanup_plans import CleanupPlan, CleanupQuestion, CleanupRequest, CleanupResult
from jamcore.domain.export_deletions import ExportDeletionPlan, ExportDeletionRequest, ExportDeletionResult


class ClearingClient:
    """Made by the client, with its own ways to the daemon. What is asked here reads exports whole, which takes its time."""

    def __init__(self, ask: Ask, change: Change) -> None:
        self._ask = ask
        self._change = change

    async def capacity(self) -> CapacityReport:
        """Return what each host and all exports take on the disk."""
        return await self._ask(CapacityReport, "/v1/capacity")

    async def plan_cleanup(self, host: str, question: CleanupQuestion) -> CleanupPlan:
        """Return what the clean-up of a host would take away."""
        return await self._change(CleanupPlan, "POST", f"/v1/hosts/{quoted(host)}/cleanup/plan", question)

    async def clean_up(self, host: str, request: CleanupRequest) -> CleanupResult:
        """Clean a host up; the request confirms the plan by its digest, and its id makes a retry exact."""
        return await self._change(CleanupResult, "POST", f"/v1/hosts/{quoted(host)}/cleanup", request, operation=request.id)

    async def plan_deletion(self, export: str) -> ExportDeletionPlan:
        """Return what the deletion of an export would take away."""
        return await self._change(ExportDeletionPlan, "POST", f"/v1/exports/{quoted(export)}/deletion/plan")

    async def delete_export(self, export: str, request: ExportDeletionRequest) -> ExportDeletionResult:
        """Delete an export; the request confirms the plan by its digest, and its id makes a retry exact."""
        return await self._change(
            ExportDeletionResult, "POST", f"/v1/exports/{quoted(export)}/deletion", request, operation=request.id
        )
