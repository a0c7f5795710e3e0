"""A daemon whose rows are in PostgreSQL: rooms and exact resumes are the same, its server may restart, and daemons may share one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.postgres import PostgresServer, postgres_server
from jamcore.testing.rooms import ask, managed, new_id, refused
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import Hold, Match, ResponsesServer, Rule, Script, Text, held_at, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("postgres", "codex", "bubblewrap")]
PROVIDER = "codex"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that the test may stop."""
    with postgres_server() as running:
        running.create("jam")
        yield running


@asynccontextmanager
async def daemon_on(server: PostgresServer, place: Path, lives: Lives) -> AsyncIterator[tuple[DaemonChild, JamClient]]:
    """Run a daemon with an app directory of its own and its rows on the server."""
    app = place / "app"
    await place_toolchain(app, PROVIDER)
    child = DaemonChild(app, environment={"JAM_DATABASE_URL": server.url("jam")}, private=place / "private", lives=lives)
    async with running_daemon(child) as client:
        yield child, client


@pytest.mark.guarantee("CONT-1")
async def test_a_killed_daemon_resumes_from_postgresql(
    server: PostgresServer, tmp_path: Path, lives: Lives, model: ResponsesServer
) -> None:
    """The next life finds everything there and nowhere else, and the model is told what was said before the kill."""
    async with daemon_on(server, tmp_path, lives) as (child, client):
        room = await client.create_room(managed(PROVIDER, model.base_url))
        assert (await ask(client, room, "The first thing.")).state is TurnState.CAPTURED
        await to_thread.run_sync(child.kill)
        child.start()
        await child.up()
        resumed = await client.resume(str(room.room.id))
        inspection = await client.inspect(str(room.room.id))
        assert [seen.outcome for seen in inspection.observations][-1] is ObservationOutcome.SUCCEEDED
        assert (await ask(client, resumed, "The second thing.")).state is TurnState.CAPTURED
        said = [item.text for item in conversation(model.model_requests[-1].body) if isinstance(item, UserText)]
        assert [text for text in said if text.endswith("thing.")] == ["The first thing.", "The second thing."]
        assert not (child.app / layout.DATABASE).exists()


async def test_a_restart_of_the_server_ends_nothing(
    server: PostgresServer, tmp_path: Path, lives: Lives, model: ResponsesServer
) -> None:
    """While the server is away each request is refused by type; the daemon lives on, and so does the room when the server is back."""
    async with daemon_on(server, tmp_path, lives) as (child, client):
        room = await client.create_room(managed(PROVIDER, model.base_url))
        assert (await ask(client, room, "The first thing.")).state is TurnState.CAPTURED
        await to_thread.run_sync(server.stop)
        for _ in range(2):
            with refused("store.unreachable"):
                await client.create_room(managed(PROVIDER, model.base_url))
            with refused("store.unreachable"):
                await client.rooms()
        child.require_alive()
        await to_thread.run_sync(server.start)
        assert (await ask(client, room, "The second thing.")).state is TurnState.CAPTURED
        child.require_alive()


@pytest.mark.guarantee("SHARE-1")
async def test_two_daemons_on_one_server_keep_to_their_own(
    server: PostgresServer, tmp_path: Path, lives: Lives, model: ResponsesServer
) -> None:
    """Each works in its own app directory and its own sandbox, and refuses the other's rooms; one that starts anew disturbs no other."""
    async with daemon_on(server, tmp_path / "a", lives) as (_, one), daemon_on(server, tmp_path / "b", lives) as (second, two):
        ours = await one.create_room(managed(PROVIDER, model.base_url))
        theirs = await two.create_room(managed(PROVIDER, model.base_url))
        assert ours.host.daemon_id != theirs.host.daemon_id
        assert ours.host.sandbox != theirs.host.sandbox
        assert (await ask(one, ours, "The first thing.")).state is TurnState.CAPTURED
        assert (await ask(two, theirs, "The first thing.")).state is TurnState.CAPTURED
        for stranger, room in ((two, ours), (one, theirs)):
            with refused("store.fenced"):
                await stranger.say(str(room.room.id), TurnRequest(id=new_id(), text="Mine now."))
        await to_thread.run_sync(second.kill)
        second.start()
        await second.up()
        assert (await one.room(str(ours.room.id))).live
        assert (await ask(one, ours, "The second thing.")).state is TurnState.CAPTURED
        assert (await ask(two, theirs, "The second thing.")).state is TurnState.CAPTURED
        for name, room, other in (("a", ours, theirs), ("b", theirs, ours)):
            assert (tmp_path / name / "app" / layout.host_root(room.host.id)).exists()
            assert not (tmp_path / name / "app" / layout.host_root(other.host.id)).exists()


async def test_a_daemon_does_not_start_without_its_server(server: PostgresServer, tmp_path: Path, lives: Lives) -> None:
    """It says why in one line, without the password, and its next start works."""
    server.stop()
    url = server.url("jam").replace("jam@", "jam:hunter2@")
    child = DaemonChild(tmp_path / "app", environment={"JAM_DATABASE_URL": url}, private=tmp_path / "private", lives=lives)
    child.start()
    assert await to_thread.run_sync(child.reap, 30.0) != 0
    said = child.last_words()
    assert "store.unreachable" in said
    assert "hunter2" not in said + "".join(path.read_text() for path in (tmp_path / "app").rglob("*.log"))
    server.start()
    async with running_daemon(child):
        child.require_alive()
    assert "hunter2" not in child.last_words()


@pytest.mark.guarantee("CONT-11")
async def test_a_server_that_goes_in_the_middle_of_a_turn(server: PostgresServer, tmp_path: Path, lives: Lives) -> None:
    """What the agent says cannot be kept then: the turn is never called safe, the daemon lives on, and the room is brought back."""
    held = Rule(match=Match(last_user_contains="first"), answer=(Text(deltas=("I say ", "this."), hold=Hold(gate="g", after=1)),))
    async with (
        ResponsesServer(Script(rules=(held, say("Hello.")))) as model,
        daemon_on(server, tmp_path, lives) as (child, client),
    ):
        room = await client.create_room(managed(PROVIDER, model.base_url))
        ref = str(room.room.id)
        turn = await client.say(ref, TurnRequest(id=new_id(), text="The first thing."))
        await model.wait_for(held_at("g"), 30)
        await to_thread.run_sync(server.stop)
        model.release("g")
        with refused("store.unreachable"):
            await client.rooms()
        await model.wait_for(lambda event: event.kind in ("completed", "left"), 30)
        await to_thread.run_sync(server.start)
        child.require_alive()
        await client.stop(ref)
        back = await client.resume(ref)
        now = next(known for known in await client.turns(ref) if known.id == turn.id)
        assert now.state in (TurnState.CUT, TurnState.CAPTURED)
        assert (await ask(client, back, "The second thing.")).state is TurnState.CAPTURED
        child.require_alive()
