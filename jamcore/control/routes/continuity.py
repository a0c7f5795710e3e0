"""Conversations that cannot be brought back: the evidence, and a fresh start confirmed by its checksum (CONT-9)."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.domain.resets import ContinuityView, StartFreshRequest, StartFreshResult


async def inspect(call: Call) -> ContinuityView:
    """Return the evidence."""
    return await call.services.continuity.inspect(call.ref)


async def start_fresh(call: Call) -> StartFreshResult:
    """Give up what cannot be brought back, on the confirmed evidence."""
    return await call.services.continuity.start_fresh(call.ref, call.body(StartFreshRequest))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "GET",
        "/v1/rooms/{ref}/continuity",
        "inspect_continuity",
        "Whether the conversations of a room's host can be brought back, with the evidence and its checksum",
        inspect,
        ContinuityView,
    ),
    Route(
        "POST",
        "/v1/rooms/{ref}/continuity",
        "start_fresh",
        "Begin new conversations where the old ones cannot be brought back, confirmed by that checksum; nothing is deleted",
        start_fresh,
        StartFreshResult,
        body=StartFreshRequest,
    ),
)
