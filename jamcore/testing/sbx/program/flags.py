"""Reads a command line as the cobra library does, as far as its errors can be seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jamcore.testing.sbx.behaviours import Gates


class UsageError(Exception):
    """The command line is wrong; the text is what is said."""


class HelpWanted(Exception):  # noqa: N818 - no error: the help text is asked for
    """Help is asked for, of the command that is named."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Args:
        name: Its long name.
        short: Its letter, if it has one.
        kind: ``bool``, ``text``, ``int`` or ``list`` (text, may be repeated).
        gate: The behaviour that a version must have to know it.
    """

    name: str
    short: str = ""
    kind: str = "text"
    gate: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its words, what it does (with a :class:`~jamcore.testing.sbx.program.call.Call`), its flags and arguments."""

    path: str
    run: Callable[[Any], int | None]
    flags: tuple[Flag, ...] = ()
    least: int = 0
    most: int | None = 0
    first: bool = False
    """Whether flags end at the first argument."""
    gate: str = ""
    open: bool = False
    """Whether it works without a login."""


GLOBAL = (Flag("debug", "D", "bool"), Flag("cloud", "", "bool"), Flag("help", "h", "bool"))
ALIASES: Mapping[str, str] = {"list": "ls", "remove": "rm", "delete": "rm", "secrets": "secret", "unset ": "rm"}


@dataclass(slots=True)
class Parsed:
    """A command line that was read."""

    command: Command
    flags: dict[str, Any]
    args: list[str]
    rest: list[str] = field(default_factory=list)
    """What follows ``--``."""


def parse(argv: Sequence[str], commands: Sequence[Command], gates: Gates) -> Parsed:
    """Find the command and read its flags.

    Raises:
        UsageError: The line is wrong.
        HelpWanted: Help is asked for.
    """
    known = {command.path: command for command in commands if not command.gate or gates(command.gate)}
    words, path = list(argv), ""
    while words and path not in known:
        word = words[0]
        if word in ("-h", "--help", "help"):
            raise HelpWanted(path)
        if word in ("-D", "--debug", "--cloud"):
            words.pop(0)
            continue
        if word.startswith("-"):
            raise _unknown(word)
        longer = f"{path} {ALIASES.get(word, word)}".strip()
        if not any(each == longer or each.startswith(f"{longer} ") for each in known):
            if gates("cobra.unknown-command"):
                raise UsageError(f'unknown command "{word}" for "{f"sbx {path}".strip()}"')
            raise HelpWanted(path)
        path = longer
        words.pop(0)
        if path in known and words and f"{path} {words[0]}" in known:
            path = f"{path} {words.pop(0)}"
    if path not in known:
        raise HelpWanted(path)
    return _read(known[path], words, gates)


def _read(command: Command, words: list[str], gates: Gates) -> Parsed:
    flags = [flag for flag in (*command.flags, *GLOBAL) if not flag.gate or gates(flag.gate)]
    by_name = {f"--{flag.name}": flag for flag in flags} | {f"-{flag.short}": flag for flag in flags if flag.short}
    found: dict[str, Any] = {flag.name: {"bool": False, "list": [], "int": 0}.get(flag.kind, "") for flag in flags}
    parsed = Parsed(command, found, [])
    while words:
        word = words.pop(0)
        if word == "--":
            parsed.rest = words
            break
        if not word.startswith("-") or word == "-":
            parsed.args.append(word)
            if command.first:
                parsed.args += words
                break
            continue
        _flag(word, words, by_name, found)
    if found["help"]:
        raise HelpWanted(command.path)
    if command.first:
        parsed.args, parsed.rest = parsed.args + parsed.rest, []
        if len(parsed.args) > 1 and parsed.args[1] == "--":
            del parsed.args[1]
    _count(command, len(parsed.args))
    return parsed


def _flag(word: str, words: list[str], known: Mapping[str, Flag], found: dict[str, Any]) -> None:
    if not word.startswith("--") and len(word) > 2 and f"-{word[1]}" in known:
        flag = known[f"-{word[1]}"]
        if flag.kind == "bool":
            found[flag.name] = True
            _flag(f"-{word[2:]}", words, known, found)
            return
        name, said = f"-{word[1]}", word[2:].removeprefix("=")
        given = True
    else:
        name, equals, said = word.partition("=")
        given = bool(equals)
    flag_or_none = known.get(name)
    if flag_or_none is None:
        raise _unknown(word)
    flag = flag_or_none
    if flag.kind == "bool":
        found[flag.name] = said != "false" if given else True
        return
    if not given:
        if not words:
            raise UsageError(
                f"flag needs an argument: {name}" if name.startswith("--") else f"flag needs an argument: '{name[1]}' in {name}"
            )
        said = words.pop(0)
    if flag.kind == "list":
        found[flag.name] = [*found[flag.name], said]
    elif flag.kind == "int":
        try:
            found[flag.name] = int(said)
        except ValueError as error:
            shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            raise UsageError(
                f'invalid argument "{said}" for "{shown}" flag: strconv.ParseInt: parsing "{said}": invalid syntax'
            ) from error
    else:
        found[flag.name] = said


def _unknown(word: str) -> UsageError:
    if word.startswith("--"):
        return UsageError(f"unknown flag: {word.partition('=')[0]}")
    return UsageError(f"unknown shorthand flag: '{word[1]}' in {word}")


def _count(command: Command, number: int) -> None:
    if command.most is not None and command.least == command.most and number != command.most:
        raise UsageError(f"accepts {command.most} arg(s), received {number}")
    if number < command.least:
        raise UsageError(f"requires at least {command.least} arg(s), only received {number}")
    if command.most is not None and number > command.most:
        raise UsageError(f"accepts at most {command.most} arg(s), received {number}")
