"""Runs and change requests."""

from __future__ import annotations

from jamcore.control.routes.rooms import require_text
from jamcore.control.routes.route import TEXT_BODY, AnyRoute, Call, Route
from jamcore.control.schemas import ChangeList
from jamcore.domain.changes import ChangeRequest
from jamcore.domain.requests import ChangeBuildRequest, ChangeView, RunRequest, RunView


async def run_start(call: Call) -> RunView:
    """Begin a run and return."""
    request = call.body(RunRequest)
    require_text(request.objective, "body.objective")
    return await call.services.runs.start(request)


async def run_get(call: Call) -> RunView:
    """Return a run by its room."""
    return await call.services.runs.get(call.ref)


async def build(call: Call) -> ChangeRequest:
    """Build a change request from a room's work tree as it is now."""
    return await call.services.changes.build(call.ref, call.body(ChangeBuildRequest).id)


async def changes(call: Call) -> ChangeList:
    """List change requests, newest first."""
    return ChangeList(items=await call.services.changes.list())


async def show(call: Call) -> ChangeView:
    """Return one with its patch."""
    return await call.services.changes.show(call.ref)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "POST",
        "/v1/runs",
        "start_run",
        "Begin an objective that ends in a change request",
        run_start,
        RunView,
        body=RunRequest,
        body_limit=TEXT_BODY,
        status=202,
    ),
    Route("GET", "/v1/runs/{ref}", "get_run", "One run, by its room", run_get, RunView),
    Route(
        "POST",
        "/v1/rooms/{ref}/changes",
        "build_change",
        "Build a change request from the work tree as it is now",
        build,
        ChangeRequest,
        body=ChangeBuildRequest,
        status=201,
    ),
    Route("GET", "/v1/changes", "list_changes", "Change requests, newest first", changes, ChangeList),
    Route("GET", "/v1/changes/{ref}", "show_change", "One change request with its patch", show, ChangeView),
)
