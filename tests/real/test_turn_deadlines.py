"""A model that never answers, or refuses for ever, ends a turn and nothing else: the bound is the core's, whatever the agent does."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from jamcore.domain.events import TurnEnded, TurnOutcome
from jamcore.domain.sessions import TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.rooms import ask, managed
from jamcore.testing.servers.apis import SERVERS
from jamcore.testing.servers.faults import Fault, HttpFault
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.script import Hold, Match, Part, Rule, Script, Text, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap"), pytest.mark.slow, pytest.mark.timeout(300)]

IDLE_S = 3.0


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
        assert "3 s (turn_idle_timeout_s)" in end.detail
        assert f"The model endpoint is {model.base_url}{stuck.said}." in end.detail
        assert (await client.room(str(room.room.id))).live
        assert (await ask(client, room, "and now", limit_s=90)).state is TurnState.CAPTURED
        texts = [item.text for item in conversation(model.model_requests[-1].body) if isinstance(item, UserText)]
        assert [any(said in text for text in texts) for said in ("hello", "and now")] == [True, True]
