"""Archives of workspaces, and bringing them back."""

from __future__ import annotations

from jamcore.control.routes.route import TEXT_BODY, AnyRoute, Call, Route
from jamcore.domain.keeping import ArchivePlan, ArchiveQuestion, ArchiveRequest, ArchiveResult, RestoreRequest, RestoreResult


async def plan(call: Call) -> ArchivePlan:
    """Say what an archive would take away."""
    return await call.services.archives.plan(call.ref, call.body(ArchiveQuestion))


async def archive(call: Call) -> ArchiveResult:
    """Archive what was confirmed."""
    return await call.services.archives.archive(call.ref, call.body(ArchiveRequest))


async def restore(call: Call) -> RestoreResult:
    """Bring a workspace back."""
    return await call.services.restores.restore(call.ref, call.body(RestoreRequest))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "POST",
        "/v1/rooms/{ref}/workspace/archive/plan",
        "plan_archive",
        "What an archive of a room's workspace would take away, and what stands against it; changes nothing",
        plan,
        ArchivePlan,
        body=ArchiveQuestion,
        body_limit=TEXT_BODY,
    ),
    Route(
        "POST",
        "/v1/rooms/{ref}/workspace/archive",
        "archive_workspace",
        "Export a room's workspace and remove its directory, confirmed by the plan's digest",
        archive,
        ArchiveResult,
        body=ArchiveRequest,
        body_limit=TEXT_BODY,
    ),
    Route(
        "POST",
        "/v1/rooms/{ref}/workspace/restore",
        "restore_workspace",
        "Bring an archived workspace back from an export of it",
        restore,
        RestoreResult,
        body=RestoreRequest,
    ),
)
