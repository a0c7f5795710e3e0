"""``jam`` as a program: pipes, terminals and Ctrl-C."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam
from jamcore.testing.jam_program import WAIT_S, Terminal, program

pytestmark = pytest.mark.unprivileged

SGR = re.compile(r"\x1b\[[0-9;]*m|\x1b\[K|\x1b\[\?25[lh]")
"""What Jam itself sends to a terminal: colours, and the erasing of its own progress line."""
EVIL_NAME = "\x1b]0;owned\x07\x1b[2J\u202eevil\x9b"


def harmless(shown: str) -> bool:
    """Whether nothing but colours, line ends and tabs could steer a terminal."""
    return not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", SGR.sub("", shown))


@pytest.mark.guarantee("SEC-3")
def test_nothing_foreign_steers_a_terminal(home: Path, jam: Jam, terminal: Callable[..., Terminal]) -> None:
    """An evil room name, answer and patch: on a pipe and on a terminal with colours, in every command that shows them."""
    assert jam("room", "new", "codex", "--name", EVIL_NAME).status == 0
    identifier = jam("ls", "--json").json[0]["room"]["id"]
    change = jam("change", "new", identifier, "--json").json["id"]
    for words in (
        ("ls",),
        ("room", "show", identifier),
        ("say", identifier, "evil"),
        ("session", "inspect", identifier),
        ("room", "stop", identifier),
        ("room", "resume", identifier),
        ("change", "show", change),
        ("run", EVIL_NAME, "x"),
    ):
        done = program(home, *words)
        assert harmless(done.out + done.err), words
        as_json = program(home, *words, "--json")
        assert as_json.out.isascii(), words
        assert harmless(as_json.out), words
        shown = terminal(*words)
        shown.end()
        assert "\\x1b" in shown.shown or "\\u202e" in shown.shown, words
        assert harmless(shown.shown.replace("\r", "")), words


def test_a_terminal_gets_headings_and_a_pipe_gets_cells(home: Path, room: str, terminal: Callable[..., Terminal]) -> None:
    """Aligned with a heading for people; tab-separated, without, for programs; NO_COLOR is respected."""
    shown = terminal("ls", COLUMNS="200")
    shown.expect("LAST MESSAGE")
    shown.expect(room)
    assert shown.end() == 0
    plain = terminal("doctor", NO_COLOR="1")
    assert plain.end() == Exit.NOT_WELL
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain.shown)
    assert "LAST MESSAGE" not in program(home, "ls").out


def test_a_reader_that_has_seen_enough_is_no_error(home: Path, room: str) -> None:
    """`jam ls | head` ends quietly."""
    del room
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "jamcore.cli.main", "ls"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, "JAM_HOME": str(home)},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [("ls",), ("ls", "--json"), ("say", "ROOM", "hi"), ("--help",), ("ls", "--help")])
def test_a_full_disk_is_said_in_one_line(home: Path, room: str, words: tuple[str, ...]) -> None:
    """No traceback, and status 4; also when the line itself cannot be written."""
    command = [sys.executable, "-m", "jamcore.cli.main", *(room if word == "ROOM" else word for word in words)]
    environ = {**os.environ, "JAM_HOME": str(home)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environ)
        assert done.returncode == Exit.FAULT
        assert done.stderr.splitlines()[-1] == "jam: the output cannot be written: No space left on device (output.failed)"
        assert "Traceback" not in done.stderr
        assert subprocess.run(command, stdout=full, stderr=full, check=False, env=environ).returncode == Exit.FAULT


def test_closed_streams_are_no_crash(home: Path, room: str) -> None:
    """`jam ls >&-`: nothing is printed anywhere, above all not on the connection to the daemon."""
    del room
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -m jamcore.cli.main ls <&- >&- 2>&-', sys.executable],
        check=False,
        env={**os.environ, "JAM_HOME": str(home)},
    )
    assert done.returncode == Exit.OK


def test_a_terminal_without_unicode_shows_escapes(home: Path, room: str) -> None:
    """Never a crash for a letter."""
    said = program(home, "say", room, "né", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert said.out == "echo: n\\xe9\n"
    assert said.status == 0


def test_ctrl_c_interrupts_the_turn(room: str, jam: Jam, terminal: Callable[..., Terminal]) -> None:
    """The first one reaches the turn in the daemon; the command ends with it."""
    shown = terminal("say", room, "wait")
    shown.expect("echo: wait")
    shown.press("\x03")
    shown.expect("Interrupting the turn")
    shown.expect("the turn was interrupted")
    assert shown.end() == Exit.INTERRUPTED
    assert jam("room", "show", room, "--json").json["turns"][0]["state"] == "interrupted"


def test_a_second_ctrl_c_detaches(room: str, jam: Jam, terminal: Callable[..., Terminal]) -> None:
    """The work goes on, and how to come back is said."""
    shown = terminal("say", room, "stubborn")
    shown.expect("echo: stubborn")
    shown.press("\x03")
    shown.expect("Ctrl-C again detaches")
    shown.press("\x03")
    shown.expect(f"Come back with: jam attach {room}")
    assert shown.end() == Exit.INTERRUPTED
    assert jam("room", "show", room, "--json").json["turns"][0]["state"] == "running"


def test_another_turns_answer_is_not_shown_as_this_ones(home: Path, room: str, jam: Jam) -> None:
    """It is said that the turn waits; the answer on standard output is its own; the room shows both."""
    assert jam("say", room, "late", "--detach").status == Exit.OK
    saying = subprocess.Popen(
        [sys.executable, "-m", "jamcore.cli.main", "say", room, "mine"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAM_HOME": str(home)},
    )
    assert saying.stderr is not None
    assert saying.stderr.readline() == "waiting for the running turn (Ctrl-C detaches)\n"
    assert jam("room", "interrupt", room).status == Exit.OK
    out, _ = saying.communicate(timeout=WAIT_S)
    assert (out, saying.returncode) == ("echo: mine\n", Exit.OK)


def test_ctrl_c_while_a_turn_waits_leaves_the_other_one_alone(room: str, jam: Jam, terminal: Callable[..., Terminal]) -> None:
    """It detaches: the turn that runs may be somebody else's."""
    assert jam("say", room, "late", "--detach").status == Exit.OK
    shown = terminal("say", room, "mine")
    shown.expect("waiting for the running turn")
    shown.expect("working")
    shown.press("\x03")
    shown.expect("Detached; the work goes on")
    assert shown.end() == Exit.INTERRUPTED
    assert [turn["state"] for turn in jam("room", "show", room, "--json").json["turns"]] == ["running", "accepted"]


