"""``jam demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jamcore.cli.options import JsonOption
from jamcore.cli.programs import become

PROGRAM = "jamcore.testing.demo"


def command(
    directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to make everything. Default: a new temporary directory, which is kept."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the main job for real, in a minute and without an account.

    A real agent in a real sandbox changes a small repository, is killed in the middle of a turn, comes back to the exact conversation,
    and leaves a change request. Each step is proven, not narrated.
    """
    become(PROGRAM, *(["--json"] if json else []), *(["--directory", str(directory)] if directory else []))
