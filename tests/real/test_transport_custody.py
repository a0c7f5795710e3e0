"""The daemon alone holds the way into its rooms: nothing that a guest has names it, and no guest reaches it (ENV-5)."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.control.directory import RECORD
from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.plan import Plan
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import TurnState
from jamcore.engines.bubblewrap.machine import look
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.rooms import ask, managed, new_id, refused, running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap")]

PROBE = r"""
import json, os, socket, stat, sys
asked = json.load(open(sys.argv[1]))

def read(path):
    try:
        with open(path, "rb") as stream: return stream.read(1 << 20).decode("utf-8", "replace")
    except OSError: return ""

def processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        yield from (read(f"/proc/{pid}/{name}") for name in ("environ", "cmdline", "mountinfo", "maps"))
        try: names = os.listdir(f"/proc/{pid}/fd")
        except OSError: continue
        for name in names:
            try: yield os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError: pass

def sockets():
    for root, directories, names in os.walk("/"):
        if root in ("/proc", "/sys", "/usr"): directories.clear()
        for name in names:
            path = os.path.join(root, name)
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode): yield path
            except OSError: pass

def connects(name):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(5)
        try:
            if name.startswith("/"):  # by a descriptor: an address is short
                name = "/proc/self/fd/%d" % os.open(name, os.O_PATH)
            one.connect(name)
        except OSError as error: return type(error).__name__
        return "connected"

deep = asked["deep"]
report = {
    "environment": dict(os.environ),
    "processes": "\n".join(processes()) if deep else "",
    "unix": read("/proc/net/unix"),
    "tcp": read("/proc/net/tcp"),
    "sockets": list(sockets()) if deep else [],
    "seen": {path: os.path.lexists(path) for path in asked["paths"]},
    "connects": {path: connects(path) for path in asked["paths"]},
    "abstract": {name: connects("\0" + name) for name in asked["abstract"]},
}
json.dump(report, open(sys.argv[2], "w"))
"""


@contextmanager
def listening_abstract() -> Iterator[str]:
    """Listen at an abstract name, as a daemon could."""
    name = f"jam-control-{new_id()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(8)
        yield name


def control_socket(app: Path) -> Path:
    """Return where the daemon listens, as it says to its own clients."""
    record: dict[str, Any] = json.loads((app / RECORD).read_text())
    (path,) = [value for value in record.values() if isinstance(value, str) and Path(value).is_socket()]
    return Path(path)


def plan_of(app: Path, room: RoomView) -> tuple[Plan, str]:
    """Return the stored plan of a room's host, and everything that is stored of it."""
    with closing(sqlite3.connect(f"file:{app / layout.DATABASE}?mode=ro", uri=True)) as database:
        ((text,),) = database.execute("select plan_json from hosts").fetchall()
    marker = (app / layout.owner_marker(room.host.sandbox)).read_text()
    return Plan.model_validate_json(text), text + marker


def unconfined(asked: Path, report: Path) -> dict[str, Any]:
    """Run the same probe beside the daemon, as its own user."""
    subprocess.run([sys.executable, "-c", PROBE, str(asked), str(report)], check=True, timeout=60)
    return json.loads(report.read_text())  # type: ignore[no-any-return]


def ask_for(work: Path, paths: list[str], abstract: str, *, deep: bool) -> None:
    """Put the probe and what it is to try into a work tree."""
    (work / "probe.py").write_text(PROBE)
    (work / "asked.json").write_text(json.dumps({"paths": paths, "abstract": [abstract], "deep": deep}))
    for name in ("probe.py", "asked.json"):
        (work / name).chmod(0o644)


def command(python: str, library_path: str | None = None) -> str:
    """Return the guest's command."""
    prefix = f"LD_LIBRARY_PATH={library_path} " if library_path else ""
    return f"{prefix}{python} probe.py asked.json report.json"


