"""Finds the command and hands over to it.

``jam --help`` imports neither typer nor anything of Jam but the table: a command's module is imported when it is called.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from jamcore.cli.help import group_help, root_help
from jamcore.cli.table import Command, find, first_words, group

HELP = frozenset({"-h", "--help", "help"})
VERSION = frozenset({"-V", "--version"})
EXIT_USAGE = 2
"""The same number as ``Exit.USAGE``, which would cost an import here."""


def main() -> NoReturn:
    """Run ``jam`` with the arguments of this process; the entry point."""
    sys.exit(run(sys.argv[1:]))


def run(words: list[str]) -> int:
    """Run a command line and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # a terminal without Unicode shows escapes instead of a crash
    if not words or words[0] in HELP:
        print(root_help(), end="")
        return 0
    if words[0] in VERSION:
        from jamcore.control.versions import jam_version

        print(f"jam {jam_version()}")
        return 0
    if found := find(words):
        return call(*found)
    return _not_a_command(words)


def call(command: Command, arguments: list[str]) -> int:
    """Import a command's module and run it with typer."""
    from importlib import import_module

    import typer

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(import_module(f"jamcore.cli.commands.{command.module}").command)
    try:
        app(args=arguments, prog_name=f"jam {command.name}")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else EXIT_USAGE if ended.code else 0
    return 0


def _not_a_command(words: list[str]) -> int:
    """Explain a group, or say what may have been meant."""
    commands = group(words[0])
    if commands and (len(words) == 1 or words[1] in HELP):
        print(group_help(words[0], commands), end="")
        return 0
    from difflib import get_close_matches

    word, known = (words[1], [c.path[1] for c in commands]) if commands else (words[0], list(first_words()))
    print(f"jam: there is no command {' '.join(words[: 2 if commands else 1])!a} (usage.unknown_command)", file=sys.stderr)
    if close := get_close_matches(word, known, n=2, cutoff=0.5):
        prefix = f"{words[0]} " if commands else ""
        print("  hint: did you mean " + " or ".join(f"`jam {prefix}{name}`" for name in close) + "?", file=sys.stderr)
    else:
        print("  hint: `jam --help` lists the commands", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    main()
