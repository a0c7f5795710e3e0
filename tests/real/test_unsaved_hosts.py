"""A final checkpoint that fails is recorded, and the room does not start before the teardown was repeated or given up (CONT-8)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.testing.daemon import DaemonChild, room_event
from jamcore.testing.rooms import ask, managed, new_id, refused, said_in_room
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git")]
PROVIDER = "codex"
FAILED = "continuity.secret_in_state"


def secret_beside(app: Path, room: RoomView) -> Path:
    """Put a token beside the thread's log, where everything is captured: every checkpoint fails for as long as it is there."""
    (rollout,) = (app / layout.provider_state(room.host.id, PROVIDER)).rglob("rollout-*.jsonl")
    path = rollout.with_name("rollout-secret.jsonl")
    path.write_text("ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789\n")
    return path


async def completed(client: JamClient, room: RoomView, said: str) -> TurnRequest:
    """Say something and wait until the turn is completed and its checkpoint has failed."""
    ref, turn = str(room.room.id), TurnRequest(id=new_id(), text=said)
    await client.say(ref, turn)
    await room_event(client, ref, lambda event: getattr(event.payload, "code", "") == FAILED)
    return turn


async def stored(client: JamClient, room: RoomView, turn: TurnRequest) -> Turn:
    """Return a turn as it is now."""
    return next(known for known in await client.turns(str(room.room.id)) if known.id == turn.id)


def heard(model: ResponsesServer) -> list[str]:
    """Return what the model was told a person said, in its last request."""
    return said_in(model.model_requests[-1].body)


@pytest.mark.guarantee("CONT-8", "CONT-11")
@pytest.mark.parametrize("death", ["none", "stopped", "killed"])
async def test_the_room_waits_for_the_teardown_to_be_repeated(
    client: JamClient, daemon: DaemonChild, app: Path, model: ResponsesServer, death: str
) -> None:
    """Also in the daemon's next life. It names why and what to type; the repeated one keeps everything, and every turn comes back."""
    room = await client.create_room(managed(PROVIDER, model.base_url))
    ref = str(room.room.id)
    assert (await ask(client, room, "first")).state is TurnState.CAPTURED
    secret = secret_beside(app, room)
    turn = await completed(client, room, "second")
    safety = (await client.room(ref)).safety
    assert safety.trouble is not None
    assert (safety.trouble.code, safety.trouble.deferred, safety.turns_outside) == (FAILED, False, 1)
    assert safety.trouble.next_try > safety.trouble.since

    result = await client.stop(ref)
    assert (result.outcome, result.checkpoint, result.room.live) == ("parked", None, False)
    assert result.room.safety.unsaved is not None
    assert result.room.safety.unsaved.code == FAILED
    if death != "none":
        await to_thread.run_sync(daemon.kill if death == "killed" else daemon.stop)
        daemon.start()
        await daemon.up()
    with refused("continuity.unsaved") as why:
        await client.resume(ref)
    assert why.value.context()["rooms"] == room.room.name
    assert "jam room stop ROOM" in why.value.hint
    with refused("continuity.unsaved"):
        await client.say(ref, TurnRequest(id=new_id(), text="third"))
    with refused("continuity.unsaved"):
        await client.stop(ref)
    assert not daemon.family(), "something of the room runs"

    secret.unlink()
    requests = len(model.model_requests)
    again = await client.stop(ref)
    assert again.checkpoint is not None
    assert again.settled is not None
    assert again.settled.settlement == "checkpoint"
    assert again.room.safety.unsaved is None
    assert (await stored(client, room, turn)).state is TurnState.COMPLETED, "nobody compared it with the provider's memory yet"
    assert (await client.stop(ref)).outcome == "already-parked"
    view = await client.resume(ref)
    assert view.live
    assert len(model.model_requests) == requests
    assert (await stored(client, room, turn)).state is TurnState.CAPTURED
    assert (await ask(client, room, "third")).state is TurnState.CAPTURED
    assert [said for said in heard(model) if said in ("first", "second", "third")] == ["first", "second", "third"]


@pytest.mark.guarantee("CONT-8", "CONT-1")
@pytest.mark.parametrize("log", ["whole", "cut"])
async def test_a_checkpoint_that_can_never_be_made_is_given_up_in_words(
    client: JamClient, app: Path, model: ResponsesServer, log: str
) -> None:
    """What is in no checkpoint is named; a live state that extends the last one is gone on with, any other is not trusted."""
    room = await client.create_room(managed(PROVIDER, model.base_url))
    ref = str(room.room.id)
    assert (await ask(client, room, "first")).state is TurnState.CAPTURED
    kept = (await client.checkpoints(ref))[0].generation
    secret = secret_beside(app, room)
    turn = await completed(client, room, "second")
    await client.stop(ref)
    if log == "cut":
        (rollout,) = set(secret.parent.glob("rollout-*.jsonl")) - {secret}
        rollout.write_bytes(rollout.read_bytes()[:600])
    with refused("continuity.unsaved") as why:
        await client.stop(ref)
    assert "ghp_" not in str(why.value)
    result = await client.stop(ref, accept_unsaved=True)
    assert result.settled is not None
    assert (result.settled.settlement, result.settled.turns) == ("accepted", (turn.id,))
    assert ("comes back" in result.settled.detail or "come back" in result.settled.detail) == (log == "whole")
    assert ("restored" in result.settled.detail) == (log == "cut")
    assert "continuity.unsaved_accepted" in [code for code, _ in await said_in_room(client, room)]
    await client.resume(ref)
    assert (await client.inspect(ref)).observations[-1].outcome is ObservationOutcome.SUCCEEDED
    fate = (await stored(client, room, turn)).state
    assert fate is (TurnState.COMPLETED if log == "whole" else TurnState.CUT)
    if log == "cut":
        (said,) = [said for code, said in await said_in_room(client, room) if code == "session.resumed"]
        assert f"resumed exactly (generation {kept}): restored from the last checkpoint" in said


