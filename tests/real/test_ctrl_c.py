"""Ctrl-C at every stage of every command, typed in a real terminal: `jam ls` explains what is left, and `jam resume` goes on.

Each stage is held where it is, by a model that waits, a program that does not answer, or a daemon that is stopped, so that the key comes
exactly then. Afterwards nothing of the command runs on (``nothing_is_left``), and the room talks.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from anyio import to_thread

from jamcore.cli.exits import Exit
from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalPolicy, ApprovalState
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, until
from jamcore.testing.rooms import cloned, managed, running
from jamcore.testing.servers.responses import Hold, Match, ResponsesServer, Rule, Script, Text, say
from jamcore.testing.tmux import Tmux

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap", "tmux"),
    pytest.mark.slow,
]

PROVIDER = "codex"
GATE = "held"
Begin = Callable[..., Tmux]


@pytest.fixture(autouse=True)
def nothing_is_left(no_leaks: None) -> None:
    """Fail a test after which any process of it is still there."""


@pytest.fixture
async def model() -> AsyncIterator[ResponsesServer]:
    """A model that stops in the middle of an answer when it is told to wait, and writes a file when it is told to write."""
    waiting = Rule(match=Match(last_user_contains="wait"), answer=(Text(deltas=("Half", " done."), hold=Hold(gate=GATE, after=1)),))
    write = running("printf 'made\\n' > made.txt", said="write")
    async with ResponsesServer(Script(rules=(waiting, *write, say("Hello ", "there.")))) as server:
        yield server


@pytest.fixture
def begin(app: Path, tmp_path: Path) -> Iterator[Begin]:
    """Type a command into a terminal of its own."""
    made: list[Tmux] = []
    places = {"XDG_RUNTIME_DIR": tmp_path / "r", "TMPDIR": tmp_path / "t"}
    for place in places.values():
        place.mkdir(mode=0o700)
    with TemporaryDirectory(prefix="jam-t") as short:

        def start(*words: str, **variables: str) -> Tmux:
            here = Path(short) / str(len(made))
            here.mkdir()
            environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
            environment |= {"JAM_HOME": str(app), "LANG": "C.UTF-8", **{name: str(place) for name, place in places.items()}}
            made.append(Tmux(here, (sys.executable, "-m", "jamcore.cli.main", *words), environment={**environment, **variables}))
            return made[-1].__enter__()

        yield start
        for each in made:
            each.__exit__(None, None, None)


async def shown(terminal: Tmux, text: str) -> str:
    """Wait for a text without keeping this process's servers from working."""
    return await to_thread.run_sync(terminal.expect, text)


async def ended(terminal: Tmux) -> int:
    """Wait for a command's end."""
    return await to_thread.run_sync(terminal.status)


