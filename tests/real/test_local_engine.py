"""Real Codex as a host process: a tool call, a kill of everything, an exact resume; and what the person is told about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Placement, WorkspaceSource
from jamcore.domain.requests import EndpointChoice, RoomRequest, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.engines.local.marks import carriers
from jamcore.engines.supervised.records import SandboxRecords
from jamcore.system.files import Files
from jamcore.testing.daemon import DaemonChild, running_daemon, until
from jamcore.testing.guards import Process, settle
from jamcore.testing.rooms import ask, cloned, managed, new_id, refused, running, said_in_room
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.responses import ResponsesServer, Script, say

SECRET = "sk-real-" + "7f3a" * 10
"""What the daemon of these tests holds for the relay."""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.needs("codex"),
    pytest.mark.unprivileged,
    pytest.mark.guarantee("ENG-2"),
]


def local(origin: str, **more: object) -> RoomRequest:
    """Return the request for a room of host processes."""
    return managed("codex", origin, engine="local", **{"approvals": ApprovalPolicy.NEVER, **more})


def sleepers(family: frozenset[Process]) -> set[str]:
    """Return the commands of the programs that only sleep."""
    return {process.command.strip() for process in family if process.command.startswith("sleep ")}


def outputs(model: ResponsesServer) -> str:
    """Return everything that the model was told, tool outputs included."""
    return json.dumps([request.body for request in model.model_requests])


@pytest.mark.guarantee("CONT-1", "PLAN-4")
async def test_a_room_works_is_killed_and_comes_back(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """The agent writes a file, the daemon is killed with SIGKILL, nothing of the room is left, and the same conversation goes on."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(local(model.base_url))
        assert (room.host.engine, room.isolation) == ("local", "none")
        assert [code for code, _ in await said_in_room(client, room)].count("engine.no_isolation") == 1
        turn = await ask(client, room, "Write the file")
        assert turn.state is TurnState.CAPTURED
        account = (await client.health()).daemon_id
        work = app / layout.host_native_workspace(account, room.host.agent_id, room.session.id)
        assert (work / "made.txt").read_text() == "made by the agent\n"
        before = (await client.room(str(room.room.id))).session.provider_identity
        family = daemon.family()
        assert family
        daemon.kill()
        assert settle(family, 15.0) == ()
        daemon.start()
        await daemon.up()
        resumed = await client.resume(str(room.room.id))
        assert resumed.session.provider_identity == before
        assert (await ask(client, room, "Hello again")).state is TurnState.CAPTURED
        heard = said_in(model.model_requests[-1].body)
        assert [text for text in heard if text in ("Write the file", "Hello again")] == ["Write the file", "Hello again"]


@pytest.mark.crash
@pytest.mark.guarantee("SHARE-4")
async def test_programs_that_outlived_the_daemon_are_stopped_before_anything_starts(daemon: DaemonChild, app: Path) -> None:
    """Killed together with the supervisor: what the agent started is alone on the machine, is proven and ended, and the room resumes."""
    leave = running("setsid sleep 607 < /dev/null > /dev/null 2>&1 & echo left", said="Leave something")
    async with ResponsesServer(Script(rules=(*leave, say("Hello.")))) as model, running_daemon(daemon) as client:
        room = await client.create_room(local(model.base_url))
        assert (await ask(client, room, "Leave something")).state is TurnState.CAPTURED
        await until("it is left running", lambda: "sleep 607" in sleepers(daemon.family()))
        supervisors = [process for process in daemon.family() if "supervised.guest.init" in process.command]
        assert supervisors
        os.kill(daemon.pid, signal.SIGSTOP)
        for process in supervisors:
            os.kill(process.pid, signal.SIGSTOP)
        for process in supervisors:
            os.kill(process.pid, signal.SIGKILL)
        daemon.kill()
        mark = SandboxRecords(app / layout.engine_root("local"), engine="local", files=Files()).read(room.host.sandbox)
        assert mark is not None
        left = carriers(mark.mark)
        assert left
        daemon.start()
        await daemon.up()
        await client.resume(str(room.room.id))
        assert not left & carriers(mark.mark)
        assert "host.fenced" in [code for code, _ in await said_in_room(client, room)]
        assert (await ask(client, room, "Hello again")).state is TurnState.CAPTURED


