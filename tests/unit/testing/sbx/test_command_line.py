"""The command line without any sandbox: errors, version, login, daemon, settings, against the samples of the facts sheet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.testing.guards import descendants, settle
from jamcore.testing.sbx.commands import COMMANDS, NOT_SIMULATED
from jamcore.testing.sbx.known import VERSIONS, minor
from jamcore.testing.sbx.simulator import Simulator

Make = Callable[..., Simulator]
EACH = pytest.mark.parametrize("version", VERSIONS)


@EACH
def test_errors_have_the_prefix_of_the_version(make: Make, version: str) -> None:
    """`ERROR: unknown flag: --json` [SDK], `error: …` in small letters from 0.45 [ISS #618], exit 1 [DEN]."""
    sbx = make(version)
    prefix = "error" if minor(version) >= 45 else "ERROR"
    assert sbx.failed("stop", "--json", "x") == f"{prefix}: unknown flag: --json\n"
    assert sbx.failed("--version") == f"{prefix}: unknown flag: --version\n"
    assert sbx.failed("ports") == f"{prefix}: accepts 1 arg(s), received 0\n"
    assert sbx.failed("create", "--branch", "x", "shell") == f"{prefix}: --branch is no longer supported; use --clone instead\n"
    assert sbx.failed("create", "--cpus", "many", "shell").startswith(f'{prefix}: invalid argument "many" for "--cpus" flag: ')
    assert sbx.failed("create", "--name") == f"{prefix}: flag needs an argument: --name\n"
    assert sbx.failed("ls", "-z") == f"{prefix}: unknown shorthand flag: 'z' in -z\n"
    assert sbx.daemons() == (), "a wrong line needs no daemon"


def test_an_unknown_subcommand_is_help_at_first_and_later_an_error(make: Make) -> None:
    """Unknown subcommand: help text, exit 0, until 0.38; an error from 0.39 [RN]."""
    assert make("0.35").said("nonsense").startswith("Usage:\n")
    assert make("0.39").failed("nonsense") == 'ERROR: unknown command "nonsense" for "sbx"\n'
    assert make("0.47").failed("policy", "nonsense") == 'error: unknown command "nonsense" for "sbx policy"\n'


def test_what_came_later_is_not_known_before(make: Make) -> None:
    """`version --json` and `secret ls --json` 0.42, `mcp` 0.38, `env` 0.39, `--skills` 0.43, `-e` 0.39 [RN]."""
    old = make("0.35")
    for words in (("create", "-e", "A=b", "shell"), ("create", "--static-mcp", "x", "shell"), ("version", "--json")):
        assert "ERROR: unknown " in old.failed(*words)
    for words in (("mcp", "ls"), ("env", "plan"), ("daemon", "restart")):
        assert old.said(*words).startswith("Usage:")
    assert "unknown flag: --json" in make("0.39").failed("secret", "ls", "--json")
    assert "unknown flag: --skills" in make("0.39").failed("create", "--skills", "off", "shell")


@EACH
def test_version_is_one_line_and_starts_no_daemon(make: Make, version: str) -> None:
    """`sbx version: v0.38.0 c022b14634c4bea846ca12870d1d5e97d5868b54` [SDK]; the JSON of 0.42 [SDK, CEZ, HURA]."""
    sbx = make(version)
    assert re.fullmatch(rf"sbx version: v{re.escape(version)}\.0 [0-9a-f]{{40}}\n", sbx.said("version"))
    if minor(version) >= 42:
        found = sbx.json("version", "--json")
        assert found["client"]["version"] == f"v{version}.0"
        assert found["server"]["state"] == "unavailable"
    assert sbx.daemons() == ()


def test_a_command_that_starts_the_daemon_says_so_before_its_json(make: Make) -> None:
    """Three lines on stdout before the payload, even with `--json` [ISS #201, DEN]; the next command has the payload alone."""
    sbx = make()
    lines = sbx.said("ls", "--json").splitlines()
    (daemon,) = sbx.daemons()
    assert lines[0] == "Starting sandboxd daemon..."
    assert lines[1] == f"Daemon started (PID: {daemon}, socket: {sbx.socket})"
    assert lines[2] == f"Logs: {sbx.log}"
    assert json.loads(lines[3]) == {"sandboxes": []}
    assert sbx.said("ls", "--json") == '{"sandboxes":[]}\n'
    assert sbx.said("ls") == "No sandboxes found.\n"
    assert sbx.json("version", "--json")["server"] == {"state": "running", "version": "v0.47.0"}


@EACH
def test_the_daemon_s_status(make: Make, version: str) -> None:
    """`Status: stopped`, `Socket: PATH (not connected)`, exit 0 on 0.45.1 [KT]; running, as JSON complete [CAP, SDK]."""
    sbx = make(version)
    stopped = sbx.run("daemon", "status")
    assert stopped.stdout.decode() == f"Status: stopped\nSocket: {sbx.socket} (not connected)\n"
    assert stopped.returncode == (0 if minor(version) >= 45 else 1)
    sbx.said("daemon", "start", "--detach")
    assert sbx.said("daemon", "status") == f"Status: running\nSocket: {sbx.socket}\nLogs: {sbx.log}\n"
    assert sbx.json("daemon", "status", "--json") == {"status": "running", "socket": str(sbx.socket), "logs": str(sbx.log)}
    assert sbx.said("daemon", "stop") == f"Stopping daemon at {sbx.socket}\n✓ Daemon stopped successfully\n"
    assert sbx.daemons() == ()


def test_the_daemon_in_the_foreground_is_the_process_itself(make: Make) -> None:
    """`daemon start` is in the foreground without `-d` [SDK, D]; it ends on SIGTERM."""
    sbx = make()
    process = sbx.popen("daemon", "start")
    while "Status: running" not in sbx.said("daemon", "status"):
        pass
    assert sbx.daemons() == (process.pid,)
    assert "already running" in sbx.said("daemon", "start")
    process.terminate()
    assert process.wait() == 0
    assert "Status: stopped" in sbx.said("daemon", "status")


def test_diagnose_names_what_is_wrong(make: Make) -> None:
    """Thirteen checks, and a summary that counts them [CAP, SDK]; which of them fails says how the machine is."""
    sbx = make()
    sbx.said("ls")
    found = sbx.json("diagnose", "--json")
    assert found["version"] == "1.0"
    assert len(found["checks"]) == 13
    assert {frozenset(check) for check in found["checks"]} == {frozenset(("name", "status", "message", "detail", "hint"))}
    assert found["summary"]["fail"] == 0
    sbx.configure(virtualisation=False, login="out")
    found = sbx.json("diagnose", "-o", "json")
    assert [check["name"] for check in found["checks"] if check["status"] == "fail"] == ["Virtualization", "Authentication"]
    assert found["summary"] == {"pass": 10, "warn": 0, "fail": 2, "skip": 1}


@pytest.mark.parametrize(("version", "said"), [
    ("0.35", "ERROR: Not authenticated to Docker\nSign in with: sbx login\n"),
    ("0.47", "error: Not authenticated to Docker\n  try: sbx login\n"),
])  # fmt: skip
def test_who_is_not_signed_in_is_told_so(make: Make, version: str, said: str) -> None:
    """[DEN] for the older, [KT, CAP] for the newer; a token on stdin signs in, `logout` signs out again."""
    sbx = make(version, login="out")
    assert sbx.failed("ls") == said
    assert "Signed in as me" in sbx.said("login", "--username", "me", "--password-stdin", stdin=b"token\n")
    sbx.said("ls")
    sbx.said("logout", "--yes")
    assert sbx.failed("ls") == said


def test_an_expired_session_begins_to_sign_in_and_waits_for_stdin(make: Make) -> None:
    """Even `sbx ls` starts an interactive sign-in; closing stdin is the only workaround [ISS #109, #406]."""
    done = make(login="expired").run("ls", "--json")
    assert done.stdout.startswith(b"Your Docker session has expired. Starting the sign-in flow...\n")
    assert b"Waiting for authentication...\n" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(("version", "said"), [
    ("0.35", "ERROR: global network policy has not been initialized\n"),
    ("0.47", "error: global network policy has not been initialized\n  try: sbx policy init <allow-all|balanced|deny-all>\n"),
])  # fmt: skip
def test_without_a_policy_nothing_is_made(make: Make, workspace: Path, version: str, said: str) -> None:
    """[KT, CAP]; `policy check` says it with a 412 [KT], and `policy init` once mends it [CAP]."""
    sbx = make(version, policy="")
    sbx.said("ls")
    assert sbx.failed("create", "shell", str(workspace)) == said
    assert "412 Precondition Failed: global network policy has not been initialized" in sbx.failed(
        "policy", "check", "network", "x.org"
    )
    assert sbx.said("policy", "init", "balanced") == 'Global network policy initialized to "balanced".\n'
    sbx.failed("policy", "init", "balanced")
    sbx.said("policy", "ls")


def test_another_state_directory_is_another_daemon_which_is_signed_out(make: Make, tmp_path: Path) -> None:
    """XDG directories select the state: a driver that changes them talks to a second, empty, signed-out daemon [HURA]."""
    sbx = make()
    sbx.said("ls")
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "other")}
    assert "Not authenticated" in sbx.failed("ls", **elsewhere)
    sbx.said("login", "--username", "me", "--password-stdin", stdin=b"t", **elsewhere)
    assert "not been initialized" in sbx.failed("policy", "ls", **elsewhere)
    assert len(sbx.daemons()) == 2


