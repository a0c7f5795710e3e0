"""Sandboxes from create to rm: what is printed, and what stays over commands, callers and daemons."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.testing.sbx.known import VERSIONS, minor
from jamcore.testing.sbx.simulator import Simulator

Make = Callable[..., Simulator]
pytestmark = pytest.mark.needs("bubblewrap")

SECTIONS = (
    "── RESOLVE SETUP\n   resolving configuration…\n     sandbox    one\n     agent      shell\n     workspace  {path} (rw)\n"
    "     image      docker/sandbox-templates:shell-docker\n     cpu        2\n     memory     1g\n   ✓ configuration resolved\n"
    "── PREPARE IMAGE\n   → pull docker/sandbox-templates:shell-docker\n   ✓ image ready\n✓ Created sandbox one\n\n"
    "To connect to this sandbox, run:\n  sbx run --name one\n"
)
CREATED = {
    "0.35": "Creating new sandbox 'one'...\n✓ Created sandbox 'one'\n  Workspace: {path} (direct mount)\n  Agent: shell\n\n"
    "To connect to this sandbox, run:\n  sbx run one\n",
    "0.39": SECTIONS,
    "0.43": SECTIONS,
    "0.47": "sandbox    one\nagent      shell\nworkspace  {path} (rw)\nimage      docker/sandbox-templates:shell-docker\n"
    "cpu        2\nmemory     1g\n\nPulling image\n✓ Image ready\n✓ Created sandbox one\n\n"
    "To connect to this sandbox, run:\n  sbx run --name one\n",
}
STOPPED = {
    "0.35": "Sandbox 'one' stopped\n",
    "0.43": "Sandbox 'one' stopped; state preserved.\n",
    "0.47": "Sandbox 'one' stopped; state preserved. Restart with: sbx run --name one\n",
}
ROW = {
    "0.35": {"name", "id", "agent", "status", "workspaces"},
    "0.43": {"name", "id", "agent", "status", "workspaces", "last_used_at"},
    "0.47": {"name", "id", "agent", "status", "workspaces", "last_used_at", "created_at", "cpus", "memory"},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_life_of_a_sandbox(make: Make, workspace: Path, version: str) -> None:
    """Create [SDK, CAP], ls [SDK, RN, CAP], stop [DEN, SBXM, CAP], a start by exec [DEN], rm [SBXM, CAP, KT]; the home stays until rm."""
    older = version if version in ROW else "0.35"
    sbx = make(version)
    sbx.said("ls")
    made = sbx.said("create", "--name", "one", "--cpus", "2", "-m", "1g", "shell", str(workspace))
    assert made.endswith(CREATED[version].format(path=workspace)), made
    (row,) = sbx.json("ls", "--json")["sandboxes"]
    assert set(row) == ROW[older]
    assert (row["name"], row["agent"], row["status"], row["workspaces"]) == ("one", "shell", "running", [str(workspace)])
    head, line = sbx.said("ls").splitlines()
    assert head.split() == ["SANDBOX" if minor(version) >= 38 else "NAME", "AGENT", "STATUS", "PORTS", "WORKSPACE"]
    assert line.split() == ["one", "shell", "running", str(workspace)]
    assert sbx.said("ls", "-q") == "one\n"
    sbx.said("exec", "one", "sh", "-c", "echo kept >/home/agent/note")
    assert sbx.said("stop", "one") == STOPPED[older]
    assert sbx.said("stop", "one") == STOPPED[older], "a stopped one is no error"
    assert sbx.json("ls", "--json")["sandboxes"][0]["status"] == "stopped"
    started = sbx.run("exec", "one", "cat", "/home/agent/note")
    assert (started.stdout, started.stderr) == (b"kept\n", b"Sandbox one started successfully\n")
    assert "stdin is not a terminal; use --force to skip confirmation" in sbx.failed("rm", "one")
    assert (
        sbx.said("rm", "--force", "one")
        == ("Deleting sandbox one...\n" if minor(version) >= 45 else "") + "Sandbox 'one' removed\n"
    )
    assert sbx.said("ls", "--json") == '{"sandboxes":[]}\n'
    sbx.said("create", "--name", "one", "shell", str(workspace))
    assert sbx.run("exec", "one", "cat", "/home/agent/note").returncode == 1, "the disk went with rm"


@pytest.mark.parametrize(("version", "said"), [
    ("0.39", "ERROR: no sandbox named 'none'\n\nTo create one:\n  sbx create AGENT WORKSPACE\n"),
    ("0.43", "ERROR: sandbox 'none' not found\n"),
    ("0.47", "error: sandbox 'none' not found\n  try: sbx ls\n"),
])  # fmt: skip
def test_a_missing_sandbox(make: Make, version: str, said: str) -> None:
    """[ISS #504] for the oldest, [RN] and [HURA] for the newer; `policy ls` of one answers the global rules [HURA]."""
    sbx = make(version)
    sbx.said("ls")
    for words in (("exec", "none", "true"), ("stop", "none"), ("rm", "--force", "none"), ("ports", "none")):
        assert sbx.failed(*words) == said
    assert sbx.json("policy", "ls", "none", "--json")["rules"]


def test_names(make: Make, workspace: Path) -> None:
    """`name must match regexp … : a`, `sandbox name cannot contain plus signs: x+y` [SDK, DEN]; stricter from 0.43 [RN]."""
    sbx = make()
    for name in ("a", "a_b", "-a", "x" * 64, "ab-", "ab."):
        assert sbx.failed("create", "--name", name, "shell").endswith(
            f"name must match regexp ^[a-zA-Z0-9][a-zA-Z0-9.-]+$: {name}\n"
        )
    assert sbx.failed("create", "--name", "x+y", "shell") == "error: sandbox name cannot contain plus signs: x+y\n"
    sbx.said("create", "claude", str(workspace))
    how = "use 'sbx run --name claude-proj' to start it, or pass --name to create another"
    assert (
        sbx.failed("create", "claude", str(workspace)) == f'error: sandbox "claude-proj" already exists for this workspace; {how}\n'
    )
    make("0.39").said("create", "--name", "ab-", "shell", str(workspace))


def test_what_cannot_be_made_leaves_nothing(make: Make, workspace: Path, tmp_path: Path) -> None:
    """`request failed: 403 Forbidden: pull failed for image "X"`, nothing left behind [DEN]; no repository [SDK]; no place to run."""
    sbx = make()
    assert 'request failed: 403 Forbidden: pull failed for image "missing:1"' in sbx.failed(
        "create", "-t", "missing:1", "shell", str(workspace)
    )
    assert f"--clone requires a Git repository, but {workspace} is not in a Git repository" in sbx.failed(
        "create", "--clone", "shell", str(workspace)
    )
    assert "does not exist" in sbx.failed("create", "shell", str(tmp_path / "gone"))
    assert "read-only" in sbx.failed("create", "shell", f"{workspace}:ro")
    assert "512 MiB" in sbx.failed("create", "-m", "64m", "shell", str(workspace))
    assert "allowlist" in sbx.failed("create", "--kit", "ghcr.io/x/y", "shell", str(workspace))
    sbx.configure(virtualisation=False)
    assert "hypervisor" in sbx.failed("create", "shell", str(workspace))
    assert sbx.json("ls", "--json") == {"sandboxes": []}
    assert list(sbx.socket.parent.glob("runtimes/*")) == []


def test_a_mountless_sandbox_works_in_its_home(make: Make) -> None:
    """From 0.42 no PATH = mountless, cwd /home/agent/workspace [RN, M], `none · no workspace bind mount` [CAP]; before, it is needed."""
    sbx = make()
    assert "workspace  none · no workspace bind mount\n" in sbx.said("create", "--name", "one", "shell")
    assert sbx.said("exec", "one", "pwd") == "/home/agent/workspace\n"
    assert sbx.json("ls", "--json")["sandboxes"][0]["workspaces"] == []
    make("0.39").failed("create", "shell")


def test_sandboxes_outlive_their_callers_and_are_stopped_with_the_daemon(make: Make, workspace: Path) -> None:
    """A caller that is killed changes nothing; a daemon that is killed takes the guests along, and keeps what there is."""
    sbx = make()
    sbx.said("create", "--name", "one", "shell", str(workspace))
    caller = sbx.popen("exec", "one", "sleep", "600")
    ident = sbx.json("ls", "--json")["sandboxes"][0]["id"]
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    assert sbx.json("ls", "--json")["sandboxes"][0]["status"] == "running"
    caller = sbx.popen("exec", "one", "sleep", "600")
    while "sleep" not in sbx.said("exec", "one", "sh", "-c", "cat /proc/[0-9]*/comm"):
        pass
    sbx.said("stop", "one")
    assert caller.wait() == 137
    sbx.said("exec", "one", "true")
    sbx.kill_daemon()
    (row,) = _after_start(sbx)
    assert (row["id"], row["status"]) == (ident, "stopped")
    sbx.said("daemon", "restart")
    assert sbx.json("ls", "--json")["sandboxes"][0]["id"] == ident


def _after_start(sbx: Simulator) -> list[dict[str, str]]:
    sbx.said("ls")
    rows: list[dict[str, str]] = sbx.json("ls", "--json")["sandboxes"]
    return rows


def test_an_idle_sandbox_is_stopped_also_when_programs_run_in_it(make: Make, workspace: Path) -> None:
    """After the last session, even with busy guest processes [CAP, DEN, CEZ]; a session holds it up; a pinned one stays (0.47) [HURA]."""
    sbx = make(idle_s=1.0)
    sbx.said("create", "--name", "one", "shell", str(workspace))
    sbx.said("create", "--name", "pinned", "shell", str(workspace))
    pinned = sbx.said("run", "-d", "--name", "pinned")
    assert re.fullmatch(r"[0-9a-f-]{36}\n", pinned)
    holder = sbx.popen("exec", "one", "sh", "-c", "sleep 3; echo held >/home/agent/note")
    assert holder.wait() == 0
    sbx.said("exec", "one", "sh", "-c", "sleep 600 >/dev/null 2>&1 &")
    _until(lambda: _status(sbx) == {"one": "stopped", "pinned": "running"})
    assert "auto-stop grace period expired, stopping runtime" in sbx.log.read_text()
    assert sbx.said("exec", "one", "sh", "-c", "cat /home/agent/note; ls /proc | grep -c '^[0-9]'").startswith("held\n")


@pytest.mark.parametrize(("version", "ends"), [("0.39", False), ("0.43", True)])
def test_one_that_was_never_used_is_stopped_from_0_43_on(make: Make, workspace: Path, version: str, ends: bool) -> None:
    """[RN], [ISS #452] for the older ones."""
    sbx = make(version, idle_s=0.3)
    sbx.said("create", "--name", "one", "shell", str(workspace))
    if ends:
        _until(lambda: _status(sbx) == {"one": "stopped"})
    else:
        time.sleep(1.0)
        assert _status(sbx) == {"one": "running"}


def _status(sbx: Simulator) -> dict[str, str]:
    return {row["name"]: row["status"] for row in sbx.json("ls", "--json")["sandboxes"]}


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_run_detached_makes_or_takes_a_sandbox_and_prints_its_id(make: Make, workspace: Path) -> None:
    """`-d` prints the sandbox id, no session; an agent that is not the named sandbox's is an error [D]; a session needs a TTY [M]."""
    sbx = make()
    sbx.said("ls")
    made = sbx.said("run", "-d", "--name", "one", "shell", str(workspace))
    assert made == sbx.json("ls", "--json")["sandboxes"][0]["id"] + "\n"
    assert sbx.said("run", "--detached", "--name", "one") == made
    sbx.failed("run", "-d", "--name", "one", "codex")
    sbx.failed("run", "-d", "--rm", "--name", "one")
    sbx.failed("run", "--name", "one")


def test_prune_removes_what_is_stopped(make: Make, workspace: Path) -> None:
    """`{"would_remove":[{"name","agent","stopped_at","workspaces"}],"skipped_unknown_stop":[]}` and the lines of `--force` [CAP]."""
    sbx = make()
    for name in ("one", "two"):
        sbx.said("create", "--name", name, "shell", str(workspace))
    sbx.said("stop", "one")
    found = sbx.json("prune", "--dry-run", "--json")
    assert set(found) == {"would_remove", "skipped_unknown_stop"}
    assert [set(row) for row in found["would_remove"]] == [{"name", "agent", "stopped_at", "workspaces"}]
    assert sbx.json("prune", "--dry-run", "--json", "--filter", "until=24h")["would_remove"] == []
    assert sbx.said("prune", "--force") == "Deleting sandbox one...\nSandbox 'one' removed\n"
    assert sbx.said("ls", "-q") == "two\n"


def test_a_workspace_that_is_gone_is_marked(make: Make, workspace: Path) -> None:
    """A missing workspace directory gets `(missing)`, in the JSON `workspace_missing` [SDK, DEN]."""
    sbx = make()
    sbx.said("create", "--name", "one", "shell", str(workspace))
    sbx.said("stop", "one")
    workspace.rename(workspace.with_name("moved"))
    assert sbx.json("ls", "--json")["sandboxes"][0]["workspace_missing"] is True
    assert f"{workspace} (missing)" in sbx.said("ls")


def test_files_are_copied_and_ports_published(make: Make, workspace: Path, tmp_path: Path) -> None:
    """`cp` has exactly one side in a sandbox [SDK, KT]; `Published 127.0.0.1:P -> 8080/tcp4` and a bare array [HURA, CAP]."""
    sbx = make()
    sbx.said("create", "--name", "one", "shell", str(workspace))
    (tmp_path / "in").write_text("to the guest")
    sbx.said("cp", str(tmp_path / "in"), "one:/home/agent/in")
    assert sbx.said("exec", "one", "cat", "/home/agent/in") == "to the guest"
    sbx.said("cp", "one:/home/agent/in", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "to the guest"
    assert sbx.failed("cp", "one:/a", "two:/b") == "error: copying between sandboxes is not supported\n  try: sbx cp --help\n"
    assert sbx.json("ports", "one", "--json") == []
    assert sbx.said("ports", "one") == "No published ports\n"
    published = sbx.said("ports", "one", "--publish", "8080")
    port = re.fullmatch(r"Published 127\.0\.0\.1:(\d+) -> 8080/tcp4\n", published)
    assert port
    row = {"host_ip": "127.0.0.1", "host_port": int(port[1]), "sandbox_port": 8080, "protocol": "tcp4"}
    assert sbx.json("ports", "one", "--json") == [row]
    assert sbx.json("ls", "--json")["sandboxes"][0]["ports"] == [row]
    assert f"409 Conflict: port 127.0.0.1:{port[1]}/tcp is already published" in sbx.failed(
        "ports", "one", "--publish", f"{port[1]}:9"
    )
    sbx.said("ports", "one", "--unpublish", f"{port[1]}:8080")
    assert sbx.json("ports", "one", "--json") == []
