"""Limits from a person's words to the kernel: held in the room that asked for them, or refused before anything is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain.resources import Limit
from jamcore.domain.sandboxes import Resources
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import ask, managed, refused, running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap"), pytest.mark.unprivileged]

NOWHERE = "http://127.0.0.1:9"
PIDS = 333
SPACE = 64 << 30


@pytest.mark.guarantee("CAP-4", "PLAN-1")
async def test_a_limit_that_cannot_hold_is_refused_before_anything_is_made(client: JamClient, daemon: DaemonChild) -> None:
    """A disk limit holds on no directory of the host: the refusal names it, what was tried and what to do; there is no room."""
    with refused("engine.limit_not_held") as error:
        await client.create_room(managed("codex", NOWHERE, resources=Resources(disk_bytes=1 << 30, processes=PIDS)))
    said = error.value.context()
    assert (said["engine"], said["limit"]) == ("bubblewrap", Limit.DISK)
    assert "quota" in said["tried"]
    assert "JAM_HOME" in said["remedy"]
    with refused("engine.limit_not_held") as error:
        await client.create_room(managed("codex", NOWHERE, engine="local", resources=Resources(processes=PIDS)))
    assert error.value.context()["engine"] == "local"
    assert await client.rooms() == ()
    assert not daemon.family()


@pytest.mark.guarantee("PLAN-1")
async def test_the_doctor_says_what_holds_each_limit(client: JamClient) -> None:
    """One line for the engine, with every limit and its means."""
    (line,) = [finding for finding in (await client.doctor()).findings if finding.subject == "limits in bubblewrap"]
    assert all(f"{limit}: " in line.detail for limit in Limit)
    assert f"{Limit.DISK}: none" in line.detail
    assert line.ok or line.hint


@pytest.mark.guarantee("PLAN-1")
async def test_a_room_lives_within_its_limits(app: Path, tmp_path: Path) -> None:
    """What was asked, completed by the daemon's own defaults, is in the plan and in the kernel, also after a stop and a resume."""
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, environment={"JAM_PIDS": str(PIDS)}, private=tmp_path / "private")
    look = running("ulimit -u >> limits.txt; ulimit -v >> limits.txt", said="Look")
    async with ResponsesServer(Script(rules=(*look, say("Hello.")))) as model, running_daemon(daemon) as client:
        asked = Resources(memory_per_process_bytes=SPACE)
        room = await client.create_room(managed("codex", model.base_url, resources=asked))
        planned = json.loads(room.host.plan_json)["resources"]
        assert (planned["processes"], planned["memory_per_process_bytes"]) == (PIDS, SPACE)
        for _ in range(2):
            await ask(client, room, "Look")
            await client.stop(str(room.room.id))
            await client.resume(str(room.room.id))
    (found,) = app.rglob("limits.txt")
    assert found.read_text().split() == [str(PIDS), str(SPACE >> 10)] * 2
