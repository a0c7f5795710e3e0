"""Exports of workspaces: made, listed, looked into, verified."""

from __future__ import annotations

from jamcore.control.routes.route import TEXT_BODY, AnyRoute, Call, Route
from jamcore.control.schemas import ExportList
from jamcore.domain.keeping import ExportVerdict, ExportView, RoomExportRequest


async def new(call: Call) -> ExportView:
    """Export a room's workspace."""
    return await call.services.exports.new(call.ref, call.body(RoomExportRequest))


async def exports(call: Call) -> ExportList:
    """List exports."""
    return ExportList(items=await call.services.exports.list(call.asked("room")))


async def show(call: Call) -> ExportView:
    """Return one with what its manifest says."""
    return await call.services.exports.show(call.ref)


async def verify(call: Call) -> ExportVerdict:
    """Read one whole."""
    return await call.services.exports.verify(call.ref)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "POST",
        "/v1/rooms/{ref}/exports",
        "new_export",
        "Export a room's workspace with its latest checkpoint",
        new,
        ExportView,
        body=RoomExportRequest,
        body_limit=TEXT_BODY,
        status=201,
    ),
    Route(
        "GET",
        "/v1/exports",
        "list_exports",
        "Exports, newest first",
        exports,
        ExportList,
        query=(("room", "Of this room alone"),),
    ),
    Route("GET", "/v1/exports/{ref}", "show_export", "One export with what its manifest says", show, ExportView),
    Route(
        "POST",
        "/v1/exports/{ref}/verify",
        "verify_export",
        "Whether every name and byte of an export is there and what it was; when that was read is kept",
        verify,
        ExportVerdict,
    ),
)