@pytest.mark.guarantee("CONT-8")
async def test_a_live_room_is_stopped_and_accepted_in_one_word(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """For a conversation that holds a key each stop ends so. Where the checkpoint is made, the word changes nothing."""
    room = await client.create_room(managed(PROVIDER, model.base_url))
    ref = str(room.room.id)
    assert (await ask(client, room, "first")).state is TurnState.CAPTURED
    secret = secret_beside(app, room)
    turn = await completed(client, room, "second")
    result = await client.stop(ref, accept_unsaved=True)
    assert result.settled is not None
    assert (result.outcome, result.settled.settlement, result.settled.turns) == ("parked", "accepted", (turn.id,))
    assert result.room.safety.unsaved is None
    assert (await client.resume(ref)).live
    secret.unlink()
    assert (await ask(client, room, "third")).state is TurnState.CAPTURED
    assert (await client.stop(ref, accept_unsaved=True)).settled is None


@pytest.mark.guarantee("CONT-8")
async def test_a_killed_daemon_is_no_failed_checkpoint(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """The room comes back at once."""
    room = await client.create_room(managed(PROVIDER, model.base_url))
    assert (await ask(client, room, "first")).state is TurnState.CAPTURED
    await to_thread.run_sync(daemon.kill)
    daemon.start()
    await daemon.up()
    assert (await client.resume(str(room.room.id))).live


@pytest.mark.guarantee("CONT-11", "START-5")
async def test_a_checkpoint_that_failed_is_made_when_it_can_be(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """Nobody asks for it: the room says it failed, and then that the turn is captured."""
    room = await client.create_room(managed(PROVIDER, model.base_url))
    ref = str(room.room.id)
    assert (await ask(client, room, "first")).state is TurnState.CAPTURED
    secret = secret_beside(app, room)
    turn = await completed(client, room, "second")
    secret.unlink()
    await room_event(
        client, ref, lambda event: event.turn_id == turn.id and getattr(event.payload, "state", "") == TurnState.CAPTURED
    )
    with anyio.fail_after(20):
        while (await client.room(ref)).safety.trouble is not None:  # noqa: ASYNC110 - it is the daemon's
            await anyio.sleep(0.05)
    assert (await client.room(ref)).safety.turns_outside == 0
    assert (await client.stop(ref)).room.safety.unsaved is None


@pytest.mark.guarantee("CONT-11", "SEC-3")
async def test_a_room_that_comes_back_says_from_what_and_which_files_are_ahead(
    client: JamClient, app: Path, model: ResponsesServer
) -> None:
    """The generation, that it was read whole just now, and at most twenty names of files, whatever those hold."""
    room = await client.create_room(managed(PROVIDER, model.base_url))
    ref = str(room.room.id)
    work = app / layout.session_workspace(room.host.id, room.session.id)
    (work / "gone.txt").write_text("old")
    (work / "kept.txt").write_text("old")
    assert (await ask(client, room, "first")).state is TurnState.CAPTURED
    before = (await client.room(ref)).safety.kept
    assert before is not None
    assert before.verified_at is None
    assert before.bytes_total > 0
    await client.stop(ref)
    (work / "gone.txt").unlink()
    (work / "kept.txt").write_text("new")
    (work / "e\x1b[2Jvil.txt").write_text("")
    for number in range(30):
        (work / f"many-{number:02}.txt").write_text("")
    await client.resume(ref)
    said = dict(await said_in_room(client, room))
    kept = (await client.room(ref)).safety.kept
    assert kept is not None
    assert kept.verified_at is not None
    assert f"resumed exactly (generation {kept.generation}): its live state extends" in said["session.resumed"]
    ahead = said["workspace.ahead"]
    assert "- gone.txt" in ahead
    assert "~ kept.txt" in ahead
    assert "+ e\\x1b[2Jvil.txt" in ahead
    assert "and 13 more" in ahead
    assert "\x1b" not in ahead
    row = (await client.checkpoints(ref))[0]
    assert (await client.verify_checkpoint(str(row.id))).sound
    again = (await client.room(ref)).safety.kept
    assert again is not None
    assert again.verified_at is not None
    assert again.verified_at > kept.verified_at
