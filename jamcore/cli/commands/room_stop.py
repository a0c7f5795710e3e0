"""``jam room stop``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.views import show_trouble
from jamcore.cli.words import quoted
from jamcore.domain.safekeeping import UnsavedHost


def command(
    room: RoomArgument,
    accept_unsaved: Annotated[
        bool,
        typer.Option("--accept-unsaved", help="If the last checkpoint can never be made: say which turns are in none, and go on."),
    ] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Checkpoint a room and park its sandbox. Its files and its conversation stay; `jam room resume` brings them back.

    If the last checkpoint fails, the room does not start again before this command was repeated and made it, from the files as they
    are. --accept-unsaved is the way on when it can never be made.
    """

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("checkpointing and parking"):
            result = await session.client().stop(room, accept_unsaved=accept_unsaved)
        status = Exit.NOT_WELL if result.outcome != "left" and result.room.safety.unsaved else Exit.OK
        if session.output.json:
            session.output.document(result)
            return status
        kept = f", generation {result.checkpoint.generation}" if result.checkpoint else ""
        session.output.line(f"{result.room.room.name}: {_OUTCOMES[result.outcome]}{kept}")
        if result.settled is not None and result.settled.settlement == "accepted":
            _show_accepted(session, result.settled)
        show_trouble(session.output, result.room)
        if status is Exit.OK:
            session.output.note(f"Bring it back: jam room resume {quoted(result.room.room.name)}")
        return status

    invoke(work, json=json, directory=app_directory, room=room)


def _show_accepted(session: Session, settled: UnsavedHost) -> None:
    session.output.note(f"Without a checkpoint ({settled.problem}): {settled.detail}", "yellow")
    for turn in settled.turns:
        session.output.note(f"  turn {turn}", "yellow")


_OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        "parked": "parked",
        "left": "stopped; its sandbox goes on for the agent's other rooms",
        "already-parked": "was parked already",
    }
)
