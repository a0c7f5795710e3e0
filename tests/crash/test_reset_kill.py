"""A daemon that is killed at each boundary of a fresh start: the next one has it done, once, and the room goes on (CONT-9)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from jamcore.continuity.resets.action import RESET_POINTS
from jamcore.daemon.crash import VARIABLE
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.resets import StartFreshRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon, until
from jamcore.testing.leftovers import left_in
from jamcore.testing.rooms import ask, managed, new_id, running, said_in_room
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap"),
]


@pytest.mark.guarantee("CONT-9", "WS-10", "WS-12", "START-1")
@pytest.mark.parametrize("point", RESET_POINTS)
async def test_killed_while_a_conversation_is_begun_afresh(point: str, tmp_path: Path, lives: Lives) -> None:
    """One new host, one notice, an exact retry with the same answer, the files with the new session and the old ones where they were."""
    app = tmp_path / "app"
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, private=tmp_path / "private", lives=lives)
    rules = (*running("printf mine > made.txt", said="Write"), say("Yes."))
    async with ResponsesServer(Script(rules=rules)) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url))
            ref = str(room.room.id)
            await ask(client, room, "Write")
            await client.stop(ref)
        for pack in (app / layout.packs(room.host.id)).glob("*.pack"):
            pack.write_bytes(pack.read_bytes()[:-1])
        async with running_daemon(daemon, **{VARIABLE: point}) as client:
            view = await client.inspect_continuity(ref)
            request = StartFreshRequest(id=new_id(), evidence=view.digest, confirm=True)
            with pytest.raises(JamError):
                await client.start_fresh(ref, request)
            await until("the daemon's end", lambda: daemon.returncode is not None)
            assert daemon.returncode == -signal.SIGKILL, daemon.last_words()
        async with running_daemon(daemon) as client:
            done = await client.start_fresh(ref, request)
            assert (done.id, done.source_host_id, done.live) == (request.id, room.host.id, True)
            now = await client.room(ref)
            assert now.host.id == done.host_id != room.host.id
            assert [code for code, _ in await said_in_room(client, room)].count("continuity.reset") == 1
            assert (await ask(client, room, "And now?")).state is TurnState.CAPTURED
            for host, session in ((room.host.id, room.session.id), (now.host.id, now.session.id)):
                assert (app / layout.session_workspace(host, session) / "made.txt").read_text() == "mine"
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["And now?"]
    assert left_in(app) == ()
