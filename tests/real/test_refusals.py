"""What cannot be is refused by type, before anything is made: no room, no directory, no process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.cells import Configuration, Placement, WorkspaceSource
from jamcore.domain.errors import JamError
from jamcore.domain.limits import TURN_TEXT_CHARACTERS
from jamcore.domain.requests import EndpointChoice, RoomRequest, RunRequest, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild
from jamcore.testing.rooms import ask, cloned, managed, new_id, refused
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git")]
NOWHERE = "http://127.0.0.1:9"
Make = Callable[[Path], Path]
Git = Callable[..., str]


async def nothing_was_made(client: JamClient, daemon: DaemonChild) -> None:
    """No room, no host, no process."""
    assert await client.rooms() == ()
    hosts = daemon.app / layout.HOSTS
    assert not hosts.exists() or not list(hosts.iterdir())
    assert not daemon.family()


@pytest.mark.guarantee("CAP-4", "CAP-7")
async def test_combinations_that_cannot_be(client: JamClient, daemon: DaemonChild, tmp_path: Path) -> None:
    """Unknown provider, no such cell, an engine that cannot: three errors, each naming what is nearest or known."""
    with refused("capability.unknown_provider") as error:
        await client.create_room(managed("gemini", NOWHERE))
    assert "codex" in error.value.context()["known"]
    shared = {"placement": Placement.SHARED, "workspace": WorkspaceSource.PRIVATE_HOST_CLONE, "path": str(tmp_path)}
    with refused("capability.no_such_cell") as error:
        await client.create_room(managed("codex", NOWHERE, **shared))
    assert "private-host-clone" in error.value.context()["nearest"]
    with refused("capability.engine_lacks_ability") as error:
        await client.create_room(managed("codex", NOWHERE, configuration=Configuration.ENVIRONMENT_FILES))
    assert error.value.context()["engine"] == "bubblewrap"
    assert "environment" in error.value.context()["missing"]
    assert "jam-managed" in error.value.context()["nearest"]
    with refused("engine.unavailable") as error:
        await client.create_room(managed("codex", NOWHERE, engine="teleport"))
    assert "bubblewrap" in str(error.value)
    await nothing_was_made(client, daemon)


@pytest.mark.guarantee("CAP-7")
async def test_paths_that_cannot_be(client: JamClient, daemon: DaemonChild, tmp_path: Path, repository: Make, git: Git) -> None:
    """Each kind of directory that is no clean primary checkout has an error of its own."""
    good = repository(tmp_path / "good")
    git(good, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(tmp_path, "clone", "-q", "--bare", str(good), str(tmp_path / "bare"))
    (tmp_path / "plain").mkdir()
    (tmp_path / "fresh").mkdir()
    git(tmp_path / "fresh", "init", "-q")
    dirty = repository(tmp_path / "dirty")
    (dirty / "new.txt").write_text("not committed\n")
    expected = {
        "absent": "repository.missing",
        "plain": "repository.not_a_repository",
        "linked": "repository.linked_worktree",
        "bare": "repository.bare",
        "fresh": "repository.no_commit",
        "dirty": "repository.dirty",
    }
    for name, code in expected.items():
        with refused(code) as error:
            await client.create_room(cloned("codex", NOWHERE, str(tmp_path / name)))
        assert str(tmp_path / name) in error.value.context()["path"], code
    for path, source in ((None, "private-host-clone"), ("relative/path", "private-host-clone"), (str(good), "managed")):
        with refused("input.invalid"):
            await client.create_room(managed("codex", NOWHERE, workspace=WorkspaceSource(source), path=path))
    # "nul" cannot be in a path; what is no text cannot be in a request.
    with refused("input.invalid"):
        await client.create_room(cloned("codex", NOWHERE, f"{tmp_path}/a\x00b"))
    with refused("input.invalid"):
        await client.create_room(cloned("codex", NOWHERE, os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    await nothing_was_made(client, daemon)


@pytest.mark.guarantee("CAP-4")
async def test_what_is_not_ready(client: JamClient, daemon: DaemonChild) -> None:
    """A credential that is not there, an endpoint that is none: gates of their own, each before a sandbox exists."""
    with refused("credential.missing") as error:
        await client.create_room(managed("codex", NOWHERE, endpoint=EndpointChoice(origin=NOWHERE, credential="absent")))
    assert "JAM_CREDENTIAL_ABSENT" in error.value.context()["variables"]
    with refused("credential.missing") as error:
        await client.create_room(RoomRequest(id=new_id(), provider="codex"))
    assert "OPENAI_API_KEY" in error.value.context()["variables"]
    for origin in ("ftp://127.0.0.1", "http://user:word@127.0.0.1", "http://127.0.0.1:9/path", "nothing", ""):
        with refused("plan.refused") as error:
            await client.create_room(managed("codex", origin))
        assert error.value.context()["part"] == "endpoint"
    with refused("plan.refused") as error:  # a secret without encryption, to another machine
        away = EndpointChoice(origin="http://10.0.0.1", credential="test")
        await client.create_room(managed("codex", NOWHERE, endpoint=away))
    assert "without encryption" in error.value.context()["problem"]
    await nothing_was_made(client, daemon)


async def test_messages_that_cannot_be(client: JamClient, model: ResponsesServer) -> None:
    """Empty and too long are refused; the longest that may be is not; nothing of a refused one is stored."""
    room = await client.create_room(managed("codex", model.base_url))
    ref = str(room.room.id)
    for text in ("", " \n\t ", "x" * (TURN_TEXT_CHARACTERS + 1)):
        with refused("input.invalid") as error:
            await client.say(ref, TurnRequest(id=new_id(), text=text))
        assert error.value.context()["field"].endswith("text")
    with refused("input.invalid"):
        await client.say(ref, TurnRequest(id=new_id(), text="half a character: \ud83d"))
    assert await client.turns(ref) == ()
    longest = await ask(client, room, "x" * TURN_TEXT_CHARACTERS)
    assert longest.state in (TurnState.CAPTURED, TurnState.FAILED), longest  # the program has a limit of its own, and may say so
    assert (await ask(client, room, "short again")).state is TurnState.CAPTURED


async def test_references_to_nothing(client: JamClient, model: ResponsesServer) -> None:
    """Unknown rooms, runs and changes are not found; a beginning that fits several asks for more."""
    unknown = str(new_id())
    questions = (
        client.room,
        client.turns,
        client.interrupt,
        client.stop,
        client.resume,
        client.inspect,
        client.run,
        client.change,
    )
    for ref in (unknown, "no-such-name", "0123456", "../../etc", "%2e%2e", "'; drop table rooms; --", "x" * 3000):
        for question in questions:
            with pytest.raises(JamError) as error:
                await question(ref)
            assert error.value.code.startswith("input."), (ref, error.value)
        with pytest.raises(JamError):
            await client.say(ref, TurnRequest(id=new_id(), text="hello"))
    with refused("input.not_found"):
        await client.build_change(unknown, new_id())
    first = await client.create_room(managed("codex", model.base_url, id=UUID("01a20000-0000-7000-8000-00000000000a")))
    await client.create_room(managed("codex", model.base_url, id=UUID("01a20000-0000-7000-8000-00000000000b")))
    with refused("input.invalid") as several:
        await client.room("01a20000")
    assert "several" in several.value.context()["problem"]
    assert (await client.room("8000-00000000000a")).room.id == first.room.id
    assert (await client.room(first.room.name)).room.id == first.room.id


@pytest.mark.guarantee("WS-11", "RUN-1")
async def test_the_same_id_again(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """An exact retry of a room, a turn, a run or a change request changes nothing; another request under the id is a conflict."""
    request = managed("codex", model.base_url)
    room = await client.create_room(request)
    again = await client.create_room(request)
    assert again.session.id == room.session.id
    assert len(await client.rooms()) == 1
    with refused("conflict.changed_record"):
        await client.create_room(request.model_copy(update={"model": "another"}))

    ref, said = str(room.room.id), TurnRequest(id=new_id(), text="Write the file")
    await client.say(ref, said)
    await client.say(ref, said)
    await ask(client, room, "and then")
    assert (await client.say(ref, said)).state is TurnState.CAPTURED
    assert [turn.text for turn in await client.turns(ref)] == ["Write the file", "and then"]
    with refused("conflict.changed_record"):
        await client.say(ref, said.model_copy(update={"text": "other"}))

    change = await client.build_change(ref, new_id())
    assert await client.build_change(ref, change.id) == change
    assert [path.path for path in change.paths] == ["made.txt"]
    assert await client.changes() == (change,)

    identifier = new_id()
    run = RunRequest(
        id=identifier,
        turn_id=new_id(),
        change_id=new_id(),
        room=managed("codex", model.base_url, id=identifier),
        objective="Write the file",
    )
    started = await client.start_run(run)
    assert (await client.start_run(run)).turn.id == started.turn.id
    with refused("conflict.changed_record"):
        await client.start_run(run.model_copy(update={"objective": "something else"}))
    with refused("input.invalid"):
        await client.start_run(run.model_copy(update={"id": new_id()}))
    with refused("conflict.changed_record"):
        await client.build_change(str(identifier), change.id)
    assert len(await client.rooms()) == 2
    assert len(list((daemon.app / layout.HOSTS).iterdir())) == 2
