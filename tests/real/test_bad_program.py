"""The provider's program goes wrong under a real daemon: a typed error in the room, and the exact thread once it is right again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, parked, room_event
from jamcore.testing.rooms import ask, managed, new_id, said_in_room
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap")]

FROM_THE_START = {
    "no JSON": "echo 'Segmentation fault'; sleep 60",
    "10 MB line": "head -c 10485760 /dev/zero | tr '\\0' x; echo; sleep 60",
    "wrong id": """echo '{"id":4711,"result":{}}'; sleep 60""",
    "half a message": """printf '{"id":1,"res'; exit 0""",
    "exits at once": "echo 'out of luck' >&2; exit 7",
    "another version": """echo '{"id":1,"result":{"userAgent":"jam/9.9.9 (x)"}}'; sleep 60""",
    "no program": None,
    "a directory of numbers": """echo '[1,2,3]'; sleep 60""",
}
TYPED = frozenset({"provider.gone", "provider.protocol", "provider.timeout", "provider.refused", "engine.exec_refused"})

BEGUN = '/"turn\\/started"/'
# Inside a turn: the real program speaks, and something happens to its output once the turn has begun.
IN_A_TURN = {
    "no JSON": f"sed -u '{BEGUN}s/$/\\nnot json at all/' <&4",
    "wrong id": f"""sed -u '{BEGUN}s/$/\\n{{"id":4711,"result":{{}}}}/' <&4""",
    "10 MB line": f"sed -u '{BEGUN}r /jam/tools/codex/bin/long' <&4",
    "half a message": f"""sed -u '{BEGUN}q' <&4; printf '{{"method":"item/'""",
    "exits": f"sed -u '{BEGUN}q' <&4; exit 9",
}
AROUND = """mkfifo "$HOME/said"; exec 3<&0; /jam/tools/codex/bin/real "$@" <&3 >"$HOME/said" & exec 4<"$HOME/said"; rm "$HOME/said"
"""


@contextmanager
def replaced(daemon: DaemonChild, script: str | None, *, long: bool = False) -> Iterator[None]:
    """Put a script where the program was; the program stays beside it as ``real``."""
    place = next((daemon.app / layout.TOOLCHAINS).glob("*/*/**/bin/codex"))
    place.rename(place.with_name("real"))
    try:
        if script is not None:
            place.write_text(f"#!/bin/sh\n{script}\n")
            place.chmod(0o755)
        if long:
            (place.parent / "long").write_bytes(b"x" * (10 << 20) + b"\n")
        yield
    finally:
        place.unlink(missing_ok=True)
        (place.parent / "long").unlink(missing_ok=True)
        place.with_name("real").rename(place)


async def remembers(client: JamClient, model: ResponsesServer, room: RoomView, identity: str | None, *said: str) -> None:
    """A further turn goes on in the same thread, and the model is told all that was said before."""
    assert (await client.resume(str(room.room.id))).session.provider_identity == identity
    turn = await ask(client, room, "and now?")
    assert turn.state is TurnState.CAPTURED, turn
    heard = said_in(model.model_requests[-1].body)
    assert [text for text in heard if text in said] == list(said), heard


@pytest.mark.guarantee("CONT-1", "CONT-7", "PREP-1")
async def test_a_program_that_does_not_come_up(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """Resumed with it, the room refuses by type, nothing of it runs on, and with the right program it is the exact thread."""
    room = await client.create_room(managed("codex", model.base_url))
    ref = str(room.room.id)
    assert (await ask(client, room, "remember this")).state is TurnState.CAPTURED
    identity = (await client.room(ref)).session.provider_identity
    await client.stop(ref)
    for name, script in FROM_THE_START.items():
        with replaced(daemon, script):
            with pytest.raises(JamError) as error:
                await client.resume(ref)
            assert error.value.code in TYPED, (name, error.value)
            with pytest.raises(JamError):
                await client.say(ref, TurnRequest(id=new_id(), text="never heard"))
        assert not (await client.room(ref)).live, name
        assert not daemon.family(), name
    assert [turn.text for turn in await client.turns(ref)] == ["remember this"]
    await remembers(client, model, room, identity, "remember this")


async def test_a_room_that_was_made_with_a_bad_program(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """The room is there, parked; the same request makes it live once the program is right, and it is one room."""
    request = managed("codex", model.base_url)
    with replaced(daemon, FROM_THE_START["half a message"]), pytest.raises(JamError) as error:
        await client.create_room(request)
    assert error.value.code in TYPED
    (parked_room,) = await client.rooms()
    assert not parked_room.live
    room = await client.create_room(request)
    assert room.session.id == parked_room.session.id
    assert (await ask(client, room, "hello")).state is TurnState.CAPTURED


@pytest.mark.guarantee("CONT-1", "CONT-11")
async def test_a_program_that_goes_wrong_in_a_turn(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """The turn is in doubt, then cut or kept, never silently completed; the room parks by itself and comes back exactly."""
    room = await client.create_room(managed("codex", model.base_url))
    ref = str(room.room.id)
    assert (await ask(client, room, "remember this")).state is TurnState.CAPTURED
    identity = (await client.room(ref)).session.provider_identity
    await client.stop(ref)
    for name, edit in IN_A_TURN.items():
        with replaced(daemon, AROUND + edit, long="MB" in name):
            await client.resume(ref)
            said = await client.say(ref, TurnRequest(id=new_id(), text=f"then {name}"))

            def in_doubt(event: RoomEvent, turn: object = said.id) -> bool:
                return (
                    event.turn_id == turn and event.payload.kind == "turn.state" and event.payload.state in ("in-doubt", "captured")
                )

            doubt = await room_event(client, ref, in_doubt)
            assert doubt.payload.kind == "turn.state"
            assert doubt.payload.state == "in-doubt", name
            assert doubt.payload.detail.startswith("provider."), doubt
            await parked(client, ref)
        assert not daemon.family(), name
        await client.resume(ref)
        now = next(turn for turn in await client.turns(ref) if turn.id == said.id)
        assert now.state in (TurnState.CUT, TurnState.CAPTURED), (name, now)
        await client.stop(ref)
    await remembers(client, model, room, identity, "remember this")
    assert "session.resumed" in [code for code, _ in await said_in_room(client, room)]


def test_the_scripts_are_for_the_guests_own_shell() -> None:
    """What stands in for the program needs nothing but a shell and the usual small tools."""
    for name in ("sh", "sed", "head", "tr"):
        assert any(os.access(Path(directory, name), os.X_OK) for directory in ("/bin", "/usr/bin")), name
