"""A real agent that destroys its sandbox's proof of ownership: its room comes back, by itself or by a person's word (OWN-8)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jamcore.domain import layout
from jamcore.domain.ownership import GUEST_MARKER
from jamcore.domain.requests import OverrideRequest, RoomView
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.rooms import ask, managed, new_id, refused, running, said_in_room
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap")]

EMPTY = "cd ~ && find . -mindepth 1 -delete; ls -A ~ | wc -l"


def destructive() -> Script:
    """A model that empties the home when it is told to."""
    return Script(rules=(*running(EMPTY, said="Empty your home", answer="It is empty."), say("Still here.")))


def guest_proof(app: Path, room: RoomView) -> Path:
    """Return where the guest's proof lies on the host."""
    return app / layout.guest_disk(room.host.id) / "home" / GUEST_MARKER.rpartition("/")[2]


def asked(model: ResponsesServer) -> list[str]:
    """Return what a person said, as the model saw it in its last request."""
    return said_in(model.model_requests[-1].body)


@pytest.mark.guarantee("OWN-8", "OWN-3", "CONT-1")
async def test_an_agent_that_empties_its_home_keeps_its_room(app: Path, daemon: DaemonChild) -> None:
    """Stopped and brought back, and killed with its daemon and brought back: each time the room says that the proof was renewed."""
    async with ResponsesServer(destructive()) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url))
            ref = str(room.room.id)
            assert (await ask(client, room, "Empty your home")).state is TurnState.CAPTURED
            assert not guest_proof(app, room).exists(), "the agent did what it was told"
            await client.stop(ref)
            assert (await client.resume(ref)).live
            assert guest_proof(app, room).is_file()
            assert [code for code, _ in await said_in_room(client, room)].count("ownership.proof_renewed") == 1
            assert (await ask(client, room, "Empty your home once more")).state is TurnState.CAPTURED
            daemon.kill()
            daemon.reap()
        async with running_daemon(daemon) as client:
            assert (await ask(client, room, "Are you there?")).state is TurnState.CAPTURED
            said = await said_in_room(client, room)
            assert [code for code, _ in said].count("ownership.proof_renewed") == 2
            assert guest_proof(app, room).is_file()
        assert asked(model)[-3:] == ["Empty your home", "Empty your home once more", "Are you there?"]


@pytest.mark.guarantee("OWN-8", "WS-10", "CONT-1")
async def test_a_room_without_any_proof_comes_back_on_a_persons_word(app: Path, daemon: DaemonChild) -> None:
    """The engine's record has no proof either, as an older one has: refused with the way out; confirmed, removed, and resumed exactly."""
    async with ResponsesServer(destructive()) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(managed("codex", model.base_url))
            ref = str(room.room.id)
            await ask(client, room, "Remember me")
            whole = await client.inspect_override(ref)
            assert (whole.needed, whole.evidence.nonce, whole.evidence.engine_proof) == (False, "matches", "matches")
            with refused("conflict.host_in_use"):
                await client.override(ref, OverrideRequest(id=new_id(), confirmed=whole.digest))
            await client.stop(ref)
            stopped = await client.inspect_override(ref)
            with refused("ownership.override_refused"):
                await client.override(ref, OverrideRequest(id=new_id(), confirmed=stopped.digest))
        guest_proof(app, room).unlink()
        (record,) = (app / layout.engine_root("bubblewrap")).glob("*.json")
        stored = json.loads(record.read_bytes())
        stored["spec"]["proof"] = ""
        record.write_text(json.dumps(stored))
        kept = app / layout.guest_disk(room.host.id) / "home" / "mine"
        kept.write_text("kept")
        async with running_daemon(daemon) as client:
            with refused("ownership.proof_lost") as caught:
                await client.resume(ref)
            assert "jam host override" in caught.value.hint
            view = await client.inspect_override(room.host.sandbox)
            assert view == await client.inspect_override(str(room.host.id)) == await client.inspect_override(room.room.name)
            assert (view.needed, view.evidence.nonce, view.evidence.engine_proof) == (True, "missing", "not-kept")
            with refused("ownership.override_refused"):
                await client.override(ref, OverrideRequest(id=new_id(), confirmed=stopped.digest))
            request = OverrideRequest(id=new_id(), confirmed=view.digest)
            done = await client.override(ref, request)
            assert await client.override(ref, request) == done
            assert not (app / layout.owner_marker(room.host.sandbox)).exists()
            assert (await ask(client, room, "And now?")).state is TurnState.CAPTURED
            said = [(code, detail) for code, detail in await said_in_room(client, room) if code == "ownership.overridden"]
            assert len(said) == 1
            assert view.digest in said[0][1]
            assert kept.read_text() == "kept"
        assert asked(model)[-2:] == ["Remember me", "And now?"]
