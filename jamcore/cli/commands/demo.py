"""``jam demo``."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from jamcore.cli.options import JsonOption

PROGRAM = ("-P", "-m", "jamcore.testing.demo")
"""A program of its own: the command line does not depend on the testing package. ``-P`` runs nothing of the current directory."""


def command(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the app directory and everything that was made.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the main job for real, in a minute and without an account.

    A real agent in a real sandbox changes a small repository, is killed in the middle of a turn, comes back to the exact conversation,
    and leaves a change request. Each step is proven, not narrated.
    """
    sys.stdout.flush()
    arguments = [*PROGRAM, *(["--json"] if json else []), *(["--keep"] if keep else [])]
    # This process becomes the demo: its output, its signals and its exit status are the terminal's own.
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - no shell, fixed arguments
