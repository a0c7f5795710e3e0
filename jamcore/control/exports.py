"""The typed client's part for exports of workspaces, and what is made of them: ``client.exports``."""

from __future__ import annotations

from jamcore.control.approvals import Ask, Change, encoded, quoted
from jamcore.control.schemas import ExportList
from jamcore.domain.keeping import (
    ArchivePlan,
    ArchiveQuestion,
    ArchiveRequest,
    ArchiveResult,
    ExportRow,
    ExportVerdict,
    ExportView,
    RestoreRequest,
    RestoreResult,
    RoomExportRequest,
)


class ExportClient:
    """Made by the client, with its own ways to the daemon."""

    def __init__(self, ask: Ask, change: Change) -> None:
        self._ask = ask
        self._change = change

    async def new(self, room: str, request: RoomExportRequest) -> ExportView:
        """Export a room's workspace; the request's id makes a retry exact."""
        return await self._change(ExportView, "POST", f"/v1/rooms/{quoted(room)}/exports", request, operation=request.id)

    async def list(self, room: str | None = None) -> tuple[ExportRow, ...]:
        """List exports, newest first, of one room or of all."""
        return (await self._ask(ExportList, "/v1/exports" + (f"?{encoded({'room': room})}" if room else ""))).items

    async def show(self, ref: str) -> ExportView:
        """Return one with what its manifest says."""
        return await self._ask(ExportView, f"/v1/exports/{quoted(ref)}")

    async def plan_archive(self, room: str, question: ArchiveQuestion) -> ArchivePlan:
        """Return what an archive of a room's workspace would take away; all of it is looked at, which takes its time."""
        return await self._change(ArchivePlan, "POST", f"/v1/rooms/{quoted(room)}/workspace/archive/plan", question)

    async def archive(self, room: str, request: ArchiveRequest) -> ArchiveResult:
        """Archive a room's workspace; the request confirms the plan by its digest, and its id makes a retry exact."""
        return await self._change(
            ArchiveResult, "POST", f"/v1/rooms/{quoted(room)}/workspace/archive", request, operation=request.id
        )

    async def restore(self, room: str, request: RestoreRequest) -> RestoreResult:
        """Bring a room's workspace back; the request's id makes a retry exact."""
        return await self._change(
            RestoreResult, "POST", f"/v1/rooms/{quoted(room)}/workspace/restore", request, operation=request.id
        )

    async def verify(self, ref: str) -> ExportVerdict:
        """Read one whole, which takes as long as it is large."""
        return await self._change(ExportVerdict, "POST", f"/v1/exports/{quoted(ref)}/verify")
