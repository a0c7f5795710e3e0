"""``jam`` itself: help, spelling, and how little it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from jamcore.cli.exits import MEANING, Exit
from jamcore.cli.main import run
from jamcore.cli.table import COMMANDS, Command

ROOT = Path(__file__).parents[3]
COMMAND_FILES = sorted(Path(import_module("jamcore.cli.commands").__file__ or "").parent.glob("[!_]*.py"))


def imported(*words: str) -> set[str]:
    """Return the modules that a command line imports."""
    program = f"import sys\nfrom jamcore.cli.main import run\nrun({list(words)!r})\nprint('|'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.strip().splitlines()[-1].split("|"))


def test_help_imports_next_to_nothing() -> None:
    """No store, no server, no client, no validation, no typer: help is as quick as Python itself."""
    for words in ((), ("--help",), ("room",)):
        heavy = {"sqlalchemy", "aiohttp", "aiohttp.web", "pydantic", "anyio", "asyncio", "typer", "rich", "jamcore.control"}
        assert not imported(*words) & heavy


@pytest.mark.parametrize("words", [("ls", "--help"), ("run", "--help")])
def test_the_help_of_a_command_imports_neither_store_nor_server(words: tuple[str, ...]) -> None:
    """Nor anything else of the daemon's side."""
    modules = imported(*words)
    assert not modules & {"sqlalchemy", "aiohttp", "alembic", "pluggy", "pydantic_settings"}
    assert not [
        name for name in modules if name.startswith(("jamcore.daemon", "jamcore.store", "jamcore.engines", "jamcore.plugins"))
    ]


def test_root_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its line; other spellings are left out."""
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert (f"  {command.name} " in shown and command.summary in shown) is command.listed


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A help text of its own, an explanation of every option, and --json."""
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*command.path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: jam {command.name}" in shown
    assert "--json" in shown
    assert ("--app-directory" in shown) is (command.module not in {"demo", "plugin_new", "plugin_check"})
    function = import_module(f"jamcore.cli.commands.{command.module}").command
    for name, parameter in signature(function, eval_str=True).parameters.items():
        assert [each for each in parameter.annotation.__metadata__ if each.help], name
    assert function.__doc__


def test_a_file_is_one_command() -> None:
    """Every file of the folder is in the table, and none is longer than 150 lines."""
    assert {path.stem for path in COMMAND_FILES} == {command.module for command in COMMANDS}
    assert [path.name for path in COMMAND_FILES if len(path.read_text().splitlines()) > 150] == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["rum"], "did you mean `jam run`"),
        (["room", "atach"], "did you mean `jam room attach`"),
        (["xyzzy"], "`jam --help`"),
        (["\x1b[2J"], "`jam --help`"),
    ],
)
def test_a_misspelt_command_is_a_usage_error(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what may have been meant, and nothing of it unescaped."""
    assert run(words) == Exit.USAGE
    shown = capsys.readouterr().err
    assert hint in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "words", [["run"], ["run", "codex"], ["ls", "--nonsense"], ["room", "new", "codex", "--placement", "everywhere"]]
)
def test_a_wrong_command_line_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is asked of the daemon; none runs here."""
    assert run(words) == Exit.USAGE
    assert "Usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "--json"], "usage.wrong"),
        (["ls", "--nonsense", "--json"], "usage.wrong"),
        (["room", "new", "codex", "--json", "--placement", "\x1b[2J"], "usage.wrong"),
        (["rum", "--json"], "usage.unknown_command"),
        (["room", "--json"], "usage.unknown_command"),
        (["--json"], "usage.unknown_command"),
    ],
)
def test_a_program_gets_a_usage_error_as_json(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output like every other error, with nothing beside it; the status says the same as to a person."""
    assert run(words) == Exit.USAGE
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (set(error), error["code"], err) == ({"code", "message", "context", "hint"}, code, "")
    assert error["message"]
    assert out.isascii()
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ["--json", "workspace"],
            "options follow the command: `jam workspace COMMAND --json`; `jam workspace --help` lists the commands",
        ),
        (["--json", "workspace", "archive", "room"], "options follow the command: `jam workspace archive --json`"),
        (["--json", "ls"], "options follow the command: `jam ls --json`"),
        (["--json"], "options follow the command: `jam COMMAND --json`; `jam --help` lists the commands"),
        (["workspace", "--json"], "`jam workspace --help` lists them"),
        (["workspace", "nothing", "--json"], "`jam workspace --help` lists the commands"),
        (["workspace", "archiv", "--json"], "did you mean `jam workspace archive`?"),
    ],
)
def test_who_types_no_command_is_told_what_to_type(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option before the command, a group by itself, a word that is none of its commands: each by its own hint."""
    assert run(words) == Exit.USAGE
    assert json.loads(capsys.readouterr().out)["error"]["hint"] == hint


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """On one line."""
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("jam ")


def test_the_documentation_repeats_the_tables() -> None:
    """docs/cli.md has every command and every exit status with its meaning, word for word."""
    text = (ROOT / "docs" / "cli.md").read_text()
    for command in COMMANDS:
        assert f"`jam {command.name}" in text
    assert set(MEANING) == set(Exit)
    for status, meaning in MEANING.items():
        assert f"| {int(status)} | {meaning} |" in text
