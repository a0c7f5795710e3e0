"""``jam plugin check``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from jamcore.cli.exits import exit_of
from jamcore.cli.options import JsonOption
from jamcore.cli.output import Output
from jamcore.cli.programs import become
from jamcore.domain.errors import InvalidInputError

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
    if find_spec("pytest") is None:
        problem = "the suite is run by pytest, which is not installed beside this jam: pip install 'jamcore[testing]'"
        error = InvalidInputError(field="environment", problem=problem)
        Output(json=json, out=sys.stdout, err=sys.stderr).problem(error)
        raise SystemExit(exit_of(error))
    become(PROGRAM, *(["--json"] if json else []), *(["--", plugin] if plugin else []))
