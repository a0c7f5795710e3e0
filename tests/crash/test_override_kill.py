"""A daemon that is killed at each boundary of a removal without proof: the next start has it done and said once, and the room goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from jamcore.daemon.crash import VARIABLE
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.ownership import GUEST_MARKER
from jamcore.domain.requests import OverrideRequest
from jamcore.domain.sessions import TurnState
from jamcore.sandbox.override import OVERRIDE_POINTS
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon, until
from jamcore.testing.leftovers import left_in
from jamcore.testing.rooms import ask, managed, new_id, said_in_room
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap"),
]


@pytest.mark.guarantee("OWN-8", "WS-10", "WS-12", "START-1")
@pytest.mark.parametrize("point", OVERRIDE_POINTS)
async def test_killed_while_a_sandbox_is_removed_without_its_proof(point: str, tmp_path: Path, lives: Lives) -> None:
    """One removal, one notice, an exact retry that changes nothing, and the same conversation in a sandbox over the same files."""
    app = tmp_path / "app"
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, private=tmp_path / "private", lives=lives)
    async with ResponsesServer(Script(rules=(say("Yes."),))) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url))
            ref = str(room.room.id)
            await ask(client, room, "Remember me")
        home = app / layout.guest_disk(room.host.id) / "home"
        (home / GUEST_MARKER.rpartition("/")[2]).unlink()
        (home / "mine").write_text("kept")
        (record,) = (app / layout.engine_root("bubblewrap")).glob("*.json")
        stored = json.loads(record.read_bytes())
        stored["spec"]["proof"] = ""
        record.write_text(json.dumps(stored))
        async with running_daemon(daemon, **{VARIABLE: point}) as client:
            request = OverrideRequest(id=new_id(), confirmed=(await client.inspect_override(ref)).digest)
            with pytest.raises(JamError):
                await client.override(ref, request)
            await until("the daemon's end", lambda: daemon.returncode is not None)
            assert daemon.returncode == -signal.SIGKILL, daemon.last_words()
        async with running_daemon(daemon) as client:
            done = await client.override(ref, request)
            assert done.sandbox == room.host.sandbox
            assert not record.exists()
            assert not (app / layout.owner_marker(room.host.sandbox)).exists()
            assert [code for code, _ in await said_in_room(client, room)].count("ownership.overridden") == 1
            assert (await ask(client, room, "And now?")).state is TurnState.CAPTURED
            assert (home / "mine").read_text() == "kept"
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Remember me", "And now?"]
    assert left_in(app) == ()
