"""A model that never answers, or refuses for ever, ends a turn and nothing else: the bound is the core's, whatever the agent does."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from jamcore.domain.events import IN_DOUBT, RoomEvent, TurnEnded, TurnOutcome, TurnStateChanged
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, room_event, running_daemon, victims
from jamcore.testing.rooms import ask, managed, new_id
from jamcore.testing.servers.apis import SERVERS
from jamcore.testing.servers.faults import Fault, HttpFault
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.ledger import held_at
from jamcore.testing.servers.script import Hold, Match, Part, Rule, Script, Text, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap"), pytest.mark.slow]

IDLE_S = 8.0
"""Longer than the slowest program needs to its first word where several tests share two processors."""


class Stuck(NamedTuple):
    """An agent whose turn gets nowhere, and what its model does about it."""

    provider: str
    api: str
    answer: tuple[Part, ...]
    fault: Fault | None
    said: str


STUCK = (
    Stuck("codex", "responses", (Text(deltas=("Half ", "a word."), hold=Hold(gate="never", after=1)),), None, ""),
    Stuck("claude_code", "messages", (Hold(gate="never"),), None, ""),
    Stuck("copilot", "responses", (Hold(gate="never"),), None, ""),
    Stuck("opencode", "chat", (Text(deltas=("never",)),), HttpFault(status=429), ", which answered 429 last"),
)


@pytest.mark.guarantee("START-4", "START-5", "CONT-11")
@pytest.mark.parametrize(
    "stuck", [pytest.param(one, id=one.provider, marks=pytest.mark.needs(f"provider:{one.provider}")) for one in STUCK]
)
async def test_a_turn_that_gets_nowhere_fails_and_the_room_goes_on(stuck: Stuck, tmp_path: Path, lives: Lives) -> None:
    """With a code of Jam's own, the bound and the endpoint in its reason; the next turn of the conversation is captured."""
    app = tmp_path / "app"
    await place_toolchain(app, stuck.provider)
    daemon = DaemonChild(app, private=tmp_path / "private", lives=lives)
    stalls = Rule(match=Match(last_user_contains="never"), answer=stuck.answer, fault=stuck.fault)
    async with (
        SERVERS[stuck.api](Script(rules=(stalls, say("Hello.")))) as model,
        running_daemon(daemon, JAM_TURN_IDLE_TIMEOUT_S=f"{IDLE_S:g}") as client,
    ):
        room = await client.create_room(managed(stuck.provider, model.base_url, model="mock-model"))
        assert (await ask(client, room, "hello", limit_s=90)).state is TurnState.CAPTURED
        turn = await ask(client, room, "this never ends", limit_s=120)
        assert turn.state is TurnState.FAILED, turn
        events = [e.payload async for e in client.events(str(room.room.id), after=0, follow=False) if e.turn_id == turn.id]
        [end] = [payload for payload in events if isinstance(payload, TurnEnded)]
        assert (end.outcome, end.code) == (TurnOutcome.FAILED, "turn.idle_timeout")
        assert f"{IDLE_S:g} s (turn_idle_timeout_s)" in end.detail
        assert f"The model endpoint is {model.base_url}{stuck.said}." in end.detail
        assert (await client.room(str(room.room.id))).live
        assert (await ask(client, room, "and now", limit_s=90)).state is TurnState.CAPTURED
        texts = [item.text for item in conversation(model.model_requests[-1].body) if isinstance(item, UserText)]
        assert [any(said in text for text in texts) for said in ("hello", "and now")] == [True, True]


@pytest.mark.guarantee("START-4", "CONT-1", "CONT-11")
@pytest.mark.needs("provider:codex")
async def test_an_agent_that_does_not_even_hear_an_interrupt_is_stopped(tmp_path: Path, lives: Lives) -> None:
    """The program stands still: it is ended, the turn is in doubt for that reason and then cut, and the conversation goes on."""
    app = tmp_path / "app"
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, private=tmp_path / "private", lives=lives)
    stalls = Rule(match=Match(last_user_contains="never"), answer=(Hold(gate="never"),))
    async with (
        SERVERS["responses"](Script(rules=(stalls, say("Hello.")))) as model,
        running_daemon(daemon, JAM_TURN_IDLE_TIMEOUT_S=f"{IDLE_S:g}") as client,
    ):
        room = await client.create_room(managed("codex", model.base_url, model="mock-model"))
        ref = str(room.room.id)
        assert (await ask(client, room, "hello", limit_s=90)).state is TurnState.CAPTURED
        turn = await client.say(ref, TurnRequest(id=new_id(), text="this never ends"))
        await model.wait_for(held_at("never"), 30)
        found = victims(daemon.pid)
        assert found is not None
        assert found.provider is not None
        os.kill(found.provider.pid, signal.SIGSTOP)
        doubt = await room_event(client, ref, lambda event: _is_doubt(event, turn.id), limit_s=150)
        assert isinstance(doubt.payload, TurnStateChanged)
        assert doubt.payload.detail.startswith("turn.not_interrupted: detail=turn.idle_timeout: Nothing was heard")
        assert (await ask(client, room, "and now", limit_s=150)).state is TurnState.CAPTURED
        [cut] = [known for known in await client.turns(ref) if known.id == turn.id]
        assert cut.state is TurnState.CUT, cut
        texts = [item.text for item in conversation(model.model_requests[-1].body) if isinstance(item, UserText)]
        assert texts[-3:] == ["hello", "this never ends", "and now"]


def _is_doubt(event: RoomEvent, turn: UUID) -> bool:
    payload = event.payload
    return event.turn_id == turn and isinstance(payload, TurnStateChanged) and payload.state == IN_DOUBT