async def jam(app: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command on pipes to its end."""

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "jamcore.cli.main", *words, "--app-directory", str(app)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return await to_thread.run_sync(run)


async def goes_on(app: Path, room: str) -> None:
    """Require that the room is listed with what it is doing, comes back, and answers."""
    listed = await jam(app, "ls")
    assert listed.returncode == Exit.OK
    [row] = [line.split("\t") for line in listed.stdout.splitlines() if room in line.split("\t")]
    assert {"live", "working", "parked"} & set(row), row
    resumed = await jam(app, "resume", room)
    assert resumed.returncode == Exit.OK, resumed.stderr
    answered = await jam(app, "say", room, "hello")
    assert (answered.returncode, answered.stdout) == (Exit.OK, "Hello there.\n"), answered.stderr


@contextmanager
def frozen(daemon: DaemonChild) -> Iterator[None]:
    """Stop the daemon where it is; it goes on after the block."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


@contextmanager
def silent_program(app: Path) -> Iterator[Callable[[], bool]]:
    """Have the agent's program say nothing until the block ends; yield whether it was started."""
    place = next((app / layout.TOOLCHAINS).glob("*/*/**/bin/codex"))
    place.rename(place.with_name("real"))
    place.write_text(
        '#!/bin/sh\ntouch "$HOME/hangs"; while [ -e "$HOME/hangs" ]; do sleep 0.05; done; exec "$(dirname "$0")/real" "$@"\n'
    )
    place.chmod(0o755)

    def hanging() -> list[Path]:
        return list((app / layout.HOSTS).glob("*/guest-disk/home/hangs"))

    try:
        yield lambda: bool(hanging())
    finally:
        place.with_name("again").hardlink_to(place.with_name("real"))  # the script still runs the other name
        place.with_name("again").replace(place)
        for mark in hanging():
            mark.unlink()


@pytest.fixture
async def room(client: JamClient, model: ResponsesServer) -> RoomView:
    """A room that has a conversation."""
    return await client.create_room(managed(PROVIDER, model.base_url, name="talk"))


@pytest.mark.parametrize("words", [("daemon", "start"), ("doctor",), ("provider", "ls"), ("room", "new", PROVIDER)])
async def test_while_the_daemon_starts(app: Path, begin: Begin, words: tuple[str, ...]) -> None:
    """The start goes on by itself or never began; the next command finds the daemon or starts it, and there is one."""
    terminal = begin(*words)
    await shown(terminal, "starting the daemon")
    terminal.keys("C-c")
    assert await ended(terminal) == Exit.INTERRUPTED
    assert "Traceback" not in terminal.screen()
    # The next command is begun in the same places, for it may be the one that starts the daemon.
    again = begin("daemon", "start")
    await shown(again, "The daemon runs")
    assert (await jam(app, "ls")).returncode == Exit.OK
    assert (await jam(app, "daemon", "stop")).returncode == Exit.OK


@pytest.mark.guarantee("CTRL-4")
async def test_while_a_room_is_made(client: JamClient, app: Path, begin: Begin, model: ResponsesServer) -> None:
    """The first one says that the sandbox is starting, the second leaves; the room is made, and listed meanwhile."""
    with silent_program(app) as hangs:
        terminal = begin("room", "new", PROVIDER, "--name", "talk", "--endpoint", model.base_url)
        await until("the program was started", hangs)
        terminal.keys("C-c")
        await shown(terminal, "The sandbox is still starting. Ctrl-C again leaves")
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED
        assert "the room is still being made: jam room show" in terminal.screen()
        assert "talk" in (await jam(app, "ls")).stdout
    await goes_on(app, "talk")
    assert len(await client.rooms()) == 1


@pytest.mark.guarantee("CTRL-4")
async def test_while_a_run_starts(client: JamClient, app: Path, begin: Begin, model: ResponsesServer) -> None:
    """Detached: the run goes on to its change request."""
    with silent_program(app) as hangs:
        terminal = begin("run", PROVIDER, "write it", "--endpoint", model.base_url)
        await until("the program was started", hangs)
        terminal.keys("C-c")
        await shown(terminal, "Ctrl-C again detaches")
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED
        assert "the run goes on: jam attach" in terminal.screen()
    with anyio.fail_after(60):
        while not await client.changes():  # noqa: ASYNC110 - the daemon's answer, not an event of this process
            await anyio.sleep(0.1)
    [view] = await client.rooms()
    await goes_on(app, view.room.name)


@pytest.mark.parametrize("words", [("resume", "talk"), ("say", "talk", "hello")], ids=["resume", "say"])
async def test_while_a_room_comes_up(client: JamClient, app: Path, begin: Begin, room: RoomView, words: tuple[str, ...]) -> None:
    """The room comes up all the same, once: whoever asks for it next waits for that."""
    del room
    assert (await jam(app, "stop", "talk")).returncode == Exit.OK
    with silent_program(app) as hangs:
        terminal = begin(*words)
        await until("the program was started", hangs)
        terminal.keys("C-c")
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED
        assert "Traceback" not in terminal.screen()
        assert "talk" in (await jam(app, "ls")).stdout
    await goes_on(app, "talk")
    assert len(await client.rooms()) == 1


@pytest.mark.parametrize("words", [("say", "talk", "wait"), ("attach", "talk")], ids=["say", "attach"])
async def test_in_the_middle_of_a_turn(client: JamClient, app: Path, begin: Begin, room: RoomView, words: tuple[str, ...]) -> None:
    """The turn is interrupted in the agent itself, and said to be; the conversation goes on."""
    terminal = begin(*words)
    if "attach" in words:
        await shown(terminal, "· idle ·")
        terminal.type("wait")
    await shown(terminal, "Half")
    terminal.keys("C-c")
    await shown(terminal, "the turn was interrupted")
    if "attach" in words:
        await shown(terminal, "· idle ·")
        terminal.keys("C-c")
    assert await ended(terminal) == Exit.INTERRUPTED
    assert [turn.state for turn in await client.turns(str(room.room.id))] == [TurnState.INTERRUPTED]
    await goes_on(app, "talk")


@pytest.mark.parametrize("words", [("say", "talk", "wait"), ("attach", "talk")], ids=["say", "attach"])
async def test_twice_in_the_middle_of_a_turn(
    client: JamClient, daemon: DaemonChild, app: Path, begin: Begin, room: RoomView, words: tuple[str, ...]
) -> None:
    """The second leaves at once, whatever the interruption is waiting for."""
    terminal = begin(*words)
    if "attach" in words:
        await shown(terminal, "· idle ·")
        terminal.type("wait")
    await shown(terminal, "Half")
    with frozen(daemon):
        terminal.keys("C-c")
        if "say" in words:  # a signal, unlike a key: two that come before the first is taken are one
            await shown(terminal, "Ctrl-C again detaches")
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED
    assert "Come back with: jam attach talk" in terminal.screen()
    assert (await jam(app, "room", "interrupt", "talk")).returncode == Exit.OK
    await goes_on(app, "talk")
    assert (await client.turns(str(room.room.id)))[0].state is TurnState.INTERRUPTED


async def test_while_a_question_waits(client: JamClient, app: Path, begin: Begin, model: ResponsesServer) -> None:
    """The turn ends, the question with it, and what was asked for is not done."""
    view = await client.create_room(managed(PROVIDER, model.base_url, name="talk", approvals=ApprovalPolicy.ASK))
    terminal = begin("say", "talk", "write it")
    await shown(terminal, "asks for permission")
    terminal.keys("C-c")
    assert await ended(terminal) == Exit.INTERRUPTED
    [asked] = await client.approvals.list(room="talk")
    assert asked.state is ApprovalState.EXPIRED
    assert not (app / layout.session_workspace(view.host.id, view.session.id) / "made.txt").exists()
    await goes_on(app, "talk")


async def test_while_a_message_waits(client: JamClient, app: Path, begin: Begin, room: RoomView, model: ResponsesServer) -> None:
    """Detached: neither the turn that runs nor the message that waits is touched."""
    first = begin("say", "talk", "wait")
    await shown(first, "Half")
    second = begin("say", "talk", "hello")
    await shown(second, "waiting for the running turn")
    second.keys("C-c")
    assert await ended(second) == Exit.INTERRUPTED, second.screen()
    model.release(GATE)
    assert await ended(first) == Exit.OK
    await goes_on(app, "talk")
    assert {turn.state for turn in await client.turns(str(room.room.id))} == {TurnState.CAPTURED}


async def test_in_an_idle_room(app: Path, begin: Begin, room: RoomView) -> None:
    """It leaves, and the room is as it was."""
    del room
    terminal = begin("attach", "talk")
    await shown(terminal, "· idle ·")
    terminal.keys("C-c")
    assert await ended(terminal) == Exit.INTERRUPTED
    await goes_on(app, "talk")


async def test_how_the_conversation_stands_is_said_on_entry(app: Path, begin: Begin, room: RoomView) -> None:
    """New, kept, parked with what brings it back, and after that resumed exactly, with the generation."""
    del room
    for said, typed in (
        ("No conversation yet; the first message begins it.", "hello"),
        ("kept in generation", "/stop"),
        ("Parked: a message, or `jam room resume talk`, resumes it exactly (generation", "hello"),
        ("Resumed exactly (generation", "hello"),
    ):
        terminal = begin("attach", "talk", "--history", "0")
        await shown(terminal, said)
        terminal.type(typed)
        await shown(terminal, "A message brings the room back." if typed == "/stop" else "Hello there.")
        await shown(
            terminal, "· parked ·" if typed == "/stop" else "· idle · codex in bubblewrap (isolation namespace) · generation"
        )
        terminal.keys("C-d")
        assert await ended(terminal) == Exit.OK
    await goes_on(app, "talk")


async def test_while_a_program_is_installed(app: Path, tmp_path: Path, begin: Begin) -> None:
    """The installation goes on in the daemon, and ends with it."""
    with socket.create_server(("127.0.0.1", 0)) as registry:
        where = f"http://127.0.0.1:{registry.getsockname()[1]}/simple"
        registry.settimeout(60)
        terminal = begin("provider", "install", PROVIDER, PIP_INDEX_URL=where)
        asked, _ = await to_thread.run_sync(registry.accept)
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED
        assert "the installation goes on in the daemon" in terminal.screen()
        assert (await jam(app, "ls")).returncode == Exit.OK
        assert (await jam(app, "daemon", "stop")).returncode == Exit.OK
        asked.close()
    assert [path.name for path in (app / layout.TOOLCHAINS).glob("*/*")] == []


@pytest.fixture
async def changed(client: JamClient, app: Path, tmp_path: Path, model: ResponsesServer, repository: Callable[[Path], Path]) -> Path:
    """A room whose agent has changed a clone of a repository; return that."""
    source = repository(tmp_path / "source")
    await client.create_room(cloned(PROVIDER, model.base_url, str(source), name="talk"))
    assert (await jam(app, "say", "talk", "write it")).returncode == Exit.OK
    return source


async def test_while_a_change_request_is_built(
    client: JamClient, daemon: DaemonChild, app: Path, begin: Begin, changed: Path
) -> None:
    """It is there or it is not, never half of one; it can be made again."""
    del changed
    with frozen(daemon):
        terminal = begin("change", "new", "talk")
        await shown(terminal, "building the change request")
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED
        assert "`jam change ls`" in terminal.screen()
    made = await jam(app, "change", "new", "talk", "--json")
    assert made.returncode == Exit.OK
    assert all(change.complete for change in await client.changes())
    await goes_on(app, "talk")


async def test_while_a_change_is_accepted(
    client: JamClient, daemon: DaemonChild, app: Path, begin: Begin, changed: Path, git: Callable[..., str]
) -> None:
    """Asked for or not, it is done once at most, and accepting it again says which."""
    assert (await jam(app, "change", "new", "talk")).returncode == Exit.OK
    [change] = await client.changes()
    with frozen(daemon):
        terminal = begin("change", "accept", str(change.id), "--author", "A Person <person@example.org>", "--branch", "taken")
        await shown(terminal, "putting it on a branch")
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED
    again = await jam(app, "change", "accept", str(change.id), "--author", "A Person <person@example.org>", "--branch", "taken")
    assert again.returncode in {Exit.OK, Exit.REFUSED}, again.stderr
    assert git(changed, "rev-list", "--count", "taken") == "2"
    await goes_on(app, "talk")


@pytest.mark.parametrize(
    "words",
    [
        ("ls",),
        ("room", "show", "talk"),
        ("room", "interrupt", "talk"),
        ("stop", "talk"),
        ("resume", "talk"),
        ("session", "inspect", "talk"),
        ("approvals", "ls"),
        ("approvals", "rules", "ls"),
        ("change", "ls"),
        ("doctor",),
        ("provider", "ls"),
        ("provider", "cells"),
        ("credential", "ls"),
        ("host", "ls"),
        ("daemon", "status"),
        ("daemon", "stop"),
        ("say", "talk", "hello"),
        ("attach", "talk"),
        ("room", "new", PROVIDER),
        ("run", PROVIDER, "hello"),
    ],
    ids=" ".join,
)
async def test_while_the_daemon_says_nothing(
    daemon: DaemonChild, client: JamClient, app: Path, begin: Begin, room: RoomView, words: tuple[str, ...]
) -> None:
    """Every command that asks the daemon can be left while it waits for the answer; what was asked is done or not, and the room goes on."""
    del client, room
    with frozen(daemon):
        terminal = begin(*words)
        await until("it waits for the daemon", lambda: _is_connected(terminal.pid))
        terminal.keys("C-c")
        status = await ended(terminal)
        assert status == Exit.INTERRUPTED, terminal.screen()
        assert "Traceback" not in terminal.screen()
    if words == ("daemon", "stop"):  # the order may have arrived or not: it is given again, and that waits for the end
        assert (await jam(app, "daemon", "stop")).returncode == Exit.OK
        await to_thread.run_sync(daemon.reap)
        daemon.start()
        await daemon.up()
    await goes_on(app, "talk")


def _is_connected(pid: int) -> bool:
    """Whether a process holds a socket and waits."""
    try:
        links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state == "S" and any(link.startswith("socket:") for link in links)


async def test_in_the_demo(begin: Begin, tmp_path: Path) -> None:
    """Its daemon, its sandbox and its model end with it, and what it made is kept."""
    for number, stage in enumerate(("daemon: ", "room: ", "first turn", "kill the provider")):
        directory = tmp_path / f"demo{number}"
        terminal = begin("demo", "--directory", str(directory))
        await shown(terminal, stage)
        terminal.keys("C-c")
        assert await ended(terminal) == Exit.INTERRUPTED, terminal.screen()
        assert f"is kept in {directory}" in terminal.screen().replace("\n", "")
        assert "Traceback" not in terminal.screen()
