"""From the command line to the exit code, with the faults that were asked for."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.commands import COMMANDS, NOT_SIMULATED
from jamcore.testing.sbx.configuration import Configuration, Fault, Instance, instance, read, take_fault
from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.client import Client
from jamcore.testing.sbx.program.console import Console, Failure
from jamcore.testing.sbx.program.flags import HelpWanted, Parsed, UsageError, parse

FOREVER_S = 3600.0
SIGN_IN_S = 300.0
BOX = (
    "╭──────────────────────────────────────╮",
    "│  Docker Sandboxes Update Available   │",
    "│        {old} -> v0.99.0          │",
    "╰──────────────────────────────────────╯",
)


def main(argv: list[str]) -> int:
    """Run one command; the first word is the simulator's root."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    root, *words = argv
    told = read(Path(root))
    gates = Gates(told.version)
    console = Console(gates)
    environment = dict(os.environ)
    place = instance(Path(root), environment)
    half = False
    try:
        _simulated(words)
        parsed = parse(words, COMMANDS, gates)
        fault = take_fault(place.root, parsed.command.path, told.faults) if told.faults else None
        half = fault is not None and fault.kind == "partial-json"
        code = _run(parsed, told, gates, place, console, environment, fault)
    except HelpWanted as wanted:
        _help(str(wanted), gates, console)
        code = 0
    except UsageError as error:
        code = console.fail(Failure(str(error)))
    except Failure as failure:
        console.flush()
        code = console.fail(failure)
    except KeyboardInterrupt:
        code = 130
    console.flush(half=half)
    return code


def _simulated(words: list[str]) -> None:
    """Refuse what is not simulated.

    Raises:
        Failure: It is not.
    """
    said = " ".join(words) + " "
    for name, why in NOT_SIMULATED.items():
        if said.startswith(f"{name} "):
            raise Failure(f"{name}: not simulated ({why})")


def _run(
    parsed: Parsed,
    told: Configuration,
    gates: Gates,
    place: Instance,
    console: Console,
    environment: dict[str, str],
    fault: Fault | None,
) -> int:
    if parsed.flags["cloud"]:
        raise Failure("--cloud: not simulated (Docker Cloud)")
    client = Client(place, told, gates, console, environment)
    call = Call(parsed, told, gates, place, console, client, environment)
    if fault is not None:
        _before(fault, call)
        if fault.kind == "exit":
            if fault.text:
                console.say(fault.text)
            return fault.code
    if not parsed.command.open:
        _signed_in(call)
    code = parsed.command.run(call) or 0
    if fault is not None and fault.kind == "update-box":
        console.print(*(line.format(old=gates.full) for line in BOX))
    return code


def _before(fault: Fault, call: Call) -> None:
    """Do what a fault does before the command."""
    if fault.kind == "hang":
        time.sleep(FOREVER_S)
    elif fault.kind == "slow":
        time.sleep(fault.seconds)
    elif fault.kind == "mismatch-prompt":
        call.daemon.mismatch("v0.1.0")
    elif fault.kind == "start-lines":
        call.console.print("Starting sandboxd daemon...")
        call.console.print(f"Daemon started (PID: 12345, socket: {call.place.socket})", f"Logs: {call.place.log}")
    elif fault.kind == "daemon-dies":
        call.daemon.die = "after"
    elif fault.kind == "daemon-dies-first":
        call.daemon.die = "first"
    elif fault.kind == "daemon-does-not-start":
        raise Failure(f"ensure daemon: daemon failed to start properly within 1m0s\ncheck logs at: {call.place.log}")


def _signed_in(call: Call) -> None:
    """Refuse who is not signed in; an expired session begins to sign in, and waits (``login.expired``).

    Raises:
        Failure: Nobody is signed in.
    """
    if call.login == "expired":
        call.console.print(
            "Your Docker session has expired. Starting the sign-in flow...", "", "Your one-time device code is: ABCD-EFGH"
        )
        call.console.print("Open https://login.docker.com/activate to sign in.", "Waiting for authentication...")
        call.console.flush()
        signal.alarm(int(SIGN_IN_S))
        while sys.stdin.buffer.read(1):
            pass
    if call.login != "in":
        raise Failure("Not authenticated to Docker", "sbx login")


def _help(path: str, gates: Gates, console: Console) -> None:
    """Print a short help (``help.short``)."""
    known = [command for command in COMMANDS if not command.gate or gates(command.gate)]
    below = [command for command in known if command.path == path or command.path.startswith(f"{path} ") or not path]
    console.print(
        "Usage:", f"  sbx {path}".rstrip() + (" [flags]" if any(each.path == path for each in below) else " [command]"), ""
    )
    exact = next((command for command in below if command.path == path), None)
    if exact is None:
        depth = len(path.split())
        names = dict.fromkeys(command.path.split()[depth] for command in below)
        if not gates("settings.visible"):
            names.pop("settings", None)
        console.print("Available Commands:", *(f"  {name}" for name in names), "")
    else:
        console.print("Flags:", *(f"      --{flag.name}" for flag in exact.flags if not flag.gate or gates(flag.gate)))
