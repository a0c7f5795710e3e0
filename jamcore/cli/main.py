"""Finds the command and hands over to it.

``jam --help`` imports neither typer nor anything of Jam but the table: a command's module is imported when it is called.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import nullcontext

from jamcore.cli.help import group_help, root_help
from jamcore.cli.streams import OutputLostError, lost, open_closed, writing
from jamcore.cli.table import Command, find, first_words, group

TYPE_CHECKING = False  # as in typing, whose import is half of what the help costs
if TYPE_CHECKING:
    from typing import NoReturn

HELP = frozenset({"-h", "--help", "help"})
VERSION = frozenset({"-V", "--version"})
EXIT_USAGE = 2
"""The same number as ``Exit.USAGE``, which would cost an import here."""
EXIT_INTERRUPTED = 130
"""As ``Exit.INTERRUPTED``."""


def main() -> NoReturn:
    """Run ``jam`` with the arguments of this process; the entry point.

    What is imported stays until the end. So the collector rests while it is made, and looks at it neither later nor when the process
    ends: together a tenth of a short command.
    """
    gc.disable()
    open_closed()
    try:
        status = run(sys.argv[1:], imported=_imported)
    except KeyboardInterrupt:  # before the command's own work began, or after it ended
        status = EXIT_INTERRUPTED
    sys.exit(status)


def _imported() -> None:
    gc.freeze()
    gc.enable()


def _nothing() -> None:
    pass


def run(words: list[str], *, imported: Callable[[], None] = _nothing) -> int:
    """Run a command line and return its exit status; ``imported`` is called before a command's own work begins."""
    try:
        status = _run(words, imported)
        with writing():
            sys.stdout.flush()
    except OutputLostError as error:
        return lost(error.cause)
    return status


def _run(words: list[str], imported: Callable[[], None]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # a terminal without Unicode shows escapes instead of a crash
    if not words or words[0] in HELP:
        with writing():
            print(root_help(), end="")
        return 0
    if words[0] in VERSION:
        from jamcore.control.versions import jam_version

        print(f"jam {jam_version()}")
        return 0
    if found := find(words):
        return call(*found, imported=imported)
    return _not_a_command(words)


def call(command: Command, arguments: list[str], *, imported: Callable[[], None] = _nothing) -> int:
    """Import a command's module and run it with typer; a plain list needs neither."""
    from importlib import import_module

    if command.lists and set(arguments) <= {"--json"}:
        return _list(command.lists, json=bool(arguments), imported=imported)
    import typer

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(import_module(f"jamcore.cli.commands.{command.module}").command)
    imported()
    json = _wants_json(arguments)
    try:
        # A command ends with SystemExit, and its own output is guarded: what is left to print is help and usage errors.
        with writing() if {"-h", "--help"} & set(arguments) else nullcontext():
            app(args=arguments, prog_name=f"jam {command.name}", standalone_mode=not json)
    except SystemExit as ended:
        return _status_of(ended)
    except Exception as error:
        message = getattr(error, "format_message", None)  # typer's usage errors; their classes are private
        if not json or message is None:
            raise
        return _usage("usage.wrong", message(), f"`jam {command.name} --help` explains it", json=True)
    return 0


def _list(name: str, *, json: bool, imported: Callable[[], None]) -> int:
    from jamcore.cli import lists
    from jamcore.cli.listing import print_listing

    imported()
    try:
        return print_listing(getattr(lists, name), json=json)
    except SystemExit as ended:  # the typed client had to ask
        return _status_of(ended)


def _status_of(ended: SystemExit) -> int:
    return ended.code if isinstance(ended.code, int) else EXIT_USAGE if ended.code else 0


def _wants_json(words: list[str]) -> bool:
    """Whether a program reads: known also where the command line is too wrong to be understood."""
    return "--json" in words[: words.index("--")] if "--" in words else "--json" in words


def _usage(code: str, message: str, hint: str, *, json: bool) -> int:
    """Report a usage error and return its status."""
    with writing():
        if json:
            from json import dumps

            print(dumps({"error": {"code": code, "message": message, "context": {}, "hint": hint}}))
        else:
            print(f"jam: {message} ({code})\n  hint: {hint}", file=sys.stderr, flush=True)
    return EXIT_USAGE


def _not_a_command(words: list[str]) -> int:
    """Explain a group, or say what may have been meant."""
    commands = group(words[0])
    if commands and (len(words) == 1 or words[1] in HELP):
        with writing():
            print(group_help(words[0], commands), end="")
        return 0
    json = _wants_json(words)
    if words[0].startswith("-"):
        return _usage(
            "usage.unknown_command", f"the option {words[0]!a} stands before the command", _where_options_stand(words), json=json
        )
    if commands and words[1].startswith("-"):
        message = f"`jam {words[0]}` is several commands, and none was named"
        return _usage("usage.unknown_command", message, f"`jam {words[0]} --help` lists them", json=json)
    from difflib import get_close_matches

    word, known = (words[1], [c.path[1] for c in commands]) if commands else (words[0], list(first_words()))
    message = f"there is no command {' '.join(words[: 2 if commands else 1])!a}"
    hint = f"`jam {words[0]} --help` lists the commands" if commands else "`jam --help` lists the commands"
    if close := get_close_matches(word, known, n=2, cutoff=0.5):
        prefix = f"{words[0]} " if commands else ""
        hint = "did you mean " + " or ".join(f"`jam {prefix}{name}`" for name in close) + "?"
    return _usage("usage.unknown_command", message, hint, json=json)


def _where_options_stand(words: list[str]) -> str:
    """Return the command line that was meant, as far as it can be told."""
    rest = [word for word in words if not word.startswith("-")]
    if found := find(rest):
        return f"options follow the command: `jam {found[0].name} {words[0]}`"
    if rest and group(rest[0]):
        return f"options follow the command: `jam {rest[0]} COMMAND {words[0]}`; `jam {rest[0]} --help` lists the commands"
    return f"options follow the command: `jam COMMAND {words[0]}`; `jam --help` lists the commands"


if __name__ == "__main__":
    main()
