"""An agent that works in place in a person's own directory (CAP-7): it edits those files and sees nothing else of the host."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio.lowlevel
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.requests import AcceptRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild
from jamcore.testing.rooms import ask, managed, new_id, refused, running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex", "git")]

BESIDE = "beside-7f3a.txt"
PERSON = 1234
"""An ordinary user's number, where the tests run as root."""


@pytest.fixture
async def model() -> AsyncIterator[ResponsesServer]:
    """A model that changes one file, makes another, and tries to look beside the project."""
    rules = (
        *running("echo two >> a.txt && mkdir -p sub && echo new > 'sub/näw.txt' && ls -a ..", said="Write"),
        *running("cat sub/*.txt && echo more >> a.txt", said="again"),
        say("Hello."),
    )
    async with ResponsesServer(Script(rules=rules)) as server:
        yield server


@pytest.fixture
def project(repository: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A person's repository, beside something that is none of the agent's business."""
    path = repository(tmp_path / "person" / "my pröject")
    (tmp_path / "person" / BESIDE).write_text("private")
    if os.geteuid() == 0:
        for found in (path, *path.rglob("*")):
            os.chown(found, PERSON, PERSON)
    return path


def owner() -> int:
    """Return whose the project is."""
    return PERSON if os.geteuid() == 0 else os.geteuid()


@pytest.mark.guarantee("CAP-7", "PLAN-4", "ENG-6", "CONT-1", "SEC-1")
async def test_it_edits_in_place_and_comes_back(
    daemon: DaemonChild, client: JamClient, model: ResponsesServer, project: Path
) -> None:
    """The files are the person's, before and after; killed in between, the conversation goes on; the change request says what was done."""
    room = await client.create_room(managed("codex", model.base_url, workspace=WorkspaceSource.DIRECT_HOST, path=str(project)))
    assert (await ask(client, room, "Write")).state is TurnState.CAPTURED
    assert (project / "a.txt").read_text() == "one\ntwo\n"
    made = project / "sub" / "näw.txt"
    assert made.read_text() == "new\n"
    assert made.stat().st_uid == owner()
    assert not any(BESIDE in str(request) for request in model.requests)

    await to_thread.run_sync(daemon.kill)
    daemon.start()
    await daemon.up()
    assert (await ask(client, room, "again")).state is TurnState.CAPTURED
    assert (project / "a.txt").read_text() == "one\ntwo\nmore\n"
    assert (await client.inspect(str(room.room.id))).observations[-1].outcome is ObservationOutcome.SUCCEEDED

    change = await client.build_change(str(room.room.id), new_id())
    assert [path.path for path in change.paths] == ["a.txt", "sub/näw.txt"]
    digest = next(file.sha256 for file in change.files if file.name == "change.patch")
    with refused("change.in_place"):
        await client.accept_change(str(change.id), AcceptRequest(id=new_id(), patch_sha256=digest))


@pytest.mark.guarantee("CAP-7", "ENG-6")
async def test_what_is_no_project_is_refused(client: JamClient, app: Path, model: ResponsesServer, tmp_path: Path) -> None:
    """A file, nothing, Jam's own directory, a whole disk: refused by type before anything exists."""
    (tmp_path / "file").write_text("")
    await anyio.lowlevel.checkpoint()
    for path in (tmp_path / "file", tmp_path / "none", app, app / "cfg", Path("/")):
        with refused("workspace.directory_refused"):
            await client.create_room(managed("codex", model.base_url, workspace=WorkspaceSource.DIRECT_HOST, path=str(path)))
    assert await client.rooms() == ()


@pytest.mark.guarantee("SEC-1", "CAP-7")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root's daemon can be asked to work in root's directory")
async def test_a_directory_of_roots_is_refused(client: JamClient, model: ResponsesServer, tmp_path: Path) -> None:
    """No guest is ever root, so the agent could not write there: said before a room exists."""
    (tmp_path / "roots").mkdir()
    with refused("workspace.directory_refused") as said:
        await client.create_room(
            managed("codex", model.base_url, workspace=WorkspaceSource.DIRECT_HOST, path=str(tmp_path / "roots"))
        )
    assert "root" in said.value.context()["problem"]
