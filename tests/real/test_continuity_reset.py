"""A conversation that is lost, as a person meets it: refused, looked at, and begun afresh over the same files (CONT-1, CONT-9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Placement
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.resets import StartFreshRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.jam_program import program
from jamcore.testing.rooms import ask, cloned, managed, new_id, refused, said_in_room
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git")]

NAME = "my work"


def corrupt(app: Path, room: RoomView) -> None:
    """Damage the root in every pack of a room's host: no live state can take its place."""
    for pack in (app / layout.packs(room.host.id)).glob("*.pack"):
        data = bytearray(pack.read_bytes())
        data[-1] ^= 1
        pack.write_bytes(data)


def files_of(root: Path) -> dict[Path, bytes]:
    """Return every file below a directory."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


def heard(model: ResponsesServer) -> list[str]:
    """Return what people said in the conversation that the model was sent last."""
    return said_in(model.model_requests[-1].body)


@pytest.mark.guarantee("CONT-1", "CONT-9")
@pytest.mark.parametrize("engine", ["bubblewrap", "local"])
async def test_a_lost_conversation_is_begun_afresh_over_the_same_files(
    client: JamClient, app: Path, model: ResponsesServer, repository: Callable[[Path], Path], tmp_path: Path, engine: str
) -> None:
    """The refusal names the command, that shows the next one, and it does what it says; what was before is all there."""
    repo = repository(tmp_path / "repo")
    request = cloned("codex", model.base_url, str(repo), engine=engine, name=NAME, approvals=ApprovalPolicy.NEVER)
    room = await client.create_room(request)
    assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
    await client.stop(NAME)
    sound = program(app, "continuity", "inspect", NAME)
    assert (sound.status, sound.out) == (0, "Nothing is wrong: every conversation of this host can be brought back\n")
    assert "jam room resume 'my work'" in sound.err
    corrupt(app, room)
    before = files_of(app / layout.host_root(room.host.id))

    resumed = program(app, "resume", NAME)
    assert resumed.status == 3
    assert "corrupt" in resumed.err
    assert "jam continuity inspect 'my work'" in resumed.err
    shown = program(app, "continuity", "inspect", NAME)
    digest = program(app, "continuity", "inspect", NAME, "--json").json["digest"]
    assert shown.status == 1
    assert [word for word in ("corrupt", room.host.sandbox, "goes on with a copy", digest) if word not in shown.out] == []
    assert f"jam continuity start-fresh 'my work' --confirm --evidence {digest}" in shown.err
    for words in (("--evidence", digest), ("--confirm", "--evidence", "f" * 64)):
        assert program(app, "continuity", "start-fresh", NAME, *words).status == 3
    assert (await client.room(NAME)).session.id == room.session.id

    done = program(app, "continuity", "start-fresh", NAME, "--confirm", "--evidence", digest)
    assert done.status == 0, done.err
    assert room.host.sandbox in done.out
    now = await client.room(NAME)
    assert now.live
    assert {now.session.id, now.host.id} & {room.session.id, room.host.id} == set()
    answer = await ask(client, now, "What do you know?")
    assert answer.state is TurnState.CAPTURED
    assert heard(model) == ["What do you know?"], "nothing of the old conversation is in the new one"
    assert [turn.text for turn in await client.turns(NAME)] == ["Write the file", "What do you know?"]
    assert [code for code, _ in await said_in_room(client, now)].count("continuity.reset") == 1

    change = await client.build_change(NAME, new_id())
    assert [path.path for path in change.paths] == ["made.txt"], "the work went along, against what it was against"
    after = files_of(app / layout.host_root(room.host.id))
    assert {path: data for path, data in after.items() if path in before} == before
    assert [line for line in program(app, "host", "ls").out.splitlines() if room.host.sandbox in line and "archived" in line]
    listed = [each["checkpoint"] for each in program(app, "checkpoint", "ls", NAME, "--json").json]
    hosts = list(dict.fromkeys(each["host_id"] for each in listed))
    assert hosts == [str(now.host.id), str(room.host.id)], "what was left can be found, behind what is"
    apart = program(app, "checkpoint", "diff", listed[-1]["id"], listed[0]["id"])
    assert (apart.status, "a fresh start lies between them" in apart.err) == (3, True)
    assert "`jam checkpoint ls 'my work'`" in apart.err
    for words in (("room", "show"), ("session", "inspect")):
        said = program(app, *words, NAME).out
        assert (
            f"the last checkpoint is damaged (corrupt); the old one is kept as session {room.session.id} in {room.host.sandbox}"
            in said
        )
    await client.stop(NAME)
    assert (await client.resume(NAME)).live
    assert (await ask(client, now, "And now?")).state is TurnState.CAPTURED
    assert heard(model) == ["What do you know?", "And now?"]


@pytest.mark.guarantee("CONT-9", "CONT-7", "WS-11", "WS-14")
async def test_a_session_without_a_sandbox_takes_its_directory_along(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """Here the generation is gone. Whoever speaks is told the next command; a message of the old conversation is still answered for."""
    room = await client.create_room(managed("codex", model.base_url, engine="local", name="plain", approvals=ApprovalPolicy.NEVER))
    old = await ask(client, room, "Write the file")
    await client.stop("plain")
    for complete in (app / layout.recovery(room.host.id)).rglob("complete.json"):
        complete.unlink()
    said = program(app, "say", "plain", "Are you there?")
    assert said.status == 3
    assert "jam continuity inspect plain" in said.err
    view = await client.inspect_continuity("plain")
    assert (view.evidence.failure, view.rooms[0].turns, view.rooms[0].captured) == ("missing", 1, 1)
    request = StartFreshRequest(id=new_id(), evidence=view.digest, confirm=True)
    done = await client.start_fresh("plain", request)
    assert await client.start_fresh("plain", request) == done
    again = await client.say("plain", TurnRequest(id=old.id, text="Write the file"))
    assert (again.state, again.session_id) == (TurnState.CAPTURED, room.session.id)
    with refused("conflict.changed_record"):
        await client.say("plain", TurnRequest(id=old.id, text="Something else"))
    change = await client.build_change("plain", new_id())
    assert [path.path for path in change.paths] == ["made.txt"]
    assert view.rooms[0].files != done.files[0]
    assert (Path(view.rooms[0].files) / "made.txt").read_text() == "made by the agent\n"
    assert (await ask(client, await client.room("plain"), "And now?")).state is TurnState.CAPTURED
    assert heard(model) == ["And now?"]


@pytest.mark.guarantee("CONT-9", "SHARE-1")
async def test_rooms_of_one_sandbox_begin_afresh_together(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """Each is told, each goes on with its own files on the one new host, and a new room joins them there."""
    rooms = [
        await client.create_room(managed("codex", model.base_url, name=name, placement=Placement.SHARED)) for name in ("one", "two")
    ]
    for room in rooms:
        assert (await ask(client, room, f"Write the file, {room.room.name}")).state is TurnState.CAPTURED
        await client.stop(room.room.name)
    corrupt(app, rooms[0])
    view = await client.inspect_continuity("two")
    assert sorted(each.name for each in view.rooms) == ["one", "two"]
    done = program(app, "continuity", "start-fresh", "two", "--confirm", "--evidence", view.digest, "--json")
    assert done.status == 0, done.err
    assert (sorted(done.json["rooms"]), done.json["live"]) == (["one", "two"], True)
    third = await client.create_room(managed("codex", model.base_url, name="three", placement=Placement.SHARED))
    for room in rooms:
        now = await client.resume(room.room.name)
        assert now.host.id == third.host.id != room.host.id
        assert (app / layout.session_workspace(now.host.id, now.session.id) / "made.txt").read_text() == "made by the agent\n"
        assert (await ask(client, now, f"Who are you, {room.room.name}?")).state is TurnState.CAPTURED
        assert heard(model) == [f"Who are you, {room.room.name}?"]
