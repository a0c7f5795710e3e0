"""The help of ``jam`` itself and of its groups, from the table alone. A command's own help is typer's."""

from __future__ import annotations

from collections.abc import Iterable

from jamcore.cli.table import COMMANDS, SECTIONS, Command

INTRO = """\
Jam runs coding agents in sandboxes on your own machine, gives each session a workspace
of its own, and brings every session back to the exact conversation after a crash.

Usage: jam COMMAND [OPTIONS]
"""

OUTRO = """\
`jam COMMAND --help` explains a command. Every command takes --json, and --app-directory
(or JAM_HOME) to work on another app directory. Begin with:

  jam doctor                                   what this machine can do
  jam run AGENT "fix the failing test" --repo .
"""


def root_help() -> str:
    """Return the help of ``jam``."""
    listed = [command for command in COMMANDS if command.listed]
    width = _width(listed)
    sections = (f"{section}:\n{_lines((c for c in listed if c.section == section), width)}" for section in SECTIONS)
    return "\n".join((INTRO, *sections, OUTRO))


def group_help(word: str, commands: tuple[Command, ...]) -> str:
    """Return the help of a group."""
    return f"Usage: jam {word} COMMAND [OPTIONS]\n\n{_lines(commands, _width(commands))}\n`jam {word} COMMAND --help` explains a command.\n"


def _width(commands: Iterable[Command]) -> int:
    return max(len(command.name) for command in commands)


def _lines(commands: Iterable[Command], width: int) -> str:
    return "".join(f"  {command.name:<{width}}  {command.summary}\n" for command in commands)
