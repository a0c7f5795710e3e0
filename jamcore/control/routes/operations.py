"""Journaled operations: listed, told, and followed."""

from __future__ import annotations

from aiohttp import web

from jamcore.control.routes.route import AnyRoute, Call, Route, StreamRoute
from jamcore.control.streams import RoomStream, resume_point
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.operation_views import LISTED, MOST_LISTED, OperationLine, OperationPage, OperationView


async def operations(call: Call) -> OperationPage:
    """List operations, newest first."""
    unfinished = call.asked("unfinished") == "1"
    return await call.services.operations.list(
        room=call.asked("room"), host=call.asked("host"), unfinished=unfinished, limit=_limit(call.asked("limit"))
    )


async def show(call: Call) -> OperationView:
    """Return one with its story."""
    return await call.services.operations.show(call.ref)


async def events(call: Call) -> web.StreamResponse:
    """Stream the lines of a story after a number."""
    after, follow = resume_point(call.request)
    return await RoomStream(call.services.operations, call.ref, after=after, follow=follow).answer(call.request)


def _limit(text: str | None) -> int:
    """Return how many are asked for.

    Raises:
        InvalidInputError: Not a number from 1 to the most that are listed.
    """
    if text is None:
        return LISTED
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_LISTED):
        raise InvalidInputError(field="limit", problem=f"not a number from 1 to {MOST_LISTED}")
    return int(text)


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "GET",
        "/v1/operations",
        "list_operations",
        "Journaled operations, newest first",
        operations,
        OperationPage,
        query=(
            ("room", "Of this room, and of its host as a whole"),
            ("host", "Of this host: its sandbox's name, its id, or a room on it"),
            ("unfinished", "1: only those that have not ended"),
            ("limit", f"At most so many, from 1 to {MOST_LISTED}; {LISTED} unless said"),
        ),
    ),
    Route("GET", "/v1/operations/{ref}", "show_operation", "One operation with its story", show, OperationView),
    StreamRoute("/v1/operations/{ref}/events", "stream_operation", "The lines of a story, resumable", events, OperationLine),
)
