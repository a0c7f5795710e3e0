"""``jam attach`` in a real terminal: typed, streamed, folded, resized, interrupted, left, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit
from jamcore.domain import layout
from jamcore.testing.tmux import POLL_S, WAIT_S, Tmux

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = [pytest.mark.unprivileged, pytest.mark.needs("tmux")]

Attach = Callable[..., Tmux]
COLOURED = re.compile(r"\x1b\[[0-9;]*[39][0-7]m")
"""Any colour but the terminal's own."""


@pytest.fixture
def attach(home: Path) -> Iterator[Attach]:
    """Attach to a room in a terminal."""
    made: list[Tmux] = []

    with TemporaryDirectory(prefix="jam-t") as directory:

        def begin(room: str, *words: str, columns: int = 100, rows: int = 30, inside: str = "", **variables: str) -> Tmux:
            here = Path(directory) / str(len(made))
            here.mkdir()
            environment = {"JAM_HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": directory, **variables}
            if "PYTHONPATH" in os.environ:
                environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
            argv = (sys.executable, "-m", "jamcore.cli.main", "attach", room, *words)
            if inside:  # a shell's words around the command
                argv = ("/bin/sh", "-c", inside.format(" ".join(argv)))
            made.append(Tmux(here, argv, environment=environment, columns=columns, rows=rows).__enter__())
            return made[-1]

        yield begin
        for each in made:
            each.__exit__(None, None, None)


def last_lines(terminal: Tmux, count: int) -> list[str]:
    """Return the last lines that are not empty."""
    return [line.rstrip() for line in terminal.screen(history=False).splitlines() if line.strip()][-count:]


def settles(terminal: Tmux, typed: str, status: str = "") -> None:
    """Wait until the line to type in holds a text, with the status below it, and each is there once."""
    deadline = time.monotonic() + WAIT_S
    while True:
        shown = last_lines(terminal, 100)
        if [typed] == shown[-2:-1] and shown[-1].startswith(status) and (typed == ">" or shown.count(typed) == 1):
            return
        assert time.monotonic() < deadline, "\n".join(shown)
        time.sleep(POLL_S)


def test_a_turn_as_a_person_sees_it(attach: Attach, room: str) -> None:
    """How the conversation stands, the message, the answer, the work on one line each, and at the bottom the status."""
    terminal = attach(room)
    terminal.expect("Resumed exactly (generation 2: restored from it).")
    terminal.expect(f"{room} · idle · codex in bubblewrap (isolation namespace) · generation 2")
    terminal.type("hello")
    shown = terminal.expect("src/app.py")
    body = shown[shown.index("> hello") :].splitlines()
    assert [line.rstrip() for line in body[:6]] == [
        "> hello",
        "echo: hello",
        "✗ $ ls -l   exit status 1   40 lines   /show 1",
        "✓ ~ src/app.py   +1 -1",
        "  -a",
        "  +b",
    ]
    settles(terminal, ">", f"{room} · idle")
    terminal.type("/show 1")
    terminal.expect("  line 39")
    assert "\x1b[32m  +b" in terminal.screen(colours=True)
    terminal.type("/quit")
    assert terminal.status() == Exit.OK
    assert "Left; the room goes on" in terminal.screen()


