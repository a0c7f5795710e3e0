"""``jam plugin new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jamcore.cli.options import JsonOption
from jamcore.cli.programs import become

PROGRAM = "jamcore.testing.skeleton"


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The plugin's name: a lower-case identifier, as people will type it.")
    ],
    engine: Annotated[bool, typer.Option("--engine", help="Make an engine instead of a provider.")] = False,
    policy: Annotated[bool, typer.Option("--policy", help="Make a policy, which wraps every provider's plan.")] = False,
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to make it; it must not be there yet. Default: jam-NAME here.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a plugin's distribution that passes Jam's suite at once, with a tiny agent (or engine, or rule) inside.

    Its README says in which order to make it yours, and docs/plugin-authors.md, docs/engine-authors.md or docs/policy-authors.md why.
    """
    become(
        PROGRAM,
        *(["--engine"] if engine else []),
        *(["--policy"] if policy else []),
        *([f"--directory={directory}"] if directory else []),
        *(["--json"] if json else []),
        "--",
        name,
    )
