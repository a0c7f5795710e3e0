"""Every switch of a reported bug changes what it says, and every fault comes where and as often as it was asked for."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.testing.sbx.asking import RUN_S
from jamcore.testing.sbx.bugs import BUGS, FAULTS
from jamcore.testing.sbx.configuration import read
from jamcore.testing.sbx.simulator import Simulator

Make = Callable[..., Simulator]
HANG_S = 1.5
"""A command that is expected to hang is killed after that; one that is not may take as long as a busy machine needs."""


def hangs(sbx: Simulator, *words: str) -> bool:
    """Whether a command does not end. Where nothing could make it hang, it is waited for however long it takes."""
    told = read(sbx.root)
    try:
        sbx.run(*words, timeout_s=HANG_S if told.bugs or told.faults else RUN_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def one(sbx: Simulator, workspace: Path) -> None:
    """Make a sandbox."""
    sbx.said("create", "--name", "one", "shell", str(workspace))


def ip_port_ignored(sbx: Simulator, workspace: Path) -> object:
    """Ask for the address and port of a rule."""
    sbx.said("policy", "allow", "network", "10.1.2.3:80")
    return sbx.run("policy", "check", "network", "10.1.2.3:80").returncode


def tty_size_zero(sbx: Simulator, workspace: Path) -> object:
    """Ask the guest for the size of its terminal."""
    one(sbx, workspace)
    master, slave = pty.openpty()
    subprocess.run(("stty", "rows", "33", "cols", "99"), stdin=slave, check=True)
    process = sbx.popen("exec", "-t", "one", "stty", "size", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = os.read(master, 100)
    process.wait()
    os.close(master)
    return seen


def kit_hosts_open(sbx: Simulator, workspace: Path) -> object:
    """Look for the rule that a kit's host is allowed by."""
    spec = 'schemaVersion: 2\nkind: mixin\nname: k\npermissions: {"network": {"allow": ["kit.example"]}}\n'
    (workspace / "spec.yaml").write_text(spec)
    sbx.said("create", "--name", "one", "--kit", str(workspace), "shell", str(workspace))
    assert sbx.run("policy", "check", "network", "--sandbox", "one", "kit.example").returncode == 0
    return "kit.example" in sbx.said("policy", "ls", "one", "--json")


def ssh_agent_forwarded(sbx: Simulator, workspace: Path) -> object:
    """Look for an agent's socket in the guest, with forwarding switched off."""
    sbx.said("daemon", "stop")
    sbx.said("daemon", "start", "-d", SSH_AUTH_SOCK="/run/x")
    sbx.said("settings", "set", "ssh.agentForwardingEnabled", "false")
    one(sbx, workspace)
    return b"SSH_AUTH_SOCK=" in sbx.run("exec", "one", "env").stdout


def read_only_ignored(sbx: Simulator, workspace: Path) -> object:
    """Write to what is read-only."""
    (workspace / "ref").mkdir()
    (workspace / "own").mkdir()
    sbx.said("create", "--name", "one", "shell", str(workspace / "own"), f"{workspace}/ref:ro")
    return sbx.run("exec", "one", "touch", f"{workspace}/ref/x").returncode


def catch_all_hangs_ls(sbx: Simulator, workspace: Path) -> object:
    """List with a rule for everything."""
    sbx.said("policy", "allow", "network", "**")
    return hangs(sbx, "ls")


def no_policy_json(sbx: Simulator, workspace: Path) -> object:
    """Ask for the rules as JSON."""
    return sbx.run("policy", "ls", "--json").stderr


def scoped_allow_lost(sbx: Simulator, workspace: Path) -> object:
    """Look for a rule after a stop."""
    one(sbx, workspace)
    sbx.said("policy", "allow", "network", "--sandbox", "one", "own.example")
    sbx.said("stop", "one")
    return "own.example" in sbx.said("policy", "ls", "one", "--json")


def no_executor(sbx: Simulator, workspace: Path) -> object:
    """Run a command."""
    one(sbx, workspace)
    return hangs(sbx, "exec", "one", "true")


def env_file_ignored(sbx: Simulator, workspace: Path) -> object:
    """Look for a variable of a file."""
    one(sbx, workspace)
    (workspace / "vars").write_text("FROM_FILE=1\n")
    return b"FROM_FILE=1" in sbx.run("exec", "--env-file", str(workspace / "vars"), "one", "env").stdout


def exec_blocks_ls(sbx: Simulator, workspace: Path) -> object:
    """List while a command runs."""
    one(sbx, workspace)
    busy = sbx.popen("exec", "one", "sh", "-c", "echo begun; sleep 600", stdout=subprocess.PIPE)
    assert busy.stdout
    assert busy.stdout.readline() == b"begun\n"
    found = hangs(sbx, "ls")
    busy.kill()
    busy.communicate()
    return found


def lost_after_sleep(sbx: Simulator, workspace: Path) -> object:
    """List after a restart."""
    one(sbx, workspace)
    sbx.said("daemon", "restart")
    return len(sbx.json("ls", "--json")["sandboxes"])


