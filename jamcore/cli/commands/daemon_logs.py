"""``jam daemon logs``."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Annotated, BinaryIO

import anyio
import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.control.failures import AddressUnreadableError
from jamcore.domain.layout import LOG

TAIL_BYTES = 4 << 20
"""As much of the end of the log is looked at."""
POLL_S = 0.25


def command(
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show the end of the daemon's log. Works also when the daemon does not run."""

    async def work(session: Session) -> Exit:
        path = session.directory / LOG
        try:
            await _show(session, path, lines, follow=follow)
        except OSError as error:
            raise AddressUnreadableError(path=str(path), reason=error.strerror or type(error).__name__) from error
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


async def _show(session: Session, path: Path, lines: int, *, follow: bool) -> None:
    stream = _opened(path)
    if stream is None:
        session.output.note(f"There is no log yet at {path}.")
    else:
        _last(session, stream, lines)
    try:
        while follow:
            await anyio.sleep(POLL_S)
            if stream is not None:
                _print(session, stream.readlines())
            if newer := _replaced(path, stream):
                if stream is not None:
                    _print(session, stream.readlines())  # what was written between the last look and the change of files
                    stream.close()
                stream = newer
                _print(session, stream.readlines())
    finally:
        if stream is not None:
            stream.close()


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _replaced(path: Path, stream: BinaryIO | None) -> BinaryIO | None:
    """Return the file that is there now if it is another one: a log that is full is renamed, and a new one begun."""
    newer = _opened(path)
    if newer is not None and stream is not None and os.path.sameopenfile(newer.fileno(), stream.fileno()):
        newer.close()
        return None
    return newer


def _last(session: Session, stream: BinaryIO, count: int) -> None:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - TAIL_BYTES))
    _print(session, list(deque(stream, maxlen=count)))


def _print(session: Session, lines: list[bytes]) -> None:
    for line in lines:
        text = line.decode(errors="replace").rstrip("\r\n")
        if session.output.json:
            session.output.json_line({"line": text})
        else:
            session.output.line(text)