def test_progress_is_shown_on_a_terminal_and_erased(room: str, terminal: Callable[..., Terminal]) -> None:
    """A line that moves while a turn runs, and that is erased before anything else is shown."""
    shown = terminal("say", room, "quiet")
    shown.expect("working (Ctrl-C interrupts) 0 s")
    shown.press("\x03")
    shown.expect("\r\x1b[K")
    shown.expect("the turn was interrupted")
    assert shown.end() == Exit.INTERRUPTED


def test_watching_reads_nothing(home: Path, room: str, terminal: Callable[..., Terminal]) -> None:
    """With --watch the end of the input does not end it, and Ctrl-C leaves."""
    shown = terminal("room", "attach", room, "--watch")
    shown.expect("codex in bubblewrap")
    shown.press("\x04")
    program(home, "say", room, "hi")
    shown.expect("echo: hi")
    shown.press("\x03")
    assert shown.end() == Exit.INTERRUPTED


def test_a_run_can_be_left_and_watched_again(terminal: Callable[..., Terminal]) -> None:
    """Detaching names the room, and attaching shows what was missed."""
    shown = terminal("run", "codex", "stubborn")
    shown.expect("echo: stubborn")
    shown.press("\x03")
    shown.expect("Ctrl-C again detaches")
    shown.press("\x03")
    shown.expect("jam attach ")
    assert shown.end() == Exit.INTERRUPTED
    again = terminal("attach", re.split(r"[\r\n\x1b]", shown.shown)[0])
    again.expect("echo: stubborn")
    again.press("/quit\n")
    assert again.end() == Exit.OK


def test_a_person_talks_in_a_room(room: str, terminal: Callable[..., Terminal]) -> None:
    """Lines are messages, answers appear live, Ctrl-D leaves."""
    shown = terminal("attach", room)
    shown.expect("/help")
    shown.press("hello\\\n")
    shown.press("again\n")
    shown.expect("echo: hello")
    shown.expect("again")
    shown.press("/nonsense\n")
    shown.expect("There is no command /nonsense, and nothing was said to the agent.")
    shown.expect("/interrupt")
    shown.press("\x04")
    shown.expect("Left; the room goes on")
    assert shown.end() == Exit.OK


def test_ctrl_d_while_something_is_printed_leaves_too(room: str, terminal: Callable[..., Terminal]) -> None:
    """What the terminal's driver makes of it in that moment is taken for what was pressed."""
    shown = terminal("attach", room)
    shown.expect("/help")
    shown.press("\0")
    shown.expect("Left; the room goes on")
    assert shown.end() == Exit.OK


