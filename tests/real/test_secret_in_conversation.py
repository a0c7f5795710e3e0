"""A secret that gets into the conversation keeps it out of every checkpoint: the room says so, names where, and says what to do (SEC-7)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, room_event
from jamcore.testing.rooms import ask, managed, new_id, running, said_in_room
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git")]

PRINT = "printf 'ghp_%s\\n' AbCdEfGhIjKlMnOpQrStUvWxYz0123456789 | tee leaked.txt"
"""The agent finds a token, and its provider keeps the command's output."""
TOKEN = b"ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"


def attached(daemon: DaemonChild, ref: str) -> str:
    """Return what a person sees who says one more thing in the room."""
    assert daemon.private is not None
    done = subprocess.run(
        (sys.executable, "-P", "-m", "jamcore.cli.main", "attach", ref, "--app-directory", str(daemon.app)),
        env={**os.environ, "XDG_RUNTIME_DIR": str(daemon.private / "run")},
        input=b"hello\n",
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stderr.decode()


@pytest.mark.guarantee("SEC-7", "CONT-11")
async def test_the_room_says_what_became_of_its_checkpoints_and_what_to_do(
    client: JamClient, daemon: DaemonChild, app: Path
) -> None:
    """The turn is completed and never reads as safe; nothing of the secret is in a checkpoint; what the room says to do works."""
    async with ResponsesServer(Script(rules=(*running(PRINT, said="find"), say("Hello.")))) as model:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
        before = (await client.inspect(ref)).checkpoints
        turn = await client.say(ref, TurnRequest(id=new_id(), text="find it"))
        await room_event(client, ref, lambda event: getattr(event.payload, "code", "") == "continuity.secret_in_state")

        (detail,) = [said for code, said in await said_in_room(client, room) if code == "continuity.secret_in_state"]
        assert "rollout-" in detail
        assert "it holds a GitHub token" in detail
        assert "Change that secret" in detail
        assert "jam change new" in detail
        assert "a new room" in detail
        assert next(known for known in await client.turns(ref) if known.id == turn.id).state is TurnState.COMPLETED
        assert (await client.inspect(ref)).checkpoints == before
        packs = [path for path in (app / layout.packs(room.host.id)).rglob("*") if path.is_file()]
        assert packs
        assert not [path for path in packs if TOKEN in path.read_bytes()]
        shown = await to_thread.run_sync(attached, daemon, ref)
        assert detail.partition(". ")[2] in shown

        change = await client.build_change(ref, new_id())
        assert [path.path for path in change.paths] == ["leaked.txt"]
        stopped = await client.stop(ref)
        assert stopped.room.safety.unsaved is not None
        assert stopped.room.safety.unsaved.code == "continuity.secret_in_state"
        given_up = (await client.stop(ref, accept_unsaved=True)).settled
        assert given_up is not None
        assert (len(given_up.turns), given_up.turns[0]) == (2, turn.id)
        await client.resume(ref)
        assert next(known for known in await client.turns(ref) if known.id == turn.id).state is TurnState.COMPLETED
        new = await client.create_room(managed("codex", model.base_url))
        assert (await ask(client, new, "hello")).state is TurnState.CAPTURED
