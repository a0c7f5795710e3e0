"""Real Codex as a host process: a tool call, a kill of everything, an exact resume; and what the person is told about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jamcore.domain import layout
from jamcore.domain.requests import RoomRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.guards import settle
from jamcore.testing.rooms import ask, managed
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.needs("codex"),
    pytest.mark.unprivileged,
    pytest.mark.timeout(240),
    pytest.mark.guarantee("ENG-2"),
]


def local(origin: str, **more: object) -> RoomRequest:
    """Return the request for a room of host processes."""
    return managed("codex", origin, engine="local", **more)


@pytest.mark.guarantee("CONT-1", "PLAN-4")
async def test_a_room_works_is_killed_and_comes_back(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """The agent writes a file, the daemon is killed with SIGKILL, nothing of the room is left, and the same conversation goes on."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(local(model.base_url))
        assert (room.host.engine, room.isolation) == ("local", "none")
        turn = await ask(client, room, "Write the file")
        assert turn.state is TurnState.CAPTURED
        work = app / layout.session_workspace(room.host.id, room.session.id)
        assert (work / "made.txt").read_text() == "made by the agent\n"
        before = (await client.room(str(room.room.id))).session.provider_identity
        family = daemon.family()
        assert family
        daemon.kill()
        assert settle(family, 15.0) == ()
        daemon.start()
        await daemon.up()
        resumed = await client.resume(str(room.room.id))
        assert resumed.session.provider_identity == before
        assert (await ask(client, room, "Hello again")).state is TurnState.CAPTURED
        inputs = json.dumps(model.model_requests[-1].body)
        assert "Write the file" in inputs
        assert "Hello again" in inputs
