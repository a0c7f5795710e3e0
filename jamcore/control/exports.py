"""The typed client's part for exports of workspaces: ``client.exports``."""

from __future__ import annotations

from jamcore.control.approvals import Ask, Change, encoded, quoted
from jamcore.control.schemas import ExportList
from jamcore.domain.keeping import ExportRow, ExportVerdict, ExportView, RoomExportRequest


class ExportClient:
    """Made by the client, with its own ways to the daemon."""

    def __init__(self, ask: Ask, change: Change) -> None:
        self._ask = ask
        self._change = change

    async def new(self, room: str, request: RoomExportRequest) -> ExportView:
        """Export a room's workspace; the request's id makes a retry exact."""
        return await self._change(ExportView, "POST", f"/v1/rooms/{quoted(room)}/exports", request)

    async def list(self, room: str | None = None) -> tuple[ExportRow, ...]:
        """List exports, newest first, of one room or of all."""
        return (await self._ask(ExportList, "/v1/exports" + (f"?{encoded({'room': room})}" if room else ""))).items

    async def show(self, ref: str) -> ExportView:
        """Return one with what its manifest says."""
        return await self._ask(ExportView, f"/v1/exports/{quoted(ref)}")

    async def verify(self, ref: str) -> ExportVerdict:
        """Read one whole, which takes as long as it is large."""
        return await self._change(ExportVerdict, "POST", f"/v1/exports/{quoted(ref)}/verify")
