"""``jam demo``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from jamcore.cli.options import JsonOption

PROGRAM = ("-P", "-m", "jamcore.testing.demo")
"""A program of its own: the command line does not depend on the testing package. ``-P`` runs nothing of the current directory."""


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
    sys.stdout.flush()
    arguments = [*PROGRAM, *(["--json"] if json else []), *(["--directory", str(directory)] if directory else [])]
    # This process becomes the demo: its output, its signals and its exit status are the terminal's own.
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - no shell, fixed arguments