def created_stays(sbx: Simulator, workspace: Path) -> object:
    """Look in the log for the stop of one that nobody used; another, which was used, is stopped later."""
    sbx.configure(idle_s=0.2)
    one(sbx, workspace)
    sbx.said("create", "--name", "two", "shell", str(workspace))
    sbx.said("exec", "two", "true")
    while "runtime two stopped" not in sbx.log.read_text():
        time.sleep(0.05)
    return "runtime one stopped" in sbx.log.read_text()


def secrets_ask_import(sbx: Simulator, workspace: Path) -> object:
    """List secrets for the first time."""
    return sbx.said("secret", "ls")


def kit_service_not_injected(sbx: Simulator, workspace: Path) -> object:
    """See what a server is sent."""
    sbx.said("secret", "set", "openai", "-t", "sk-real")
    sbx.configure(world={"api.openai.com": "127.0.0.1:9"})
    one(sbx, workspace)
    script = (
        "import http.server, threading, urllib.request, os\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n        self.send_response(200); self.end_headers(); self.wfile.write(self.headers['X'].encode())\n"
        "    def log_message(self, *a): pass\n"
        "s = http.server.HTTPServer(('0.0.0.0', 8000), H); s.serve_forever()\n"
    )
    server = sbx.popen("exec", "one", "python3", "-c", script, stdin=subprocess.DEVNULL)
    port = sbx.said("ports", "one", "--publish", "8000").split("127.0.0.1:")[1].split(" ")[0]
    sbx.configure(world={"api.openai.com": f"127.0.0.1:{port}"})
    answer = b""
    while not answer.startswith((b"sk-", b"proxy-")):
        answer = sbx.run("exec", "one", "curl", "-s", "-H", "X: proxy-managed", "http://api.openai.com/").stdout
    sbx.said("stop", "one")
    server.wait()
    return answer


def daemon_crashes(sbx: Simulator, workspace: Path) -> object:
    """Run eight commands."""
    one(sbx, workspace)
    return [sbx.run("exec", "one", "true").returncode for _ in range(8)]


def check_host_wrong(sbx: Simulator, workspace: Path) -> object:
    """Check the host's own name."""
    sbx.said("policy", "allow", "network", "localhost:8080")
    return sbx.run("policy", "check", "network", "host.docker.internal:8080").returncode


def dot_directory_fails(sbx: Simulator, workspace: Path) -> object:
    """Work in a directory whose name begins with a dot."""
    (workspace / ".dot").mkdir()
    return sbx.run("create", "--name", "one", "shell", str(workspace / ".dot")).returncode


def create_fails(sbx: Simulator, workspace: Path) -> object:
    """Make a sandbox."""
    return sbx.run("create", "--name", "one", "shell", str(workspace)).stderr


def mounts_missing(sbx: Simulator, workspace: Path) -> object:
    """Inspect."""
    one(sbx, workspace)
    return "mounts" in sbx.json("inspect", "one", "--json")


def rm_missing_ok(sbx: Simulator, workspace: Path) -> object:
    """Remove what is not there."""
    done = sbx.run("rm", "--force", "none")
    return done.returncode, done.stderr


FAILED = b"error: failed to create sandbox: failed to run sandbox container\n"
SEEN: dict[str, tuple[Callable[[Simulator, Path], object], object, object]] = {
    "ip-port-ignored": (ip_port_ignored, 0, 1),
    "tty-size-zero": (tty_size_zero, b"33 99\r\n", b"0 0\r\n"),
    "kit-hosts-open": (kit_hosts_open, True, False),
    "ssh-agent-forwarded": (ssh_agent_forwarded, False, True),
    "read-only-ignored": (read_only_ignored, 1, 0),
    "catch-all-hangs-ls": (catch_all_hangs_ls, False, True),
    "no-policy-json": (no_policy_json, b"", b"error: unknown flag: --json\n"),
    "scoped-allow-lost": (scoped_allow_lost, True, False),
    "root-500": (create_fails, b"", b"error: request failed: 500 Internal Server Error: failed to create sandbox\n"),
    "no-executor": (no_executor, False, True),
    "env-file-ignored": (env_file_ignored, True, False),
    "daemon-hangs": (lambda sbx, _: hangs(sbx, "ls"), False, True),
    "exec-blocks-ls": (exec_blocks_ls, False, True),
    "lost-after-sleep": (lost_after_sleep, 1, 0),
    "created-stays": (created_stays, True, False),
    "secrets-ask-import": (
        secrets_ask_import,
        'No secrets found for scope "all".\n',
        'Import credentials from your environment? (y/N): \nNo secrets found for scope "all".\n',
    ),
    "kit-service-not-injected": (kit_service_not_injected, b"sk-real", b"proxy-managed"),
    "daemon-crashes": (daemon_crashes, [0] * 8, [0] * 7 + [1]),
    "image-lock": (lambda sbx, path: hangs(sbx, "create", "shell", str(path)) and hangs(sbx, "ls"), False, True),
    "check-host-wrong": (check_host_wrong, 0, 1),
    "workspace-fails": (create_fails, b"", FAILED),
    "dot-directory-fails": (dot_directory_fails, 0, 1),
    "inspect-mounts-missing": (mounts_missing, True, False),
    "rm-missing-ok": (
        rm_missing_ok,
        (1, b"error: sandbox 'none' not found\n  try: sbx ls\n"),
        (0, b"Error: sandbox 'none' not found\n"),
    ),
}
"""For each switch: what is done, and what is seen without and with it."""


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("name", BUGS)
def test_a_switch_changes_what_it_says(make: Make, workspace: Path, name: str) -> None:
    """Off by itself, and on where it is asked for."""
    do, without, with_it = SEEN[name]
    for on, expected in ((False, without), (True, with_it)):
        sbx = make(rule_delay_s=0.0)
        sbx.said("ls")
        sbx.bug(*([name] if on else []))
        place = workspace / str(on)
        place.mkdir()
        assert do(sbx, place) == expected, (name, on)
        sbx.end()


