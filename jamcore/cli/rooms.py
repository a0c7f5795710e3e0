"""Rooms by what they are on, and rooms whose making failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from jamcore.cli.output import Output
from jamcore.cli.words import quoted
from jamcore.control.client import JamClient
from jamcore.control.failures import RemoteFaultError, RemoteRefusalError
from jamcore.domain.errors import JamError

T = TypeVar("T")


async def room_on(client: JamClient, host: UUID) -> str:
    """Return a room on a host as it is typed in a command; the placeholder where none is, since a fresh start left it."""
    return next((quoted(view.room.name) for view in await client.rooms() if view.host.id == host), "ROOM")


def making(output: Output, client: JamClient, room: UUID, ask: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Return what asks for a room to be made; where that fails, ``output`` says of a room that is kept, and holds its name, that it is."""

    async def work() -> T:
        try:
            return await ask()
        except (RemoteFaultError, RemoteRefusalError):
            with suppress(JamError):
                output.kept_room = (await client.room(str(room))).room.name
            raise

    return work