@pytest.mark.guarantee("ENV-1", "ENV-4", "SEC-4")
async def test_the_agent_has_directories_of_its_own_and_no_secret(daemon: DaemonChild, app: Path) -> None:
    """Home, temporary files and state are the host's own below the app directory; neither key nor daemon's environment is in them."""
    look = "env; ls -a ~; tr '\\0' ' ' < /proc/$PPID/cmdline"
    async with ResponsesServer(Script(rules=running(look, said="Look around"))) as model:
        async with running_daemon(daemon, JAM_TEST_AMBIENT="ambient") as client:
            choice = EndpointChoice(origin=model.base_url, credential="test")
            room = await client.create_room(local(model.base_url, endpoint=choice))
            assert (await ask(client, room, "Look around")).state is TurnState.CAPTURED
        assert model.model_requests[-1].header("authorization") == f"Bearer {SECRET}"
        told = outputs(model)
    disk = app / layout.guest_disk(room.host.id)
    assert f"HOME={disk}/home" in told
    assert f"TMPDIR={disk}/tmp" in told
    assert list((app / layout.provider_state(room.host.id, "codex") / "sessions").rglob("*.jsonl"))
    assert SECRET not in told
    assert "ambient" not in told


@pytest.mark.guarantee("RUN-1", "CAP-7", "ENG-6")
async def test_a_private_clone_and_its_change_request(
    client: JamClient, model: ResponsesServer, repository: Callable[[Path], Path], tmp_path: Path
) -> None:
    """The person's checkout is not touched; the change request is the difference that the agent made in its clone."""
    source = repository(tmp_path / "repository")
    room = await client.create_room(cloned("codex", model.base_url, str(source), engine="local", approvals=ApprovalPolicy.NEVER))
    assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    change = await client.build_change(str(room.room.id), new_id())
    assert [changed.path for changed in change.paths] == ["made.txt"]
    assert sorted(path.name for path in source.iterdir()) == [".git", "a.txt"]


@pytest.mark.crash
@pytest.mark.guarantee("CONT-11", "OWN-8")
async def test_a_kill_in_the_middle_of_a_command(daemon: DaemonChild) -> None:
    """The command, daemonised ones included, ends with the daemon; the turn is settled, and the conversation goes on."""
    busy = running("setsid sleep 605 & echo begun > begun.txt; sleep 606", said="Work long")
    async with ResponsesServer(Script(rules=(*busy, say("Hello.")))) as model, running_daemon(daemon) as client:
        room = await client.create_room(local(model.base_url))
        ref = str(room.room.id)
        assert (await ask(client, room, "Hello")).state is TurnState.CAPTURED
        turn = await client.say(ref, TurnRequest(id=new_id(), text="Work long"))
        await until("both commands run", lambda: sleepers(daemon.family()) >= {"sleep 605", "sleep 606"})
        family = daemon.family()
        daemon.kill()
        assert settle(family, 15.0) == ()
        daemon.start()
        await daemon.up()
        await client.resume(ref)
        states = {known.id: known.state for known in await client.turns(ref)}
        assert states[turn.id] in {TurnState.CUT, TurnState.INTERRUPTED, TurnState.CAPTURED}
        assert (await ask(client, room, "Hello again")).state is TurnState.CAPTURED