def test_an_unknown_switch_or_fault_is_refused(make: Make) -> None:
    """A misspelt one would change nothing, and prove nothing."""
    sbx = make()
    with pytest.raises(ValueError, match="no such bug: nonsense"):
        sbx.bug("nonsense")
    with pytest.raises(ValueError, match="no such fault: nonsense"):
        sbx.fault("ls", "nonsense")


# ---------------------------------------------------------------------------------------------------- faults

LS = b'{"sandboxes":[]}\n'


@pytest.fixture
def ready(make: Make) -> Simulator:
    """One whose daemon runs."""
    sbx = make()
    sbx.said("ls")
    return sbx


def test_a_fault_comes_where_and_as_often_as_it_was_asked_for(ready: Simulator) -> None:
    """By command, after so many, so many times; other commands are let alone."""
    ready.fault("policy ls", "exit", after=1, times=2, code=3, text="ERROR: on demand")
    codes = [ready.run("policy", "ls").returncode for _ in range(4)]
    assert codes == [0, 3, 3, 0]
    ready.fault("ls", "exit", code=9)
    assert ready.run("policy", "ls").returncode == 0
    done = ready.run("ls")
    assert (done.returncode, done.stdout) == (9, b"")


def test_hang_and_slow(ready: Simulator) -> None:
    """One does not end, the other does what it does."""
    ready.fault("ls", "hang")
    assert hangs(ready, "ls")
    ready.fault("ls", "slow", after=1, seconds=0.2)
    assert ready.run("ls", "--json").stdout == LS


def test_output_that_is_spoilt(ready: Simulator) -> None:
    """Half a document, lines before it, a box after it [ISS #201, DEN]; a driver takes the one document out of the latter two."""
    for number, kind in enumerate(("partial-json", "start-lines", "update-box")):
        ready.fault("ls", kind, after=number)
    half, before, after = (ready.run("ls", "--json").stdout for _ in range(3))
    assert half == LS[: len(LS) // 2]
    assert before.endswith(LS)
    assert before.startswith(b"Starting sandboxd daemon...\nDaemon started (PID: 12345, socket: ")
    assert after.startswith(LS)
    assert "Docker Sandboxes Update Available" in after.decode()
    document, _ = json.JSONDecoder().raw_decode(after.decode())
    assert document == {"sandboxes": []}


def test_a_question_on_demand(ready: Simulator) -> None:
    """The prompt of a daemon of another version; declined it is an error, and nothing was restarted."""
    ready.fault("ls", "mismatch-prompt")
    daemons = ready.daemons()
    done = ready.run("ls")
    assert done.returncode == 1
    assert done.stdout.endswith(b"Restart now? (y/N): \n")
    assert ready.daemons() == daemons


@pytest.mark.needs("bubblewrap")
def test_a_daemon_that_dies_in_the_middle(ready: Simulator, workspace: Path) -> None:
    """Before it did anything, or after it did it and before it said so: the caller cannot tell."""
    ready.fault("create", "daemon-dies-first")
    ready.fault("create", "daemon-dies", after=1)
    words = ("create", "--name", "one", "shell", str(workspace))
    assert "EOF" in ready.failed(*words)
    ready.said("ls")
    assert ready.json("ls", "--json") == {"sandboxes": []}
    assert "EOF" in ready.failed(*words)
    ready.said("ls")
    assert [row["status"] for row in ready.json("ls", "--json")["sandboxes"]] == ["stopped"]


def test_a_daemon_that_does_not_come_up(ready: Simulator) -> None:
    """`ensure daemon: daemon failed to start properly within 1m0s` plus `check logs at: PATH` [ISS #258, #542]."""
    ready.fault("ls", "daemon-does-not-start")
    said = f"error: ensure daemon: daemon failed to start properly within 1m0s\ncheck logs at: {ready.log}\n"
    assert ready.failed("ls") == said


def test_every_fault_is_tried_here() -> None:
    """None is forgotten."""
    text = Path(__file__).read_text()
    assert [kind for kind in FAULTS if f'"{kind}"' not in text] == []
