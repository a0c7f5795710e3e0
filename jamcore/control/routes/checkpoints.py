"""Generations of a conversation's state: listed, looked into, verified, compared, and removed on a person's word."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.control.schemas import CheckpointList, StandingList
from jamcore.domain.requests import CheckpointDiff, CheckpointVerdict, CheckpointView
from jamcore.domain.retention import RemovalPlan, RemovalQuestion, RemovalRequest, RemovalResult


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


async def standings(call: Call) -> StandingList:
    """List the generations of a room's host with what keeps each."""
    return StandingList(items=await call.services.removals.standings(call.ref))


async def plan(call: Call) -> RemovalPlan:
    """Say what a removal would free."""
    return await call.services.removals.plan(call.body(RemovalQuestion))


async def remove(call: Call) -> RemovalResult:
    """Remove what was confirmed."""
    return await call.services.removals.remove(call.body(RemovalRequest))


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
    Route(
        "GET",
        "/v1/rooms/{ref}/checkpoints/standings",
        "list_checkpoint_standings",
        "A room's generations, newest first, with what keeps each",
        standings,
        StandingList,
    ),
    Route(
        "POST",
        "/v1/checkpoint-removals/plan",
        "plan_checkpoint_removal",
        "What the removal of generations' payload would free, and what stands against it; changes nothing",
        plan,
        RemovalPlan,
        body=RemovalQuestion,
    ),
    Route(
        "POST",
        "/v1/checkpoint-removals",
        "remove_checkpoints",
        "Remove the payload of generations, confirmed by the plan's digest; their rows stay",
        remove,
        RemovalResult,
        body=RemovalRequest,
    ),
)