@pytest.mark.guarantee("SHARE-5", "WS-14")
async def test_rooms_of_one_agent_may_share_one_supervisor(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """One program, a thread and a directory for each room; the last one that stops ends it."""
    rooms = [await client.create_room(local(model.base_url, placement=Placement.SHARED)) for _ in range(2)]
    assert len({room.host.id for room in rooms}) == 1
    for room in rooms:
        assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    account = (await client.health()).daemon_id
    for room in rooms:
        work = daemon.app / layout.host_native_workspace(account, room.host.agent_id, room.session.id)
        assert (work / "made.txt").read_text() == "made by the agent\n"
    assert (
        len(
            [
                process
                for process in daemon.family()
                if "supervised.guest.init" in process.command and process.session == process.pid
            ]
        )
        == 1
    )
    for room in rooms:
        await client.stop(str(room.room.id))
    assert not [process for process in daemon.family() if "supervised.guest.init" in process.command]


@pytest.mark.guarantee("CAP-7", "ENG-6")
async def test_work_in_place(client: JamClient, model: ResponsesServer, repository: Callable[[Path], Path], tmp_path: Path) -> None:
    """The agent edits the person's own directory."""
    source = repository(tmp_path / "repository")
    room = await client.create_room(local(model.base_url, workspace=WorkspaceSource.DIRECT_HOST, path=str(source)))
    assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    assert (source / "made.txt").read_text() == "made by the agent\n"


@pytest.mark.guarantee("PLAN-4")
async def test_a_moved_app_directory_takes_the_room_along(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """No plan changes though every path that the agent sees does: its session comes back at the new place."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(local(model.base_url))
        assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    elsewhere = app.parent / "elsewhere"
    shutil.move(app, elsewhere)
    moved = DaemonChild(elsewhere, private=daemon.private)
    async with running_daemon(moved) as client:
        before = await client.room(str(room.room.id))
        assert before.host.plan_json == room.host.plan_json
        await client.resume(str(room.room.id))
        assert (await ask(client, room, "Write the file once more")).state is TurnState.CAPTURED


@pytest.mark.guarantee("ENG-4", "CAP-1")
@pytest.mark.parametrize(("sandboxing", "engine"), [("off", "local"), ("on", "bubblewrap")])
@pytest.mark.needs("bubblewrap")
async def test_one_setting_decides_for_requests_without_an_engine(
    daemon: DaemonChild, model: ResponsesServer, sandboxing: str, engine: str
) -> None:
    """Off: as before there were sandboxes. On: a sandbox. The room says which, and the list of engines says it before."""
    async with running_daemon(daemon, JAM_SANDBOXING=sandboxing) as client:
        assert [view.name for view in await client.engines() if view.default] == [engine]
        room = await client.create_room(managed("codex", model.base_url, approvals=ApprovalPolicy.NEVER))
        assert room.host.engine == engine
        assert (room.isolation == "none") is (sandboxing == "off")
        assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED


@pytest.mark.guarantee("CAP-1", "ENG-4")
@pytest.mark.parametrize(("engine", "policy"), [("local", ApprovalPolicy.ASK), ("bubblewrap", ApprovalPolicy.NEVER)])
async def test_who_chose_nothing_is_asked_where_nothing_isolates(
    client: JamClient, model: ResponsesServer, engine: str, policy: ApprovalPolicy
) -> None:
    """A sandbox is a boundary of its own; a host process has none but the person."""
    room = await client.create_room(managed("codex", model.base_url, engine=engine))
    assert room.session.approvals is policy


@pytest.mark.guarantee("CAP-1", "ENG-4")
async def test_host_native_work_needs_no_other_engine(daemon: DaemonChild, model: ResponsesServer) -> None:
    """With every sandbox engine absent the daemon starts; a request without an engine is refused by type, or runs as a host process."""
    async with running_daemon(daemon, JAM_BLOCKED_PLUGINS="bubblewrap") as client:
        assert [(view.name, view.default) for view in await client.engines() if view.usable] == [("local", False)]
        with refused("engine.unavailable"):
            await client.create_room(managed("codex", model.base_url))
        room = await client.create_room(local(model.base_url))
        assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    async with running_daemon(daemon, JAM_BLOCKED_PLUGINS="bubblewrap", JAM_SANDBOXING="off") as client:
        room = await client.create_room(managed("codex", model.base_url, approvals=ApprovalPolicy.NEVER))
        assert (room.host.engine, room.isolation) == ("local", "none")
        assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