def test_a_daemon_of_another_version_is_restarted_after_a_question(make: Make) -> None:
    """The prompt [SDK, RN]; declined it is an error from 0.45 on [RN]."""
    sbx = make("0.43")
    sbx.said("ls")
    sbx.configure(version="0.47")
    declined = sbx.run("ls", "--json")
    assert declined.returncode == 1
    assert declined.stdout.decode() == (
        "Client Version: v0.47.0\nServer Version: v0.43.0\n"
        "Docker Sandboxes has been updated and needs to restart. All running sandboxes will be stopped.\n"
        "Restart now? (y/N): \n"
    )
    assert sbx.said("ls", stdin=b"y\n").endswith("No sandboxes found.\n")
    assert sbx.json("version", "--json")["server"]["version"] == "v0.47.0"


def test_settings_say_where_a_value_comes_from(make: Make) -> None:
    """`{"key","value","source":"default|override"}`, and `settings set` prints `source=override` [DCA, KT]."""
    sbx = make()
    sbx.said("ls")
    assert sbx.json("settings", "get", "kit.allowedSources", "--json")["value"] == ["docker.io/"]
    assert "source=override" in sbx.said("settings", "set", "ssh.agentForwardingEnabled", "false")
    found = sbx.json("settings", "get", "--json", "ssh.agentForwardingEnabled")
    assert (found["value"], found["source"], found["default"]) == (False, "override", True)
    sbx.said("settings", "unset", "ssh.agentForwardingEnabled")
    assert sbx.said("settings", "get", "ssh.agentForwardingEnabled") == "true\n"
    assert "unknown setting" in sbx.failed("settings", "get", "nonsense")


