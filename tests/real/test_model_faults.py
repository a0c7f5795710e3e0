"""The model's server is down or refuses: the turn fails with a code, and the room lives."""

from __future__ import annotations

import socket

import pytest

from jamcore.control.client import JamClient
from jamcore.domain.events import TurnEnded
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import Turn, TurnState
from jamcore.testing.rooms import ask, managed
from jamcore.testing.servers.responses import HttpFault, Match, ResponsesServer, Rule, Script, Text, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap")]


async def ended(client: JamClient, room: RoomView, turn: Turn) -> TurnEnded:
    """Return the provider's end mark of a turn."""
    events = [e.payload async for e in client.events(str(room.room.id), after=0, follow=False) if e.turn_id == turn.id]
    return next(payload for payload in events if isinstance(payload, TurnEnded))


@pytest.mark.parametrize(("status", "code"), [(401, "unauthorised"), (429, "rate_limited"), (500, "server_error")])
async def test_a_model_that_refuses(client: JamClient, status: int, code: str) -> None:
    """Failed, with a stable word for it and the provider's own sentence; the next turn, when the model answers again, is fine."""
    fault = Rule(match=Match(last_user_contains="fails"), answer=(Text(deltas=("never",)),), fault=HttpFault(status=status))
    async with ResponsesServer(Script(rules=(fault, say("Hello.")))) as model:
        room = await client.create_room(managed("codex", model.base_url))
        turn = await ask(client, room, "this fails", limit_s=60)
        assert turn.state is TurnState.FAILED, turn
        mark = await ended(client, room, turn)
        assert mark.code == code, mark
        assert mark.detail
        assert (await client.room(str(room.room.id))).live
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED


async def test_a_model_that_is_not_there(client: JamClient) -> None:
    """Nobody listens: the turn fails within the provider's own few retries, and the room is not lost with it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    room = await client.create_room(managed("codex", f"http://127.0.0.1:{port}"))
    turn = await ask(client, room, "is anybody there?", limit_s=90)
    assert turn.state is TurnState.FAILED, turn
    assert (await ended(client, room, turn)).code
    assert (await client.room(str(room.room.id))).live
    async with ResponsesServer(Script(rules=(say("Hello."),)), port=port):
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
