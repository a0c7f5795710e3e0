"""Runs and change requests."""

from __future__ import annotations

from jamcore.control.routes.rooms import require_text
from jamcore.control.routes.route import TEXT_BODY, AnyRoute, Call, Route
from jamcore.control.schemas import ChangeList
from jamcore.domain.changes import ChangeDecision, ChangeRequest
from jamcore.domain.requests import AcceptRequest, ChangeBuildRequest, ChangeView, RejectRequest, RunRequest, RunView


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
    return ChangeList(items=await call.services.changes.list(), decisions=await call.services.reviews.decisions())


async def show(call: Call) -> ChangeView:
    """Return one with its patch."""
    return await call.services.changes.show(call.ref)


async def accept(call: Call) -> ChangeDecision:
    """Put the reviewed bytes on a branch of the person's repository."""
    return await call.services.reviews.accept(call.ref, call.body(AcceptRequest))


async def reject(call: Call) -> ChangeDecision:
    """Refuse a change request; the reason may become the room's next turn."""
    request = call.body(RejectRequest)
    require_text(request.reason, "body.reason")
    return await call.services.reviews.reject(call.ref, request)


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
    Route(
        "POST",
        "/v1/changes/{ref}/accept",
        "accept_change",
        "Put the reviewed bytes on a branch",
        accept,
        ChangeDecision,
        body=AcceptRequest,
    ),
    Route(
        "POST",
        "/v1/changes/{ref}/reject",
        "reject_change",
        "Refuse a change request, and tell the agent why",
        reject,
        ChangeDecision,
        body=RejectRequest,
    ),
)
