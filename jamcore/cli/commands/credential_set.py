"""``jam credential set``."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.domain.errors import InvalidInputError

VALUE_CHARACTERS = 16 << 10
"""Longer than any API key."""


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The credential's name, e.g. openai. `jam doctor` says which are needed.")
    ],
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Keep an API key in the daemon. The value is asked for, or read from standard input: never put it on the command line.

    The daemon adds it to requests outside the sandbox; the agent never sees it.
    """

    async def work(session: Session) -> Exit:
        row = await session.client().set_credential(name, _value(name))
        if session.output.json:
            session.output.document(row)
        else:
            session.output.line(f"{row.name}: kept ({row.source})", "green")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


def _value(name: str) -> str:
    """Return the value without its line end.

    Raises:
        InvalidInputError: It is empty or too long.
    """
    text = getpass(f"Value of {ascii(name)[1:-1]}: ") if sys.stdin.isatty() else sys.stdin.read(VALUE_CHARACTERS + 1)
    value = text.rstrip("\r\n")
    if not value.strip() or len(value) > VALUE_CHARACTERS:
        raise InvalidInputError(field="value", problem=f"not 1 to {VALUE_CHARACTERS} characters")
    return value
