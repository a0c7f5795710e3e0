"""Workspaces as they stand, and their recovery."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.domain.workspace_care import RecoverRequest, RecoverResult, WorkspaceView


async def inspect(call: Call) -> WorkspaceView:
    """Return everything about a workspace."""
    return await call.services.workspaces.inspect(call.ref)


async def recover(call: Call) -> RecoverResult:
    """Recover a workspace in one of the ways."""
    return await call.services.workspaces.recover(call.ref, call.body(RecoverRequest))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "GET",
        "/v1/rooms/{ref}/workspace",
        "inspect_workspace",
        "Everything about a room's workspace; changes nothing",
        inspect,
        WorkspaceView,
    ),
    Route(
        "POST",
        "/v1/rooms/{ref}/workspace/recover",
        "recover_workspace",
        "Recover a room's workspace in one of the ways; none of them removes anything",
        recover,
        RecoverResult,
        body=RecoverRequest,
    ),
)
