"""``jam room ls`` and ``jam ls``."""

from __future__ import annotations

from jamcore.cli.listing import run_listing
from jamcore.cli.lists import ROOMS
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List rooms, newest first: which agent, in which engine, and what it is doing."""
    run_listing(ROOMS, json=json, directory=app_directory)
