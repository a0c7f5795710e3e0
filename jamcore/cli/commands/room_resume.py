"""``jam room resume``."""

from __future__ import annotations

from contextlib import aclosing

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.standing import AHEAD, standing
from jamcore.cli.views import show_room
from jamcore.cli.words import quoted
from jamcore.control.client import JamClient
from jamcore.domain.events import SessionNotice


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Bring a room back to the exact conversation it had, or refuse with the reason. It never begins a new one instead."""

    async def work(session: Session) -> Exit:
        client = session.client()
        before = await client.room(room)
        with session.output.ticker.during("restoring and resuming"):
            view = await client.resume(room)
        if session.output.json:
            session.output.document(view)
            return Exit.OK
        show_room(session.output, view)
        if before.live:
            session.output.note("It was live already: nothing was brought back.")
            return Exit.OK
        session.output.note(*standing(await client.inspect(room), ahead=await _ahead(client, room, before.last_seq)))
        session.output.note(f"Evidence: jam session inspect {quoted(view.room.name)}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)


async def _ahead(client: JamClient, room: str, after: int) -> str:
    """Return what the room was told of files that are ahead of its conversation."""
    async with aclosing(client.events(room, after=after, follow=False)) as events:
        said = [event.payload async for event in events]
    return next((each.detail for each in said if isinstance(each, SessionNotice) and each.code == AHEAD), "")