@pytest.mark.guarantee("ENV-5", "SEC-4")
async def test_no_guest_of_a_sandbox_names_or_reaches_the_daemon(app: Path, daemon: DaemonChild, tmp_path: Path) -> None:
    """Environment, processes, mounts, sockets, plan and marker; the path, ways around it, and an abstract name. Outside, all succeed."""
    machine = look()
    assert machine is not None
    script = Script(
        rules=(*running(command(machine.python, machine.library_path or None), said="Look around", answer="Seen."), say("Yes."))
    )
    with listening_abstract() as abstract:
        async with ResponsesServer(script) as model, running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url, engine="bubblewrap"))
            path = control_socket(app)
            around = [
                str(path),
                f"/proc/1/root{path}",
                f"/proc/self/root{path}",
                f"/proc/{daemon.pid}/root{path}",
                str(app / RECORD),
            ]
            work = app / layout.session_workspace(room.host.id, room.session.id)
            ask_for(work, around, abstract, deep=True)
            assert (await ask(client, room, "Look around", limit_s=60)).state is TurnState.CAPTURED
            inside = json.loads((work / "report.json").read_text())
            outside = await to_thread.run_sync(unconfined, work / "asked.json", tmp_path / "outside.json")
            await require_no_relay_to(client, path)
            _, stored = plan_of(app, room)

    assert outside["connects"][str(path)] == "connected", "the control: outside the path can be connected to"
    assert outside["connects"][f"/proc/self/root{path}"] == "connected"
    assert outside["abstract"] == {abstract: "connected"}
    assert str(path) in outside["unix"]
    assert str(path) in outside["sockets"]
    assert inside["environment"]["HOME"] == "/home/agent", "the probe did run inside"
    assert "/jam/work" in inside["processes"], "mounts and processes were read"
    assert set(inside["connects"].values()).isdisjoint({"connected"})
    assert set(inside["seen"].values()) == {False}
    assert inside["abstract"] != {abstract: "connected"}
    assert inside["sockets"] == []
    said = json.dumps({name: inside[name] for name in ("environment", "processes", "unix", "tcp", "sockets")}) + stored
    assert abstract not in said
    for needle in (str(path), str(path.parent), path.name, RECORD, str(daemon.private)):
        assert needle not in said, needle


async def require_no_relay_to(client: JamClient, path: Path) -> None:
    """No relay leads to a socket of the daemon: an endpoint has an origin on a network, or there is no plan."""
    for origin in (f"unix:{path}", f"unix://{path}", f"http+unix://{path}", f"file://{path}", str(path)):
        with refused("plan.refused"):
            await client.create_room(managed("codex", origin))


@pytest.mark.guarantee("ENV-5")
async def test_host_processes_are_told_nothing_of_the_daemon(app: Path, daemon: DaemonChild) -> None:
    """Nothing isolates them, so that they could find its socket; but no environment and no plan names it."""
    script = Script(rules=(*running(command(sys.executable), said="Look around", answer="Seen."), say("Yes.")))
    async with ResponsesServer(script) as model, running_daemon(daemon) as client:
        request = managed("codex", model.base_url, engine="local", approvals=ApprovalPolicy.NEVER)
        room = await client.create_room(request)
        path = control_socket(app)
        (work,) = (app / layout.HOST_NATIVE).glob(f"*/*/{room.session.id}")
        ask_for(work, [str(path)], "nobody", deep=False)
        assert (await ask(client, room, "Look around", limit_s=60)).state is TurnState.CAPTURED
        inside = json.loads((work / "report.json").read_text())
        plan, stored = plan_of(app, room)
    assert plan.engine == "local"
    assert inside["connects"] == {str(path): "connected"}, "not claimed: they are the daemon's own user's processes"
    said = json.dumps(inside["environment"]) + stored
    for needle in (str(path), str(path.parent), path.name, RECORD, str(daemon.private)):
        assert needle not in said, needle
