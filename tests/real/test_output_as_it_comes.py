"""A long command of the real program is watched while it runs, not after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.testing.daemon import DaemonChild
from jamcore.testing.rooms import managed, running
from jamcore.testing.servers.responses import ResponsesServer, Script

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap")]

COMMAND = "until [ -e go ]; do echo tick; sleep 0.2; done; echo over; exit 3"
"""It ends when the test has seen a line of it, and not before; what a command prints at once the program tells only in the end."""


def watched(argv: tuple[str, ...], env: dict[str, str], go: Path) -> list[str]:
    """Watch a turn and let its command end once a line of it was shown; return the lines after that."""
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as said:
        assert said.stderr is not None
        try:
            for line in said.stderr:
                if line == b"  tick\n":
                    go.touch()
                    return said.stderr.read().decode().splitlines()
        finally:
            go.touch()  # whatever was shown, the command ends
    return []


async def test_a_line_is_shown_before_the_command_has_ended(client: JamClient, daemon: DaemonChild, app: Path) -> None:
    """Its end is shown too, with the exit status."""
    assert daemon.private is not None
    env = {**os.environ, "JAM_HOME": str(app), "XDG_RUNTIME_DIR": str(daemon.private / "run")}
    async with ResponsesServer(Script(rules=running(COMMAND, said="take long"))) as model:
        room = await client.create_room(managed("codex", model.base_url))
        go = app / layout.session_workspace(room.host.id, room.session.id) / "go"
        argv = (sys.executable, "-P", "-m", "jamcore.cli.main", "say", str(room.room.id), "take long")
        after = await to_thread.run_sync(watched, argv, env, go)
    assert "  over" in after
    assert "  exit status 3" in after
