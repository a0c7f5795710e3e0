"""``jam room say`` and ``jam say``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.follow import TurnWatch, exit_of_turn
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DetachOption, DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.words import quoted
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.limits import TURN_TEXT_CHARACTERS
from jamcore.domain.requests import TurnRequest


def command(
    room: RoomArgument,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to say. Without it, or with `-`, it is read from standard input."),
    ] = None,
    detach: DetachOption = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Say something in a room and watch the answer.

    The answer goes to standard output, what the agent does beside it to standard error. Ctrl-C interrupts the turn; a second Ctrl-C
    detaches and lets it go on.

    With --json each event is a line `{"event": …}`, and the last line is `{"turn": …}`.
    """

    async def work(session: Session) -> Exit:
        request = TurnRequest(id=session.ids.uuid(), text=_message(text or []))
        client = session.client()
        before = await client.room(room)
        turn = await client.say(room, request)
        if detach:
            if session.output.json:
                session.output.document(turn)
            else:
                session.output.line(str(turn.id))
                session.output.note(f"Watch it: jam attach {quoted(room)}")
            return Exit.OK
        ended = await TurnWatch(
            session, client, ref=room, turn=turn.id, after=before.last_seq, behind=before.live and before.busy
        ).run()
        if ended is not None and session.output.json:
            session.output.json_line({"turn": ended})
        return exit_of_turn(ended)

    invoke(work, json=json, directory=app_directory, room=room)


def _message(words: list[str]) -> str:
    """Return the words, or standard input when there are none.

    Raises:
        InvalidInputError: There is nothing to say.
    """
    if words and words != ["-"]:
        return " ".join(words)
    if not words and sys.stdin.isatty():
        raise InvalidInputError(field="TEXT", problem="say what? Give a text, or pipe one in")
    return sys.stdin.read(TURN_TEXT_CHARACTERS + 1)
