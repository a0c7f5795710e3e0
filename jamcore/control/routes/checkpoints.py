"""Generations of a conversation's state: listed, looked into, verified, compared. All of it changes nothing."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.control.schemas import CheckpointList
from jamcore.domain.requests import CheckpointDiff, CheckpointVerdict, CheckpointView


async def checkpoints(call: Call) -> CheckpointList:
    """List the generations of a room's host."""
    return CheckpointList(items=await call.services.checkpoints.list(call.ref))


async def show(call: Call) -> CheckpointView:
    """Return one with what it holds."""
    return await call.services.checkpoints.show(call.ref)


async def verify(call: Call) -> CheckpointVerdict:
    """Read one whole."""
    return await call.services.checkpoints.verify(call.ref)


async def diff(call: Call) -> CheckpointDiff:
    """Compare two."""
    return await call.services.checkpoints.diff(call.ref, call.part("newer"))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "GET", "/v1/rooms/{ref}/checkpoints", "list_checkpoints", "A room's generations, newest first", checkpoints, CheckpointList
    ),
    Route("GET", "/v1/checkpoints/{ref}", "show_checkpoint", "One generation with what it holds", show, CheckpointView),
    Route(
        "GET",
        "/v1/checkpoints/{ref}/verify",
        "verify_checkpoint",
        "Whether every byte is there and sound",
        verify,
        CheckpointVerdict,
    ),
    Route(
        "GET", "/v1/checkpoints/{ref}/diff/{newer}", "diff_checkpoints", "What lies between two generations", diff, CheckpointDiff
    ),
)
