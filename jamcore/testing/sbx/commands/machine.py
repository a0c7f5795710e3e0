"""``version``, ``diagnose``, ``login``, ``logout``, ``daemon`` and ``reset``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from jamcore.testing.sbx.configuration import change
from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag

SHA = "c022b14634c4bea846ca12870d1d5e97d5868b54"
NOT_RUNNING = "daemon is not running"


def version(call: Call) -> None:
    """Print the version; no daemon is started."""
    if call.gates("version.json") and call.flag("json"):
        found = call.daemon.running()
        server = {"state": "unavailable"} if found is None else {"state": "running", "version": found["version"]}
        call.json({"client": {"version": call.gates.full, "revision": SHA}, "server": server})
        return
    call.console.print(f"sbx version: {call.gates.full} {SHA}")


def diagnose(call: Call) -> None:
    """Print what is well and what is not; no daemon is started."""
    found = call.daemon.running()
    checks = _checks(call, None if found is None else str(found["version"]))
    counts = {status: sum(check["status"] == status for check in checks) for status in ("pass", "warn", "fail", "skip")}
    if call.flag("json") or call.flag("output") == "json":
        call.json({"version": "1.0", "checks": checks, "summary": counts})
        return
    marks = {"pass": "✓", "warn": "!", "fail": "✗", "skip": "-"}
    for check in checks:
        call.console.print(f"{marks[check['status']]} {check['name']}: {check['message']}")
    call.console.print("", ", ".join(f"{number} {status}" for status, number in counts.items()))


def _checks(call: Call, server: str | None) -> list[Mapping[str, str]]:
    def check(name: str, status: str = "pass", message: str = "ok", hint: str = "") -> Mapping[str, str]:
        return {"name": name, "status": status, "message": message, "detail": "", "hint": hint}

    down = "skip" if server is None else "pass"
    same = "skip" if server is None else "pass" if server == call.gates.full else "fail"
    return [
        check("CLI binary"),
        check("Binary version", message=call.gates.full),
        check("Daemon", "pass" if server else "warn", "running" if server else "not running", "" if server else "sbx daemon start"),
        check("Daemon diagnostics", down),
        check("Virtualization", "pass") if call.told.virtualisation else check("Virtualization", "fail", "KVM is not available"),
        check("mkfs.erofs"),
        check("Storage directories"),
        check("Directory permissions"),
        check("Disk space"),
        check("Version match", same, "ok" if same == "pass" else f"server {server}"),
        check("Socket", down),
        check("SSH client config", "skip", "not configured"),
        check("Authentication") if call.login == "in" else check("Authentication", "fail", "not signed in", "sbx login"),
    ]


def login(call: Call) -> None:
    """Sign in with a token from stdin."""
    user = call.flag("username") or call.told.user
    if call.flag("password-stdin") and not sys.stdin.buffer.read(1 << 16).strip():
        raise Failure("password is empty")
    if not call.flag("password-stdin") and not os.isatty(0):
        raise Failure("cannot sign in without a terminal; use --username and --password-stdin")
    call.sign("in")
    call.console.print(f"Signed in as {user}")


def logout(call: Call) -> None:
    """Sign out, and stop every sandbox."""
    call.console.confirm("Sign out? All running sandboxes will be stopped. (y/N): ", force=bool(call.flag("yes")))
    if call.daemon.running() is not None:
        call.daemon.call("stop_all")
    call.sign("out")
    call.console.print("Signed out")


def daemon_start(call: Call) -> None:
    """Start the daemon; without ``--detach`` this process becomes it."""
    if policy := call.flag("policy"):
        change(call.place.root, policy=policy)
    if call.daemon.running() is not None:
        call.console.print("Daemon is already running")
        return
    if not call.flag("detach"):
        call.daemon.foreground()
    call.daemon.start()


def daemon_status(call: Call) -> int:
    """Print whether the daemon runs; it is not started."""
    running = call.daemon.running() is not None
    socket, logs = str(call.place.socket), str(call.place.log)
    if call.flag("json"):
        call.json({"status": "running" if running else "stopped", "socket": socket, "logs": logs})
    elif running:
        call.console.print("Status: running", f"Socket: {socket}", f"Logs: {logs}")
    else:
        call.console.print("Status: stopped", f"Socket: {socket} (not connected)")
    return 0 if running or call.gates("daemon.status-stopped") else 1


def daemon_stop(call: Call) -> None:
    """End the daemon."""
    if call.daemon.running() is None:
        raise Failure(NOT_RUNNING)
    call.console.print(f"Stopping daemon at {call.place.socket}")
    call.daemon.shutdown()
    call.console.print("✓ Daemon stopped successfully")


def daemon_restart(call: Call) -> None:
    """End the daemon, and start it again."""
    if call.daemon.running() is not None:
        daemon_stop(call)
    call.daemon.start()


def reset(call: Call) -> None:
    """Remove everything, sign out, and end the daemon."""
    call.console.confirm("Reset Docker Sandboxes? (y/N): ", force=bool(call.flag("force")))
    call.daemon.call("reset", preserve_secrets=bool(call.flag("preserve-secrets")))
    call.daemon.shutdown()
    call.sign("out")
    call.console.print("✓ Reset complete")


COMMANDS = (
    Command("version", version, (Flag("json", "", "bool", "version.json"),), open=True),
    Command("diagnose", diagnose, (Flag("json", "", "bool"), Flag("output", "o"), Flag("upload", "", "bool")), open=True),
    Command("login", login, (Flag("username"), Flag("password-stdin", "", "bool")), open=True),
    Command("logout", logout, (Flag("yes", "y", "bool"),), open=True),
    Command("daemon start", daemon_start, (Flag("detach", "d", "bool"), Flag("policy")), open=True),
    Command("daemon status", daemon_status, (Flag("json", "", "bool"),), open=True),
    Command("daemon stop", daemon_stop, open=True),
    Command("daemon restart", daemon_restart, gate="daemon.restart", open=True),
    Command("reset", reset, (Flag("force", "f", "bool"), Flag("preserve-secrets", "", "bool")), open=True),
)
