"""Rooms, their turns and their events."""

from __future__ import annotations

from aiohttp import web

from jamcore.control.routes.route import TEXT_BODY, AnyRoute, Call, Route, StreamRoute
from jamcore.control.schemas import RoomList, TurnList
from jamcore.control.streams import RoomStream, resume_point
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.events import RoomEvent
from jamcore.domain.limits import TURN_TEXT_CHARACTERS
from jamcore.domain.requests import RoomRequest, RoomView, SessionInspection, StopResult, TurnRequest
from jamcore.domain.sessions import Turn


async def create(call: Call) -> RoomView:
    """Make a room. An exact retry returns the same one."""
    return await call.services.rooms.create(call.body(RoomRequest))


async def rooms(call: Call) -> RoomList:
    """List rooms, newest first."""
    return RoomList(items=await call.services.rooms.list())


async def get(call: Call) -> RoomView:
    """Return one room."""
    return await call.services.rooms.get(call.ref)


async def say(call: Call) -> Turn:
    """Accept a turn and return; it runs whatever becomes of the client."""
    request = call.body(TurnRequest)
    require_text(request.text, "body.text")
    return await call.services.rooms.say(call.ref, request)


async def turns(call: Call) -> TurnList:
    """List turns, oldest first."""
    return TurnList(items=await call.services.rooms.turns(call.ref))


async def interrupt(call: Call) -> RoomView:
    """Interrupt the running turn."""
    return await call.services.rooms.interrupt(call.ref)


async def stop(call: Call) -> StopResult:
    """Checkpoint and park; with ``?accept_unsaved=1`` also when the final checkpoint cannot be made."""
    return await call.services.rooms.stop(call.ref, accept_unsaved=call.asked("accept_unsaved") == "1")


async def resume(call: Call) -> RoomView:
    """Bring the exact session back, or refuse."""
    return await call.services.rooms.resume(call.ref)


async def inspect(call: Call) -> SessionInspection:
    """Return the evidence about the session's continuity."""
    return await call.services.rooms.inspect(call.ref)


async def events(call: Call) -> web.StreamResponse:
    """Stream events after a sequence number."""
    after, follow = resume_point(call.request)
    return await RoomStream(call.services.rooms, call.ref, after=after, follow=follow).answer(call.request)


def require_text(text: str, field: str) -> None:
    """Accept a person's message of at most 2**20 characters that says something.

    Raises:
        InvalidInputError: It is empty or longer.
    """
    if not text.strip():
        raise InvalidInputError(field=field, problem="the message is empty")
    if len(text) > TURN_TEXT_CHARACTERS:
        raise InvalidInputError(field=field, problem=f"longer than {TURN_TEXT_CHARACTERS} characters")


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "POST",
        "/v1/rooms",
        "create_room",
        "Make a room; an exact retry returns the same",
        create,
        RoomView,
        body=RoomRequest,
        status=201,
    ),
    Route("GET", "/v1/rooms", "list_rooms", "Rooms, newest first", rooms, RoomList),
    Route("GET", "/v1/rooms/{ref}", "get_room", "One room", get, RoomView),
    Route(
        "POST",
        "/v1/rooms/{ref}/turns",
        "say",
        "Accept a turn; it runs whatever becomes of the client",
        say,
        Turn,
        body=TurnRequest,
        body_limit=TEXT_BODY,
        status=202,
    ),
    Route("GET", "/v1/rooms/{ref}/turns", "list_turns", "Turns, oldest first", turns, TurnList),
    StreamRoute("/v1/rooms/{ref}/events", "stream_events", "Events after a sequence number, resumable", events, RoomEvent),
    Route("POST", "/v1/rooms/{ref}/interrupt", "interrupt", "Interrupt the running turn; idle: does nothing", interrupt, RoomView),
    Route(
        "POST",
        "/v1/rooms/{ref}/stop",
        "stop_room",
        "Checkpoint and park; the files stay",
        stop,
        StopResult,
        query=(("accept_unsaved", "1: let the room come back although its final checkpoint cannot be made"),),
    ),
    Route("POST", "/v1/rooms/{ref}/resume", "resume_room", "Bring the exact session back, or refuse", resume, RoomView),
    Route("GET", "/v1/rooms/{ref}/inspect", "inspect_session", "The evidence about continuity", inspect, SessionInspection),
)
