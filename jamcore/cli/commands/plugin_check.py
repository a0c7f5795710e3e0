"""``jam plugin check``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.options import JsonOption
from jamcore.cli.programs import become

PROGRAM = "jamcore.testing.check"


def command(
    plugin: Annotated[
        str | None,
        typer.Argument(metavar="PLUGIN", help="An installed distribution, or the source directory of one. Default: all installed."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check plugins against Jam's suite, and print one report: what holds, what does not and why it matters, what was not asked.

    Of an installed distribution everything is checked that needs no program of an agent. For a source directory its own tests are run,
    which bring the whole suite to its program. Ends with status 1 where a check failed.
    """
    become(PROGRAM, *(["--json"] if json else []), *(["--", plugin] if plugin else []))
