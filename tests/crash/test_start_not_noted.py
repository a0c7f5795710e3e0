"""SIGKILL of the daemon between the provider's start of a turn and Jam's note of it: what became of the turn is said truthfully."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.runtime.turns import START_SEEN
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon, until, victims
from jamcore.testing.rooms import ask, managed, new_id
from jamcore.testing.servers.history import AssistantText, UserText, said_in
from jamcore.testing.servers.responses import Match, ResponsesServer, Script, say

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.crash,
    pytest.mark.needs("codex", "bubblewrap"),
    pytest.mark.guarantee("CONT-11"),
]

PROVIDER = "codex"
SCRIPT = Script(
    rules=tuple(say(f"answer to {word}", match=Match(last_user_contains=word)) for word in ("first", "second", "third"))
)


async def daemon_in(directory: Path, lives: Lives) -> DaemonChild:
    """Return a daemon with the program in place, not started."""
    await place_toolchain(directory / "app", PROVIDER)
    return DaemonChild(directory / "app", private=directory / "private", lives=lives)


async def turn_now(client: JamClient, room: RoomView, turn: Turn | TurnRequest) -> Turn:
    """Return the turn as it is known now."""
    return next(known for known in await client.turns(str(room.room.id)) if known.id == turn.id)


def said(model: ResponsesServer, kind: type[UserText | AssistantText]) -> list[str]:
    """Return what one side has said, in the last request that the model got."""
    return said_in(model.model_requests[-1].body, kind)


async def killed_before_the_note(daemon: DaemonChild, client: JamClient, room: RoomView, text: str) -> Turn:
    """Say something to a daemon that ends at the crash point, bring the room back in its next life, and return the turn as it is then."""
    turn = await client.say(str(room.room.id), TurnRequest(id=new_id(), text=text))
    assert await to_thread.run_sync(daemon.reap) == -signal.SIGKILL
    daemon.start()
    await daemon.up()
    await client.resume(str(room.room.id))
    return await turn_now(client, room, turn)


async def test_a_turn_whose_start_was_not_noted_is_cut_by_its_name(tmp_path: Path, lives: Lives) -> None:
    """The provider had it and ended in its middle: it is cut, bound to the provider's turn, and said to be in the conversation."""
    daemon = await daemon_in(tmp_path, lives)
    async with ResponsesServer(SCRIPT) as model, running_daemon(daemon, JAM_CRASH_POINT=f"{START_SEEN}#2") as client:
        room = await client.create_room(managed(PROVIDER, model.base_url))
        assert (await ask(client, room, "first")).state is TurnState.CAPTURED
        cut = await killed_before_the_note(daemon, client, room, "second")
        assert cut.state is TurnState.CUT
        assert cut.provider_turn
        assert "its conversation has what it had written down" in cut.detail
        assert (await ask(client, room, "third")).state is TurnState.CAPTURED
        assert said(model, UserText) == ["first", "second", "third"]


async def test_a_first_turn_whose_start_was_not_noted_is_in_no_conversation(tmp_path: Path, lives: Lives) -> None:
    """A session is bound to its thread by the note of its first turn: without it the room starts fresh, and the turn is cut with words."""
    daemon = await daemon_in(tmp_path, lives)
    async with ResponsesServer(SCRIPT) as model, running_daemon(daemon, JAM_CRASH_POINT=START_SEEN) as client:
        room = await client.create_room(managed(PROVIDER, model.base_url))
        cut = await killed_before_the_note(daemon, client, room, "second")
        assert (cut.state, cut.provider_turn) == (TurnState.CUT, None)
        assert "Jam did not see it reach the provider" in cut.detail
        assert (await ask(client, room, "third")).state is TurnState.CAPTURED
        assert said(model, UserText) == ["third"]


async def test_a_turn_that_ended_before_its_start_was_noted_is_kept(tmp_path: Path, lives: Lives) -> None:
    """The provider finished it while the database took no writes: it is kept and captured, and its answer is told to the model again."""
    daemon = await daemon_in(tmp_path, lives)
    async with ResponsesServer(SCRIPT) as model, running_daemon(daemon) as client:
        room = await client.create_room(managed(PROVIDER, model.base_url))
        ref = str(room.room.id)
        await ask(client, room, "first")
        rollouts = daemon.app / layout.provider_state(room.host.id, PROVIDER)
        found = victims(daemon.pid)
        assert found is not None
        assert found.provider is not None
        os.kill(found.provider.pid, signal.SIGSTOP)
        turn = await client.say(ref, TurnRequest(id=new_id(), text="second"))
        with closing(sqlite3.connect(daemon.app / layout.DATABASE, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            os.kill(found.provider.pid, signal.SIGCONT)
            await until("the provider's end mark", lambda: ended_turns(rollouts) == 2)
            await to_thread.run_sync(daemon.kill)
        assert len(model.model_requests) == 2
        daemon.start()
        await daemon.up()
        with anyio.fail_after(60):
            await client.resume(ref)
        kept = await turn_now(client, room, turn)
        assert (kept.state, bool(kept.provider_turn)) == (TurnState.CAPTURED, True), kept
        await ask(client, room, "third")
        assert said(model, UserText) == ["first", "second", "third"]
        assert said(model, AssistantText) == ["answer to first", "answer to second"]


def ended_turns(state: Path) -> int:
    """Count the provider's own end marks in its rollouts."""
    return sum(path.read_bytes().count(b'"task_complete"') for path in state.rglob("rollout-*.jsonl"))
