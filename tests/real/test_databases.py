"""A provider that keeps its conversation in a database of the guest's home, under a real daemon and in a real sandbox (CONT-5)."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.continuity import EntryKind, ObservationOutcome
from jamcore.domain.requests import RoomRequest, RoomView, TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, parked, room_event, running_daemon
from jamcore.testing.doubles.notebook import DATABASE, FORGETS
from jamcore.testing.guards import kill
from jamcore.testing.rooms import ask, new_id, refused, said_in_room

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap"), pytest.mark.guarantee("CONT-5")]

ENTRY_POINTS = "[jam.providers]\nnotebook = jamcore.testing.doubles.notebook:NotebookProvider\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory in which the double is installed as a plugin."""
    info = tmp_path / "site" / "notebook-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path / "site"


@pytest.fixture
async def daemon(app: Path, tmp_path: Path, site: Path) -> DaemonChild:
    """A daemon that knows the double, not started."""
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    return DaemonChild(app, environment={"PYTHONPATH": path}, private=tmp_path / "private")


@pytest.fixture
async def client(daemon: DaemonChild) -> AsyncIterator[JamClient]:
    """The client of that daemon, which runs."""
    async with running_daemon(daemon) as running_client:
        yield running_client


async def notebook(client: JamClient) -> RoomView:
    """Open a room."""
    return await client.create_room(RoomRequest(id=new_id(), provider="notebook"))


async def answers(client: JamClient, room: RoomView) -> list[str]:
    """Return what the provider said, oldest first: each time the whole conversation."""
    events = [event.payload async for event in client.events(str(room.room.id), after=0, follow=False)]
    return [payload.text for payload in events if payload.kind == "message"]


def home(app: Path, room: RoomView) -> Path:
    """Return the guest's home as it lies on the host."""
    return app / layout.guest_disk(room.host.id) / "home"


@pytest.mark.guarantee("CONT-1", "CONT-7", "CONT-12")
async def test_a_thread_that_comes_back_blank_is_no_resume(client: JamClient, app: Path) -> None:
    """The right id and none of the turns: that is recorded as failed and never captured, and the checkpoint brings all back."""
    room = await notebook(client)
    ref = str(room.room.id)
    for text in ("one", "two"):
        assert (await ask(client, room, text)).state is TurnState.CAPTURED
    await client.stop(ref)
    before = await client.checkpoints(ref)
    (home(app, room) / FORGETS).touch()
    with refused("continuity.resume_failed"):
        await client.resume(ref)
    assert not (await client.room(ref)).live
    seen = (await client.inspect(ref)).observations[-1]
    assert (seen.outcome, seen.reported_identity) == (ObservationOutcome.FAILED, seen.expected_identity)
    assert "of 2 captured turns it has the first 0" in seen.detail
    assert await client.checkpoints(ref) == before
    (home(app, room) / FORGETS).unlink()
    assert (await ask(client, room, "three")).state is TurnState.CAPTURED
    assert (await answers(client, room))[-1] == "one | two | three"


@pytest.mark.guarantee("CONT-1", "CONT-11")
async def test_everything_gone_and_the_conversation_is_there(client: JamClient, app: Path) -> None:
    """Each turn is captured from the log that was never moved into the database; a home without a file of it resumes exactly."""
    room = await notebook(client)
    for text in ("one", "two"):
        assert (await ask(client, room, text)).state is TurnState.CAPTURED
    await client.stop(str(room.room.id))
    shutil.rmtree(home(app, room) / ".notebook")
    shutil.rmtree(home(app, room) / ".jam-databases")
    assert (await ask(client, room, "three")).state is TurnState.CAPTURED
    assert (await answers(client, room))[-1] == "one | two | three"
    (resumed,) = [detail for code, detail in await said_in_room(client, room) if code == "session.resumed"]
    assert "restored from the last checkpoint" in resumed
    newest = (await client.checkpoints(str(room.room.id)))[0]
    (entry,) = (await client.checkpoint(str(newest.id))).entries
    assert (entry.path, entry.kind) == (f"~/{DATABASE}", EntryKind.DATABASE)


