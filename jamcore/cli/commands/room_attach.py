"""``jam room attach`` and ``jam attach``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jamcore.cli.attached import Attached
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument

NOT_DRAWN_ON = frozenset({"", "dumb", "unknown"})
"""Terminals on which lines are printed and read, and nothing is drawn."""


def command(
    room: RoomArgument,
    history: Annotated[int, typer.Option(metavar="N", min=0, help="Begin with this many past events.")] = 200,
    watch: Annotated[bool, typer.Option("--watch", help="Only watch; read nothing.")] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Watch a room live, and talk in it: each line that you type is a message.

    Ctrl-C interrupts the turn that runs; a second one, or one when none runs, leaves. Ctrl-D leaves. The room goes on either way.

    On a pipe, each line of the input is a message in its turn, and the command ends when all of them are answered.

    With --json each event is a line `{"event": …}`.
    """

    async def work(session: Session) -> Exit:
        client = session.client()
        if watch or json or not _drawn_on(session):
            return await Attached(session, client, room, history, watch=watch).run()
        view = await client.room(room)
        from jamcore.cli.live.attached import LiveAttached  # late: what draws costs 100 ms, and a pipe needs none of it

        return await LiveAttached(session, client, room, history, view=view).run()

    invoke(work, json=json, directory=app_directory, room=room)


def _drawn_on(session: Session) -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and session.environ.get("TERM", "") not in NOT_DRAWN_ON
