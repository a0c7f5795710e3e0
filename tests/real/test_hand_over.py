"""Two releases of Jam, each built as a wheel and installed beside the other, meet at one app directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.control.reach import Reach
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import place_toolchain, until
from jamcore.testing.rooms import ask, managed, new_id, running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio]
OLDER, NEWER = "0.1.7", "0.1.12"
"""By letters the other way round."""
COMMAND_S = 120.0
pytest.importorskip("hatchling", reason="builds the wheels")


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the command prints
        """The document on standard output."""
        return json.loads(self.out)


class Machine:
    """An app directory and two installed releases of Jam."""

    def __init__(self, releases: Path, place: Path) -> None:
        self._releases = releases
        self.app = place / "app"
        self._private = place / "private"
        self._private.mkdir(mode=0o700)

    def jam(self, release: str, *words: str) -> Done:
        """Run ``jam`` of a release as a person does, who does not stand in its source."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._releases / release),
            "JAM_HOME": str(self.app),
            "XDG_RUNTIME_DIR": str(self._private),
            "TMPDIR": str(self._private),
        }
        argv = (sys.executable, "-P", "-m", "jamcore.cli.main", *words)
        done = subprocess.run(argv, cwd="/", env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def health(self, release: str) -> Any:  # noqa: ANN401 - JSON
        """Ask the running daemon who it is."""
        return self.jam(release, "daemon", "status", "--json").json["health"]

    def client(self) -> JamClient:
        """Return a client of this tree, whatever the daemon's release is."""
        return JamClient(Reach(self.app, environ={}, any_version=True))


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build this tree as two wheels that differ in their version alone, and install each in a directory of its own."""
    root, place = Path(__file__).parents[2], tmp_path_factory.mktemp("releases")
    for release in (OLDER, NEWER):
        source = place / f"source-{release}"
        shutil.copytree(root / "jamcore", source / "jamcore", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("README.md", "LICENSE"):
            shutil.copy(root / name, source / name)
        lines = (root / "pyproject.toml").read_text(encoding="utf-8").splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("version = "))
        lines[at] = f'version = "{release}"'
        (source / "pyproject.toml").write_text("\n".join(lines), encoding="utf-8")
        _run(source, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place))
        (wheel,) = place.glob(f"jamcore-{release}-*.whl")
        _run(place, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place / release), str(wheel))
    return place


def over(pid: int) -> bool:
    """Whether a process has ended, also if nobody has collected it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _run(directory: Path, *argv: str) -> None:
    subprocess.run((sys.executable, *argv), cwd=directory, check=True, capture_output=True, timeout=COMMAND_S)


@pytest.fixture
def machine(releases: Path, tmp_path: Path) -> Iterator[Machine]:
    """A machine on which no daemon runs; in the end none does."""
    found = Machine(releases, tmp_path)
    try:
        yield found
    finally:
        found.jam(NEWER, "daemon", "stop")


@pytest.fixture
async def model() -> AsyncIterator[ResponsesServer]:
    """A model whose agent takes a minute over what it is told to take long over."""
    async with ResponsesServer(Script(rules=(*running("sleep 60", said="take long"), say("Hello.")))) as server:
        yield server


@pytest.mark.guarantee("CTRL-2")
async def test_an_idle_daemon_is_replaced_and_never_by_an_older_one(machine: Machine) -> None:
    """The upgraded command takes over in one line; the command that was not upgraded is refused, and told to be."""
    assert machine.jam(OLDER, "--version").out == f"jam {OLDER}\n"
    assert machine.jam(OLDER, "daemon", "start").status == 0
    before = machine.health(OLDER)
    assert before["version"] == OLDER
    listed = machine.jam(NEWER, "ls")
    assert listed.status == 0, listed
    assert f"the daemon of release {OLDER} is idle; release {NEWER} takes over from it\n" in listed.err
    after = machine.health(NEWER)
    assert (after["version"], after["daemon_id"]) == (NEWER, before["daemon_id"])
    assert over(before["pid"])
    assert machine.jam(NEWER, "ls").err == listed.err.splitlines(keepends=True)[-1], "once, not each time"
    for words in (("ls",), ("daemon", "start"), ("daemon", "restart"), ("daemon", "restart", "--now")):
        refused = machine.jam(OLDER, *words, "--json")
        assert (refused.status, refused.json["error"]["code"]) == (5, "daemon.newer"), words
        assert refused.json["error"]["context"] == {"daemon": NEWER, "client": OLDER}
        assert "Upgrade this command" in refused.json["error"]["hint"]
    assert machine.health(OLDER)["pid"] == after["pid"], "who it is may be asked by any release, and nothing was ended"


@pytest.mark.guarantee("CTRL-2", "OWN-7")
async def test_several_upgraded_commands_at_once(machine: Machine) -> None:
    """Each of them meets the older daemon; one new daemon takes over, and all of them are answered by it."""
    assert machine.jam(OLDER, "daemon", "start").status == 0
    done: list[Done] = []

    async def command() -> None:
        done.append(await to_thread.run_sync(machine.jam, NEWER, "daemon", "start", "--json"))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(command)
    assert [each.status for each in done] == [0] * 4, done
    assert {each.json["version"] for each in done} == {NEWER}
    assert {each.json["pid"] for each in done} == {machine.health(NEWER)["pid"]}


@pytest.mark.needs("codex", "bubblewrap")
@pytest.mark.guarantee("CTRL-2", "CONT-1")
async def test_a_daemon_that_works_is_not_replaced_until_it_may_be(machine: Machine, model: ResponsesServer) -> None:
    """What runs is named; with --now the turn is interrupted, and the room comes back in the new release as the same thread."""
    await place_toolchain(machine.app, "codex")
    on = partial(to_thread.run_sync, abandon_on_cancel=False)
    assert (await on(machine.jam, OLDER, "daemon", "start")).status == 0
    room = await machine.client().create_room(managed("codex", model.base_url, name="long work"))
    ref = str(room.room.id)
    assert (await ask(machine.client(), room, "hello")).state is TurnState.CAPTURED
    await machine.client().say(ref, TurnRequest(id=new_id(), text="take long"))
    pid = (await on(machine.health, OLDER))["pid"]
    await until("the command runs", lambda: len(model.model_requests) >= 2)
    refused = await on(machine.jam, NEWER, "ls", "--json")
    assert (refused.status, refused.json["error"]["code"]) == (5, "daemon.older_busy"), refused
    assert refused.json["error"]["context"] == {
        "daemon": OLDER,
        "client": NEWER,
        "working": "a turn in the room long work",
    }
    waited = await on(machine.jam, NEWER, "daemon", "restart", "--wait", "0")
    assert waited.status == 5
    assert "(daemon.busy)" in waited.err
    assert (await on(machine.health, NEWER))["pid"] == pid, "nothing was ended"
    restarted = await on(machine.jam, NEWER, "daemon", "restart", "--now")
    assert restarted.status == 0, restarted
    assert "waiting for the end of: a turn in the room long work" in restarted.err
    assert (await on(machine.health, NEWER))["version"] == NEWER
    back = await machine.client().resume(ref)
    known = (await machine.client().room(ref)).session.provider_identity
    assert known is not None
    assert back.session.provider_identity == known
    assert (await ask(machine.client(), room, "are you still there?")).state is TurnState.CAPTURED
