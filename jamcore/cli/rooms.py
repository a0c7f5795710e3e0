"""Rooms by what they are on, and rooms whose making failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

import anyio

from jamcore.cli.output import Output
from jamcore.cli.words import quoted
from jamcore.control.client import JamClient
from jamcore.control.failures import RemoteFaultError, RemoteRefusalError
from jamcore.domain import limits
from jamcore.domain.errors import JamError
from jamcore.system.tasks import owned_tasks

T = TypeVar("T")
QUIET_S = 5.0
"""Most rooms are there by then; of one that is not, a person is told what it waits for."""
_WAITS = (
    "Still waiting for {provider}: its sandbox is made, then its program is started, which has up to {bound:g} s to answer. "
    "Ctrl-C twice leaves, and the daemon goes on."
)


async def room_on(client: JamClient, host: UUID) -> str:
    """Return a room on a host as it is typed in a command; the placeholder where none is, since a fresh start left it."""
    return next((quoted(view.room.name) for view in await client.rooms() if view.host.id == host), "ROOM")


def making(
    output: Output, client: JamClient, room: UUID, ask: Callable[[], Awaitable[T]], *, provider: str
) -> Callable[[], Awaitable[T]]:
    """Return what asks for a room to be made, and says after a while what it waits for.

    Where it fails, ``output`` says of a room that is kept, and holds its name, that it is.
    """

    async def tell() -> None:
        await anyio.sleep(QUIET_S)
        output.note(_WAITS.format(provider=provider, bound=limits.AROUND_PREPARATION_S))

    async def patiently() -> T:
        async with owned_tasks() as tasks:
            tasks.start_soon(tell)
            made = await ask()
            tasks.cancel_scope.cancel()
        return made

    async def work() -> T:
        try:
            return await patiently()
        except (RemoteFaultError, RemoteRefusalError):
            with suppress(JamError):
                output.kept_room = (await client.room(str(room))).room.name
            raise

    return work
