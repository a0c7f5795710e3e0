"""What a route is, and how a request becomes a call of a service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web
from pydantic import ValidationError

from jamcore.control.errors import invalid, stamp
from jamcore.daemon.services import Services
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.records import Record

R = TypeVar("R", bound=Record)

SERVICES = web.AppKey("services", Services)

SMALL_BODY = 64 << 10
"""Bytes of a request that holds names and choices."""
TEXT_BODY = 8 << 20
"""Bytes of a request that holds a person's message: 2**20 characters, escaped as JSON (CTRL-3)."""
REF_CHARACTERS = 200
"""Longest reference: a UUID, its prefix, or a room's name."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read and bounded."""

    request: web.Request
    services: Services
    raw: bytes

    def body(self, kind: type[R]) -> R:
        """Return the body as a record.

        Raises:
            InvalidInputError: With the first field that is wrong; its value is never repeated.
        """
        try:
            return kind.model_validate_json(self.raw)
        except ValidationError as error:
            raise invalid(error, "body") from None

    def part(self, name: str) -> str:
        """Return a percent-decoded part of the path: 1 to 200 printable characters.

        Raises:
            InvalidInputError: Anything else.
        """
        text = self.request.match_info[name]
        if not 1 <= len(text) <= REF_CHARACTERS or not text.isprintable():
            raise InvalidInputError(field=name, problem=f"not 1 to {REF_CHARACTERS} printable characters")
        return text

    def asked(self, name: str) -> str | None:
        """Return a part of the query, or ``None`` when it is not there: 1 to 200 printable characters.

        Raises:
            InvalidInputError: Anything else.
        """
        text = self.request.query.get(name)
        if text is not None and (not 1 <= len(text) <= REF_CHARACTERS or not text.isprintable()):
            raise InvalidInputError(field=name, problem=f"not 1 to {REF_CHARACTERS} printable characters")
        return text

    @property
    def ref(self) -> str:
        """The record that the path names."""
        return self.part("ref")


Reply = Callable[[Call], Awaitable[Record]]
Stream = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """One operation.

    ``query`` names what may follow the path, each with its meaning.
    ``changes`` says that it changes something: a client that goes away does not stop it (CTRL-4), and the client gives it no deadline.
    """

    method: str
    path: str
    name: str
    summary: str
    reply: Reply
    answer: type[Record]
    body: type[Record] | None = None
    body_limit: int = SMALL_BODY
    status: int = 200
    query: tuple[tuple[str, str], ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the operation is more than a question."""
        return self.method != "GET"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Read the request, ask the service, answer. Errors leave through the middleware."""
        raw = await _read(request, self.body_limit)
        record = await self.reply(Call(request, request.app[SERVICES], raw))
        return web.Response(text=record.model_dump_json(), status=self.status, content_type="application/json", headers=stamp())


@dataclass(frozen=True, slots=True)
class StreamRoute:
    """A stream of server-sent events; ``event`` is the record that each carries."""

    path: str
    name: str
    summary: str
    stream: Stream
    event: type[Record]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Hand the request to the stream."""
        return await self.stream(Call(request, request.app[SERVICES], b""))


AnyRoute = Route | StreamRoute


async def _read(request: web.Request, limit: int) -> bytes:
    """Read a body of at most ``limit`` bytes; a longer one is refused after so much of it."""
    declared = request.content_length
    if declared is not None and declared > limit:
        raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=declared)
    data = bytearray()
    async for chunk in request.content.iter_chunked(1 << 16):
        data += chunk
        if len(data) > limit:
            raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=len(data))
    return bytes(data)
