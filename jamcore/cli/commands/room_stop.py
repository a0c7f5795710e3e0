"""``jam room stop``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument


def command(room: RoomArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Checkpoint a room and park its sandbox. Its files and its conversation stay; `jam room resume` brings them back."""

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("checkpointing and parking"):
            result = await session.client().stop(room)
        if session.output.json:
            session.output.document(result)
            return Exit.OK
        kept = f", checkpoint {result.checkpoint.generation}" if result.checkpoint else ""
        session.output.line(f"{result.room.room.name}: {_OUTCOMES[result.outcome]}{kept}")
        session.output.note(f"Bring it back: jam room resume {result.room.room.name}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


_OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        "parked": "parked",
        "left": "stopped; its sandbox goes on for the agent's other rooms",
        "already-parked": "was parked already",
    }
)
