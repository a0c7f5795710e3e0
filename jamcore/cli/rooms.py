"""Rooms by what they are on."""

from __future__ import annotations

from uuid import UUID

from jamcore.cli.words import quoted
from jamcore.control.client import JamClient


async def room_on(client: JamClient, host: UUID) -> str:
    """Return a room on a host as it is typed in a command; the placeholder where none is, since a fresh start left it."""
    return next((quoted(view.room.name) for view in await client.rooms() if view.host.id == host), "ROOM")