@pytest.mark.guarantee("CONT-11")
async def test_an_orderly_stop_resumes_from_the_live_database(client: JamClient) -> None:
    """The final checkpoint holds what is there, so it is left alone."""
    room = await notebook(client)
    await ask(client, room, "one")
    await client.stop(str(room.room.id))
    await ask(client, room, "two")
    assert (await answers(client, room))[-1] == "one | two"
    (resumed,) = [detail for code, detail in await said_in_room(client, room) if code == "session.resumed"]
    assert "its live state extends the last checkpoint" in resumed


@pytest.mark.guarantee("CONT-8", "CONT-11")
async def test_a_sandbox_that_died_is_started_for_its_final_checkpoint_alone(client: JamClient, daemon: DaemonChild) -> None:
    """What a resume changed is in no checkpoint yet: every process is killed, and the checkpoint is made all the same."""
    room = await notebook(client)
    ref = str(room.room.id)
    await ask(client, room, "one")
    await client.stop(ref)
    before = len(await client.checkpoints(ref))
    await client.resume(ref)
    kill(daemon.family())
    await parked(client, ref)
    assert len(await client.checkpoints(ref)) == before + 1
    assert not daemon.family()
    assert (await ask(client, room, "two")).state is TurnState.CAPTURED
    assert (await answers(client, room))[-1] == "one | two"


async def test_a_database_that_was_damaged_since_is_refused_and_the_last_good_one_comes_back(client: JamClient, app: Path) -> None:
    """The turn that damaged it is completed and never reads as safe; after the stop the last checkpoint is restored."""
    room = await notebook(client)
    await ask(client, room, "one")
    await client.stop(str(room.room.id))
    (home(app, room) / DATABASE).write_bytes(b"no database any more" * 400)
    await ask(client, room, "two")
    assert (await answers(client, room))[-1] == "one | two"


@pytest.mark.guarantee("CONT-1", "CONT-7")
async def test_a_damaged_checkpoint_starts_nothing(client: JamClient, app: Path) -> None:
    """It is found before the sandbox, and so before the provider, is started."""
    room = await notebook(client)
    await ask(client, room, "one")
    await client.stop(str(room.room.id))
    for pack in (app / layout.packs(room.host.id)).glob("*.pack"):
        data = bytearray(pack.read_bytes())
        data[-1] ^= 1
        pack.write_bytes(data)
    with refused("continuity.refused"):
        await ask(client, room, "two")
    assert await answers(client, room) == ["one"]


@pytest.mark.guarantee("CONT-8", "SEC-7")
async def test_a_conversation_that_cannot_be_kept_is_given_up_in_words(client: JamClient) -> None:
    """A token in the database refuses every checkpoint; what becomes of the turn is what the copy of the database at rest says."""
    room = await notebook(client)
    ref = str(room.room.id)
    await ask(client, room, "one")
    await client.say(ref, TurnRequest(id=new_id(), text="ghp_" + "A1b2" * 9))
    await room_event(client, ref, lambda event: getattr(event.payload, "code", "") == "continuity.secret_in_state")
    await client.stop(ref)
    with refused("continuity.unsaved"):
        await client.stop(ref)
    settled = (await client.stop(ref, accept_unsaved=True)).settled
    assert settled is not None
    assert f"restored, because ~/{DATABASE}: it holds a GitHub token" in settled.detail
    await ask(client, room, "two")
    assert (await answers(client, room))[-1] == "one | two"


@pytest.mark.guarantee("CONT-8", "CONT-1")
async def test_a_sandbox_that_cannot_be_looked_into_keeps_nobody_from_giving_up(
    client: JamClient, daemon: DaemonChild, app: Path
) -> None:
    """Neither the checkpoint nor the comparison can be made without the sandbox. That is said, and the resume decides."""
    room = await notebook(client)
    ref = str(room.room.id)
    await ask(client, room, "one")
    await client.say(ref, TurnRequest(id=new_id(), text="ghp_" + "A1b2" * 9))
    await room_event(client, ref, lambda event: getattr(event.payload, "code", "") == "continuity.secret_in_state")
    await client.stop(ref)
    (app / layout.engine_root(room.host.engine) / f"{room.host.sandbox}.json").unlink()
    with refused("continuity.unsaved"):
        await client.stop(ref)
    settled = (await client.stop(ref, accept_unsaved=True)).settled
    assert settled is not None
    assert "1 completed turn is in no checkpoint; what becomes of it is decided when the room comes back" in settled.detail
    await ask(client, room, "two")
    assert (await answers(client, room))[-1] == "one | two"
