"""The app directory: unusable, deep, taken, moved, of another release; a daemon says which, and what is in it stays."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from anyio import to_thread

from jamcore.control.address import read_record
from jamcore.control.client import JamClient
from jamcore.control.reach import Reach
from jamcore.domain import layout
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import ask, cloned, managed, refused, said_in_room
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio]
REAL = pytest.mark.needs("codex", "bubblewrap", "git")
Make = Callable[[Path], Path]


def start(app: Path, private: Path) -> subprocess.CompletedProcess[str]:
    """Run the daemon where it must refuse; whoever it was, it is over when this returns."""
    private.mkdir(exist_ok=True)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(private), "TMPDIR": str(private)}
    argv = (sys.executable, "-P", "-m", "jamcore.jamd", "--app-directory", str(app))
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.guarantee("OWN-7")
async def test_what_cannot_be_an_app_directory(tmp_path: Path) -> None:
    """One line with the reason, the status of a refusal, and nothing is touched."""
    file = tmp_path / "file"
    file.write_text("mine")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere" / "deeper")
    for app, word in ((file, "directory"), (file / "below", "directory"), (dangling, "directory"), (Path("/proc/jam"), "director")):
        done = start(app, tmp_path / "private")
        assert done.returncode == 3, (app, done)
        assert done.stderr.startswith("jamd: daemon.app_directory: "), done.stderr
        assert word in done.stderr.lower()
        assert done.stderr.count("\n") == 1
    assert file.read_text() == "mine"


@pytest.mark.guarantee("OWN-7")
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
async def test_an_app_directory_that_cannot_be_entered(tmp_path: Path) -> None:
    """The daemon says so instead of making it readable for itself, and the client too."""
    outer = tmp_path / "outer"
    (outer / "app").mkdir(parents=True)
    outer.chmod(0)
    try:
        done = start(outer / "app", tmp_path / "private")
        assert done.returncode == 3
        assert "daemon.app_directory" in done.stderr
        with refused("daemon.address_unreadable"):
            await JamClient(Reach(outer / "app", environ={})).health()
    finally:
        outer.chmod(0o700)


@pytest.mark.guarantee("OWN-7")
async def test_a_second_daemon_names_the_holder(tmp_path: Path) -> None:
    """It refuses, says who holds the directory, and the first one serves on; a lock file that lies about its pid keeps nobody out."""
    daemon = DaemonChild(tmp_path / "app", private=tmp_path / "private")
    async with running_daemon(daemon) as client:
        done = await to_thread.run_sync(start, daemon.app, tmp_path / "private")
        assert done.returncode == 3
        assert "daemon.already_running" in done.stderr
        assert f"process {daemon.pid}" in done.stderr
        assert (await client.health()).pid == daemon.pid
    (daemon.app / layout.LOCK).write_text(json.dumps({"pid": 1, "started_at": "2020-01-01T00:00:00+00:00"}))
    async with running_daemon(daemon) as client:
        assert (await client.health()).pid == daemon.pid


@REAL
@pytest.mark.guarantee("SEC-6")
async def test_a_deep_app_directory(tmp_path: Path, model: ResponsesServer) -> None:
    """With a path of more than 200 characters everything works, also with a deep runtime directory: the socket lies elsewhere."""
    app = tmp_path / ("d" * 80) / ("e" * 80) / ("f" * 80) / "app"
    assert len(str(app)) > 240
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, private=tmp_path / ("r" * 120))
    async with running_daemon(daemon) as client:
        record = read_record(app)
        assert record is not None
        socket = Path(record.socket)
        assert len(os.fsencode(socket)) < 108
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        room = await client.create_room(managed("codex", model.base_url))
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
    assert not socket.exists()


async def test_a_daemon_of_another_release(tmp_path: Path) -> None:
    """The client asks nothing of it but who it is and that it stops; it is told which releases meet."""
    daemon = DaemonChild(tmp_path / "app", private=tmp_path / "private")
    async with running_daemon(daemon) as client:
        record = read_record(daemon.app)
        assert record is not None
        path = next(p for p in daemon.app.iterdir() if p.suffix == ".json" and "socket" in p.read_text())
        path.write_text(record.model_copy(update={"version": "99.0"}).model_dump_json())
        for question in (client.rooms, client.doctor, client.cells):
            with refused("daemon.other_version") as error:
                await question()
            assert error.value.context()["daemon"] == "99.0"
        any_version = JamClient(Reach(daemon.app, environ={}, any_version=True))
        assert (await any_version.health()).pid == daemon.pid
        await any_version.shutdown()
        assert await to_thread.run_sync(daemon.reap) == 0


@REAL
@pytest.mark.guarantee("PLAN-4", "CONT-1", "WS-1")
async def test_the_app_directory_moves(tmp_path: Path, daemon: DaemonChild, model: ResponsesServer, repository: Make) -> None:
    """Between two lives the directory is moved: no plan changes, both kinds of room come back as the exact thread."""
    original = repository(tmp_path / "repository")
    async with running_daemon(daemon) as client:
        rooms = [
            await client.create_room(managed("codex", model.base_url)),
            await client.create_room(cloned("codex", model.base_url, str(original))),
        ]
        for room in rooms:
            assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
        plans = [(await client.room(str(room.room.id))).host.plan_json for room in rooms]
    assert not [plan for plan in plans if str(daemon.app) in plan]
    moved = DaemonChild(tmp_path / "other place" / "jam", private=tmp_path / "private")
    moved.app.parent.mkdir()
    daemon.app.rename(moved.app)
    async with running_daemon(moved) as client:
        for room, plan in zip(rooms, plans, strict=True):
            ref = str(room.room.id)
            view = await client.resume(ref)
            assert view.host.plan_json == plan
            assert (await ask(client, room, f"still there? {ref}")).state is TurnState.CAPTURED
            heard = conversation(model.model_requests[-1].body)
            assert [item.text for item in heard if isinstance(item, UserText)] == ["Write the file", f"still there? {ref}"]
            work = moved.app / (
                layout.session_workspace(view.host.id, view.session.id)
                if room is rooms[0]
                else f"{layout.guest_disk(view.host.id)}"
            )
            assert list(work.rglob("made.txt"))
    assert not daemon.app.exists()


@REAL
@pytest.mark.guarantee("PLAN-6")
async def test_a_stored_name_that_is_not_the_plans(tmp_path: Path, daemon: DaemonChild, model: ResponsesServer) -> None:
    """A host whose stored sandbox name differs from its plan's is refused before the engine is asked for anything."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
        name = room.host.sandbox
    database = daemon.app / layout.DATABASE
    kept = tmp_path / "kept.db"
    shutil.copy(database, kept)
    with sqlite3.connect(database) as connection:
        assert connection.execute("UPDATE hosts SET sandbox = 'jam-somebody-elses'").rowcount == 1
    connection.close()
    record = next((daemon.app / layout.ENGINES).rglob(f"{name}.json"))
    before = record.stat().st_mtime_ns
    async with running_daemon(daemon) as client:
        with refused("plan.name_mismatch"):
            await client.resume(str(room.room.id))
        assert record.stat().st_mtime_ns == before, "the engine was asked to start something"
        assert not daemon.family()
        assert (await client.room(str(room.room.id))).live is False
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE hosts SET sandbox = ?", (name,))
    connection.close()
    async with running_daemon(daemon) as client:
        assert (await ask(client, room, "again")).state is TurnState.CAPTURED
        assert "session.resumed" in [code for code, _ in await said_in_room(client, room)]
