"""Every live test that can be is played against a scripted model, so that its code is known to run; that proves no account (LIVE-2)."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from anyio import to_thread

from jamcore.testing.live import SWITCH, LiveTest, registry
from jamcore.testing.live_dry import play, script
from jamcore.testing.live_rooms import Words, look_around, try_to_reach
from jamcore.testing.servers.apis import SERVERS
from jamcore.testing.servers.script import Call
from jamcore.testing.sources import workspace_root

ROOT = workspace_root(Path(__file__).resolve().parent)
BOUNDARY = ROOT / "tests" / "live" / "test_live_boundary.py"
WORDS = (Words("quetzal-7731", "ocelot-2290"), Words("marmot-4418", "heron-5527"), Words("tapir-9032", "lynx-6614"))
NEVER = {
    "network-denial-of-an-endpoint": "no engine has network rules",
    "cursor-turn-and-exact-resume": "its program is on no registry; a stand-in plays the same in its plugin's tests",
    "sbx-and-its-simulator": "no model is asked; tests/unit/testing/sbx plays the same between two simulators",
}
"""What cannot be played here, and why."""


class Spoken(NamedTuple):
    """How a provider speaks with its model: the API, and how it is asked for a shell command."""

    api: str
    shell: Callable[[str, str], Call]


def _codex(command: str, call_id: str) -> Call:
    return Call(name="exec_command", arguments={"cmd": command}, call_id=call_id)


def _bash(name: str) -> Callable[[str, str], Call]:
    return lambda command, call_id: Call(
        name=name, arguments={"command": command, "description": "what was asked"}, call_id=call_id
    )


PROVIDERS = {
    "codex": Spoken("responses", _codex),
    "claude_code": Spoken("messages", _bash("Bash")),
    "copilot": Spoken("responses", _bash("bash")),
    "opencode": Spoken("chat", _bash("bash")),
}
ENTRIES = registry(ROOT)
PLAYED = [
    pytest.param(
        entry,
        id=entry.name,
        marks=[pytest.mark.needs("bubblewrap", "git", f"provider:{entry.provider or 'codex'}"), pytest.mark.slow],
    )
    for entry in ENTRIES
    if entry.name not in NEVER
]

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that can be cloned by its path."""
    path = tmp_path / "origin"
    for words in (("init", "-q", "-b", "main", str(path)), ("-C", str(path), "commit", "-q", "--allow-empty", "-m", "one")):
        subprocess.run(("git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words), check=True, capture_output=True)
    return path


@pytest.fixture
def port() -> Iterator[str]:
    """A port that this machine reaches."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


@pytest.mark.guarantee("LIVE-2")
@pytest.mark.parametrize("entry", PLAYED)
async def test_a_live_test_runs(entry: LiveTest, repository: Path, port: str) -> None:
    """With both switches and a scripted model in place of the endpoint it passes, and the run says that this proves no account."""
    spoken = PROVIDERS[entry.provider or "codex"]
    command = try_to_reach("127.0.0.1", port) if entry.gate == "network-denial" else look_around(BOUNDARY)
    variables = {f"JAM_LIVE_{kind}_REPOSITORY": str(repository) for kind in ("PUBLIC", "PRIVATE")}
    variables["JAM_LIVE_DENIED_HOST"] = f"127.0.0.1:{port}"
    if "variable:JAM_LIVE_MODEL" in entry.needs:
        variables["JAM_LIVE_MODEL"] = "mock-model"
    async with SERVERS[spoken.api](script(spoken.shell, WORDS, command)) as model:
        variables["JAM_LIVE_OPENCODE_ENDPOINT"] = model.base_url
        said = await to_thread.run_sync(lambda: play(entry, ROOT, model.base_url, **variables))
    assert re.search(r"^\d+ passed in", said, re.MULTILINE), said
    assert f"ran against a stand-in at {model.base_url}, which proves nothing of a real account; 0 skipped" in said


@pytest.mark.guarantee("LIVE-1", "LIVE-2")
@pytest.mark.parametrize("switches", [{SWITCH}, {entry.opt_in for entry in ENTRIES}], ids=["the machine's", "every test's own"])
@pytest.mark.needs("provider:codex", "provider:claude_code", "provider:copilot", "provider:opencode")
def test_one_switch_alone_runs_nothing(switches: set[str]) -> None:
    """Every entry is collected by its name, every gate among them, and skipped for the switch that is not set."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAM_LIVE_")}
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *(entry.nodeid for entry in ENTRIES))
    done = subprocess.run(
        argv, cwd=ROOT, env=environment | dict.fromkeys(switches, "1"), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    said = re.search(r"^live tests: 0 ran; (\d+) skipped, which prove nothing$", done.stdout, re.MULTILINE)
    assert said is not None, done.stdout
    assert int(said[1]) >= len(ENTRIES)
    assert "passed" not in done.stdout


@pytest.mark.guarantee("LIVE-1")
def test_what_cannot_be_played_says_so_in_the_list() -> None:
    """Nobody takes a test that never ran for one that did."""
    ran = {entry.name: entry.ran for entry in ENTRIES}
    assert all(ran[name].startswith("never") for name in NEVER), json.dumps(ran)
