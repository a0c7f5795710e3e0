"""``jam continuity start-fresh``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.words import quoted
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.resets import NotConfirmedError, StartFreshRequest

_DIGEST = re.compile(r"[0-9a-f]{64}")


def command(
    room: RoomArgument,
    evidence: Annotated[str, typer.Option(metavar="SHA256", help="The evidence's checksum, as `jam continuity inspect` shows it.")],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Needed: the conversations that the evidence names are given up.")
    ] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Begin a new conversation in a room whose old one cannot be brought back, and in every other room of its sandbox.

    Only where `jam continuity inspect` shows a failure, while nothing runs, and on exactly the evidence that it showed. The agent goes on
    with its files and knows nothing of what was said. Nothing is deleted: the old sandbox, its files, checkpoints and ids are kept.
    """

    async def work(session: Session) -> Exit:
        digest = _digest(evidence)
        if not confirm:
            raise NotConfirmedError(room=room, evidence=digest)
        output = session.output
        request = StartFreshRequest(id=session.ids.uuid(), evidence=digest, confirm=True)
        with output.ticker.during("beginning afresh"):
            done = await session.client().start_fresh(room, request)
        if output.json:
            output.document(done)
            return Exit.OK
        output.line(f"{', '.join(done.rooms)}: a new conversation in {done.sandbox}")
        output.pairs((("kept", done.source_sandbox), ("checkpoint", done.checkpoint)))
        for name, files in zip(done.rooms, done.files, strict=True):
            output.note(f"{name}: {files}")
        if done.problem:
            output.note(f"It is not live yet: {done.problem}. Go on with: jam room resume {quoted(room)}", "yellow")
        else:
            output.note(f"Say what it needs to know: jam say {quoted(room)} …")
        return Exit.OK

    invoke(work, json=json, directory=app_directory, room=room)


def _digest(text: str) -> str:
    """Accept a checksum as a person copied it.

    Raises:
        InvalidInputError: It is none.
    """
    if not _DIGEST.fullmatch(digest := text.strip().lower()):
        raise InvalidInputError(field="--evidence", problem="not the evidence's checksum: 64 hexadecimal digits")
    return digest
