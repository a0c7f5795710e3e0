"""``jam run`` as a person types it, from an objective to a change request with its evidence: real program, real sandbox (RUN-1, SEC-3)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.testing.daemon import DaemonChild, gone
from jamcore.testing.servers.responses import Call, Match, ResponsesServer, Rule, Script, Text, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex", "git")]

OBJECTIVE = "Mend the thing \x1b[2J and prove it"
EVIL = "\x1b]0;owned\x07\x1b[2J\u202eevil"
COMMANDS = (
    ("call_write", "printf 'two\\n' >> a.txt && printf 'x' > \"$(printf 'e\\033[2Jvil.txt')\""),
    ("call_fail", "printf 'no \\033]0;owned\\007such test\\n'; exit 7"),
    ("call_prove", "printf 'proven\\n' > proof.txt && cat proof.txt"),
)
SGR = re.compile(r"\x1b\[[0-9;]*m|\x1b\[K|\x1b\[\?25[lh]|\r")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
async def model() -> AsyncIterator[ResponsesServer]:
    """A model that works on the objective with three commands, one of which fails, and reports in words that would steer a terminal."""
    rules = [say(f"Once more: {EVIL}", match=Match(last_user_contains="once more"))]
    for place, (call, command) in enumerate(COMMANDS):
        match = Match(tool_output=COMMANDS[place - 1][0]) if place else Match(last_user_contains="Mend the thing")
        rules.append(Rule(match=match, answer=(Call(name="exec_command", arguments={"cmd": command}, call_id=call),), times=1))
    rules.append(Rule(match=Match(tool_output=COMMANDS[-1][0]), answer=(Text(deltas=("It is ", f"mended. {EVIL}")),)))
    async with ResponsesServer(Script(rules=tuple(rules))) as server:
        yield server


@pytest.fixture
def jam(app: Path, daemon: DaemonChild, client: JamClient) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Type a command of ``jam``, on a pseudo terminal where asked, against the daemon that runs."""
    assert daemon.private is not None
    variables = {**os.environ, "JAM_HOME": str(app), "XDG_RUNTIME_DIR": str(daemon.private / "run"), "TERM": "xterm"}

    def call(*words: str, terminal: bool = False, typed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        program = (sys.executable, "-P", "-m", "jamcore.cli.main", *words)
        argv = (sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", *program) if terminal else program
        return subprocess.run(argv, env=variables, input=typed, capture_output=True, timeout=60, check=False)

    return call


def payloads(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the payloads of one kind from the lines that a run printed."""
    return [line["event"]["payload"] for line in lines if "event" in line and line["event"]["payload"]["kind"] == kind]


@pytest.mark.guarantee("RUN-1")
async def test_from_an_objective_to_a_change_request(
    jam: Callable[..., subprocess.CompletedProcess[bytes]],
    client: JamClient,
    daemon: DaemonChild,
    model: ResponsesServer,
    repository: Callable[[Path], Path],
    git: Callable[..., str],
    tmp_path: Path,
) -> None:
    """One command: plan, sandbox, work, evidence, package. The checkout is not touched, the patch applies, and all outlives the sandbox."""
    repo = repository(tmp_path / "repo")
    words = ("run", "codex", OBJECTIVE, "--repo", str(repo), "--endpoint", model.base_url, "--json")
    done = await to_thread.run_sync(lambda: jam(*words))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [said["text"] for said in payloads(lines, "user.said")] == [OBJECTIVE]
    assert [bool(each["exit_code"]) for each in payloads(lines, "command.finished")] == [False, True, False]
    assert payloads(lines, "turn.state")[-1]["state"] == "captured"

    change = lines[-1]["run"]["change"]
    assert change["objective"] == OBJECTIVE
    assert change["complete"] is True
    assert sorted(path["path"] for path in change["paths"]) == ["a.txt", "e\\x1b[2Jvil.txt", "proof.txt"]
    package = daemon.app / layout.change(change["id"])
    for file in change["files"]:
        assert hashlib.sha256((package / file["name"]).read_bytes()).hexdigest() == file["sha256"], file
    evidence = json.loads((package / "evidence.json").read_bytes())
    assert [turn["text"] for turn in evidence["turns"]] == [OBJECTIVE]
    assert [each["exit_code"] for each in evidence["commands"]] == [0, 7, 0]
    assert evidence["base_commit"] == git(repo, "rev-parse", "HEAD")
    assert evidence["checkpoints"]
    transcript = [json.loads(line) for line in (package / "transcript.jsonl").read_bytes().splitlines()]
    assert {"user.said", "command.finished", "message", "turn.ended"} <= {event["payload"]["kind"] for event in transcript}

    assert git(repo, "status", "--porcelain") == ""
    family = daemon.family()
    await client.stop(lines[-1]["run"]["room"]["room"]["id"])
    assert not await to_thread.run_sync(gone, family - daemon.family())
    git(repo, "apply", str(package / "change.patch"))
    assert (repo / "a.txt").read_text() == "one\ntwo\n"
    assert (repo / "proof.txt").read_text() == "proven\n"


@pytest.mark.guarantee("SEC-3")
async def test_what_the_agent_makes_steers_no_terminal(
    jam: Callable[..., subprocess.CompletedProcess[bytes]],
    client: JamClient,
    app: Path,
    model: ResponsesServer,
    repository: Callable[[Path], Path],
    tmp_path: Path,
) -> None:
    """Its words, what its commands print, the names of its files and its patch, on a terminal: visible, and nothing but colours acts."""
    repo = repository(tmp_path / "repo")
    words = ("run", "codex", OBJECTIVE, "--repo", str(repo), "--endpoint", model.base_url)
    shown: dict[tuple[str, ...], subprocess.CompletedProcess[bytes]] = {}
    shown["run",] = await to_thread.run_sync(lambda: jam(*words, terminal=True))
    (room,) = await client.rooms()
    (change,) = [path.name for path in (app / layout.CHANGES).iterdir()]
    ref = str(room.room.id)
    shown["attach",] = await to_thread.run_sync(lambda: jam("attach", ref, typed=b"once more\n"))
    for later in (("room", "show", ref), ("change", "show", change), ("change", "ls"), ("ls",)):
        shown[later[:2]] = await to_thread.run_sync(partial(jam, *later, terminal=True))
    for command, done in shown.items():
        text = (done.stdout + done.stderr).decode()
        assert not CONTROLS.search(SGR.sub("", text)), (command, text)
    run = shown["run",].stdout.decode()
    assert "\\u202eevil" in run
    assert "no \\x1b]0;owned\\x07such test" in run
    assert "e\\x1b[2Jvil.txt" in run
    assert b"Once more: \\x1b]0;owned" in shown["attach",].stdout
    assert "e\\x1b[2Jvil.txt" in shown["change", "show"].stdout.decode()
