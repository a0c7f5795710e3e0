"""Exports from elsewhere: taken in, looked at, confirmed, and made rooms of."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest, ImportView
from jamcore.domain.requests import RoomView


async def take(call: Call) -> ImportView:
    """Take an export in."""
    return await call.services.imports.take(call.body(ImportRequest))


async def inspect(call: Call) -> ImportView:
    """Say what there is to confirm."""
    return await call.services.imports.inspect(call.ref)


async def confirm(call: Call) -> ImportView:
    """Let one be restored."""
    return await call.services.imports.confirm(call.ref, call.body(ConfirmRequest))


async def restore(call: Call) -> RoomView:
    """Make a room of one."""
    return await call.services.adoptions.restore(call.ref, call.body(AdoptRequest))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "POST",
        "/v1/imports",
        "import_export",
        "Take in an export that was made elsewhere: checked, copied, and not to be used until it is confirmed",
        take,
        ImportView,
        body=ImportRequest,
        status=201,
    ),
    Route(
        "POST",
        "/v1/imports/{ref}/inspect",
        "inspect_import",
        "What there is to confirm of an export from elsewhere; reads all of it, and changes nothing",
        inspect,
        ImportView,
    ),
    Route(
        "POST",
        "/v1/imports/{ref}/confirm",
        "confirm_import",
        "Let an export from elsewhere be restored, confirmed by the digest of its evidence",
        confirm,
        ImportView,
        body=ConfirmRequest,
    ),
    Route(
        "POST",
        "/v1/imports/{ref}/restore",
        "restore_import",
        "Make a new, parked room of a confirmed export from elsewhere, with its conversation",
        restore,
        RoomView,
        body=AdoptRequest,
        status=201,
    ),
)