def test_mcp_servers_are_registered(make: Make) -> None:
    """`MCP server "notion" registered (type: remote)` [SDK]; the JSON [CAP]; a missing one is an error from 0.45 on [RN]."""
    sbx = make()
    sbx.said("ls")
    assert sbx.said("mcp", "ls") == "No MCP servers registered\n"
    assert sbx.said("mcp", "add", "notion", "--url", "https://mcp.example/") == 'MCP server "notion" registered (type: remote)\n'
    found = sbx.json("mcp", "ls", "--json")
    assert found["servers"] == [{"name": "notion", "transport": "remote http", "status": "ready", "type": "remote"}]
    assert found["gateway"]["operator"] == "managed by you"
    assert "Transport: streamable-http\n" in sbx.said("mcp", "inspect", "notion")
    assert "stdin is not a terminal" in sbx.failed("mcp", "rm", "notion")
    sbx.said("mcp", "rm", "-f", "notion")
    sbx.failed("mcp", "rm", "-f", "notion")
    make("0.43").said("mcp", "rm", "nonsense")


def test_what_is_not_simulated_says_so(make: Make) -> None:
    """No command of the real program is silently something else."""
    sbx = make()
    for name in NOT_SIMULATED:
        assert "not simulated" in sbx.failed(*name.split(), "x"), name
    assert "not simulated" in sbx.failed("ls", "--cloud")
    assert not {command.path for command in COMMANDS} & set(NOT_SIMULATED)


def test_two_simulators_live_beside_each_other(make: Make) -> None:
    """Each with its own daemon; the end of one leaves the other alone."""
    one, other = make("0.35"), make("0.47")
    one.said("ls")
    other.said("ls")
    assert one.daemons() != other.daemons()
    assert one.end() == ()
    assert one.daemons() == ()
    assert other.said("ls") == "No sandboxes found.\n"


def test_a_simulator_ends_its_daemon_at_the_latest_after_a_while(make: Make) -> None:
    """Also when nobody ends it: its time is bounded, and it goes with its directory."""
    sbx = make(daemon_limit_s=0.5)
    sbx.said("ls")
    (daemon,) = sbx.daemons()
    (process,) = [each for each in descendants() if each.pid == daemon]
    assert settle([process], 20.0) == ()
    assert sbx.daemons() == ()