def test_what_is_typed_stays_while_an_answer_streams(attach: Attach, room: str, jam: Jam) -> None:
    """Somebody else's turn is shown above the line; what was being typed is neither lost nor mixed with it."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.type("half a message", enter=False)
    terminal.expect("> half a message")
    assert jam("say", room, "wait", "--detach").status == Exit.OK
    terminal.expect("echo: wait")
    terminal.expect("· working")
    settles(terminal, "> half a message", f"{room} · working")
    assert jam("room", "interrupt", room).status == Exit.OK
    terminal.expect("the turn was interrupted")
    terminal.type(" and the rest")
    terminal.expect("echo: half a message and the rest")


def test_lines_are_edited_and_remembered(attach: Attach, room: str, home: Path, jam: Jam) -> None:
    """Editing keys, several lines in one message, and the history of the room the next time too."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.type("second\\")
    terminal.type("third", enter=False)
    terminal.keys("Up", "Home")
    terminal.type("first ", enter=False)
    terminal.keys("M-Enter", "Down", "End", "Enter")
    terminal.expect("echo: first")
    terminal.keys("C-d")
    assert terminal.status() == Exit.OK
    said = jam("room", "show", room, "--json").json["turns"][-1]["text"]
    assert said == "first \nsecond\nthird"
    again = attach(room)
    again.expect("· idle ·")
    again.keys("Up")
    again.expect("third")
    again.keys("C-c")
    again.type("/quit")
    assert again.status() == Exit.OK
    identifier = jam("room", "show", room, "--json").json["room"]["room"]["id"]
    assert (home / layout.TYPED / f"{identifier}.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_resize_draws_anew(attach: Attach, room: str) -> None:
    """Narrower and wider: the line to type in and the status stand at the bottom, once each."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.expect("Resumed exactly")
    terminal.type("something that is being typed", enter=False)
    terminal.expect("something that is being typed")
    typed = "> something that is being typed"
    for columns, rows in ((50, 12), (160, 50), (60, 15)):
        terminal.resize(columns, rows)
        terminal.type("!", enter=False)
        typed += "!"
        settles(terminal, typed, f"{room} · idle"[:columns])
    terminal.keys("C-c")
    terminal.type("hello")
    terminal.expect("echo: hello")


def test_ctrl_c_interrupts_the_turn_then_leaves(attach: Attach, room: str, jam: Jam) -> None:
    """With a turn it interrupts; with a text it throws that away; with neither it leaves."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.type("wait")
    terminal.expect("· working")
    terminal.type("typed meanwhile", enter=False)
    terminal.keys("C-c")
    terminal.expect("the turn was interrupted")
    terminal.expect("· idle ·")
    terminal.expect("> typed meanwhile")
    terminal.keys("C-c")
    settles(terminal, ">", f"{room} · idle")
    terminal.keys("C-c")
    assert terminal.status() == Exit.INTERRUPTED
    assert jam("room", "show", room, "--json").json["turns"][-1]["state"] == "interrupted"


def test_a_second_ctrl_c_leaves_the_turn_alone(attach: Attach, room: str, jam: Jam) -> None:
    """A turn that does not stop keeps nobody; it goes on, and how to come back is said."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.type("stubborn")
    terminal.expect("· working")
    terminal.keys("C-c")
    terminal.expect("Ctrl-C again leaves")
    terminal.keys("C-c")
    assert terminal.status() == Exit.INTERRUPTED
    assert f"Come back with: jam attach {room}" in terminal.screen()
    assert jam("room", "show", room, "--json").json["turns"][-1]["state"] == "running"


def test_a_question_is_answered_on_the_spot(attach: Attach, room: str) -> None:
    """The prompt and the status say that something waits for the person."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.type("ask")
    terminal.expect("waits for your answer")
    terminal.expect("allow? >")
    terminal.type("n")
    terminal.expect("denied (by a person)")
    terminal.expect("· idle ·")


def test_rooms_are_stopped_and_changes_are_made_from_within(attach: Attach, room: str) -> None:
    """Without leaving; an error of the daemon is said and nothing is lost."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.type("/change")
    terminal.expect("Accept it: jam change accept")
    terminal.type("/stop")
    terminal.expect("A message brings the room back.")
    terminal.type("/show 99")
    terminal.expect("There is nothing of that number to show.")
    terminal.type("/nonsense")
    terminal.expect("/interrupt", times=2)


@pytest.mark.guarantee("SEC-3")
def test_nothing_foreign_steers_the_screen(attach: Attach, room: str, jam: Jam) -> None:
    """An answer full of control sequences is text, in the line that grows and above it; so is what a person pasted."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    terminal.type("evil")
    terminal.expect("\\x1b")
    terminal.expect("· idle ·")
    settles(terminal, ">", f"{room} · idle")
    assert jam("room", "show", room, "--json").json["turns"][-1]["text"] == "evil"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_as_before_whatever_ends_it(attach: Attach, room: str, ending: signal.Signals) -> None:
    """A signal from outside ends it as the person would have: the terminal is given back, and how to come back is said."""
    terminal = attach(room)
    terminal.expect("· idle ·")
    os.kill(terminal.pid, ending)
    assert terminal.status() == Exit.INTERRUPTED
    assert "Left; the room goes on" in terminal.screen()


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": ""}], ids=["dumb", "none"])
def test_a_terminal_that_cannot_be_drawn_on_gets_lines(attach: Attach, room: str, variables: dict[str, str]) -> None:
    """Lines in, lines out, no status line, and nothing but text."""
    terminal = attach(room, **variables)
    terminal.expect("/help")
    terminal.type("hello")
    terminal.expect("echo: hello")
    assert "· idle ·" not in terminal.screen()
    terminal.type("/quit")
    assert terminal.status() == Exit.OK


def test_no_colour_where_none_is_wanted(attach: Attach, room: str) -> None:
    """NO_COLOR holds above the line and below it."""
    terminal = attach(room, NO_COLOR="1")
    terminal.type("hello")
    terminal.expect("src/app.py")
    assert not COLOURED.search(terminal.screen(colours=True))


@pytest.mark.parametrize("keys", [("/quit", "Enter"), ("C-d",), ("C-c",)], ids=["quit", "ctrl-d", "ctrl-c"])
def test_the_terminal_is_given_back(attach: Attach, room: str, keys: tuple[str, ...]) -> None:
    """Its modes afterwards are those of before, however a person leaves."""
    terminal = attach(room, inside="stty -a; {}; stty -a; echo over")
    terminal.expect("Resumed exactly")
    terminal.keys(*keys)
    before, after = terminal.expect("over").split("Left; the room goes on")
    modes = before[: before.index(f"{room}:")].split()
    assert "icanon" in modes
    assert after[after.index("speed") : after.index("over")].split() == modes


def test_it_can_be_suspended(attach: Attach, room: str) -> None:
    """Ctrl-Z gives the terminal to the shell; back again, what was typed is still there."""
    terminal = attach(room, inside="set -m; {}; echo in the shell; fg; echo over")
    terminal.expect("Resumed exactly")
    terminal.type("typed before", enter=False)
    terminal.expect("> typed before")
    terminal.keys("C-z")
    terminal.expect("in the shell")
    terminal.expect("> typed before")
    terminal.type(" and after")
    terminal.expect("echo: typed before and after")
    terminal.type("/quit")
    terminal.expect("over")


def test_a_terminal_that_goes_away_ends_it(attach: Attach, room: str) -> None:
    """No process is left that reads from nowhere."""
    terminal = attach(room)
    terminal.expect("Resumed exactly")
    descriptor = os.pidfd_open(terminal.pid)
    try:
        terminal.__exit__(None, None, None)
        assert select.select([descriptor], [], [], WAIT_S)[0]
    finally:
        os.close(descriptor)