def test_ctrl_c_in_a_room(room: str, terminal: Callable[..., Terminal]) -> None:
    """It interrupts the turn that runs, and leaves when none runs."""
    shown = terminal("attach", room)
    shown.expect("/help")
    shown.press("wait\n")
    shown.expect("echo: wait")
    shown.press("\x03")
    shown.expect("the turn was interrupted")
    shown.press("\x03")
    shown.expect("Left; the room goes on")
    assert shown.end() == Exit.INTERRUPTED


def test_messages_can_be_piped_into_a_room(home: Path, room: str) -> None:
    """All of them are answered before it leaves."""
    done = program(home, "attach", room, stdin=b"one\ntwo\n")
    assert done.out == "echo: one\necho: two\n"
    assert done.status == 0


def test_a_pipe_is_told_how_its_messages_ended(home: Path, room: str) -> None:
    """A turn that failed is a status of its own; as JSON each event is a line, and nothing else is."""
    assert program(home, "attach", room, stdin=b"one\nfail\n").status == Exit.NOT_WELL
    done = program(home, "attach", room, "--history", "0", "--json", stdin=b"two\n")
    assert done.status == Exit.OK
    assert [set(line) for line in done.lines] == [{"event"}] * len(done.lines)
    assert done.err == ""


def test_how_a_conversation_stands_is_said_on_a_pipe_too(home: Path, room: str) -> None:
    """Beside the result; an input without a line shows the past and ends."""
    assert program(home, "say", room, "earlier").status == Exit.OK
    done = program(home, "attach", room)
    assert "Resumed exactly (generation 2: restored from it)." in done.err
    assert done.out == "echo: earlier\n"


def test_a_pipe_loads_nothing_that_draws(home: Path, room: str) -> None:
    """What draws a terminal costs a tenth of a second, and only a terminal that is talked at needs it."""
    code = (
        "import sys; from jamcore.cli.main import run; run(sys.argv[1:]); "
        "print(sorted({'prompt_toolkit', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "attach", room],
        env={**os.environ, "JAM_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "prompt_toolkit" not in done.stderr.splitlines()[-1]


def test_notices_are_sentences(home: Path, room: str, jam: Jam) -> None:
    """A killed command is killed; why a room is parked is said once, with what brings it back, and only while it is parked."""
    parked = jam("say", room, "parked")
    assert parked.status == Exit.NOT_WELL
    assert f"the room is parked: say something, or `jam room resume {room}`, to bring it back" in parked.err
    assert jam("room", "resume", room).status == Exit.OK
    shown = program(home, "attach", room, stdin=b"killed\n").err
    assert "  killed\n" in shown
    assert "exit status -1" not in shown
    assert shown.count("exit status 137") == 1
    assert "the room was parked\n" in shown
    assert "bring it back" not in shown
    assert "sandbox jam-x is running" in shown


def test_the_current_directory_is_never_imported(home: Path, tmp_path: Path) -> None:
    """Neither the daemon nor the demo runs a module of the directory that a person stands in."""
    (tmp_path / "jamcore").mkdir()
    (tmp_path / "jamcore" / "__init__.py").write_text("raise SystemExit('owned')")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jamcore.cli.main", "ls"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAM_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["ls"], ["room", "ls", "--json"]])
def test_a_list_needs_neither_records_nor_an_event_loop(home: Path, words: list[str]) -> None:
    """What it does not import is what makes it quick; a daemon that runs answers it over a plain socket."""
    code = (
        "import sys; from jamcore.cli.main import run; status = run(sys.argv[1:]); "
        "print(sorted({'typer', 'pydantic', 'asyncio', 'anyio', 'rich'} & set(sys.modules)), file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        env={**os.environ, "JAM_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.stdout == program(home, *words, "--app-directory", str(home)).out, "the way with typer prints the same"


def test_a_log_that_is_renamed_is_followed(home: Path, terminal: Callable[..., Terminal]) -> None:
    """It waits for a log that is not there yet, and goes on in the new file when a full one is renamed."""
    log = home / "jamd.log"
    log.unlink(missing_ok=True)
    shown = terminal("daemon", "logs", "--follow")
    shown.expect("There is no log yet")
    log.write_text("first\n")
    shown.expect("first")
    log.rename(home / "jamd.log.1")
    log.write_text("second\n")
    shown.expect("second")
    with log.open("a") as stream:
        stream.write("third\n")
    shown.expect("third")
    shown.press("\x03")
    assert shown.end() == Exit.INTERRUPTED
    log.unlink()
