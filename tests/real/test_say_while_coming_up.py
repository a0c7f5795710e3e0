"""A message that arrives while its room is still being brought back waits for it, and is run once."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from jamcore.control.client import JamClient
from jamcore.domain.events import RoomEvent
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import room_event
from jamcore.testing.rooms import ask, managed, new_id
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap")]

ROUNDS = 3


def captured(request: TurnRequest, event: RoomEvent) -> bool:
    """Say whether the event makes the request's turn safe."""
    return event.turn_id == request.id and getattr(event.payload, "state", "") == TurnState.CAPTURED


@pytest.mark.guarantee("CONT-11", "PREP-5")
async def test_messages_during_a_bring_up_are_run_once(client: JamClient) -> None:
    """Nothing is routed to a session before it is routable: such turns are captured, and the model is asked once for each."""
    async with ResponsesServer(Script(rules=(say("Hello."),))) as model:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        await ask(client, room, "first")
        for number in range(ROUNDS):
            await client.stop(ref)
            requests = [TurnRequest(id=new_id(), text=f"round {number} message {n}") for n in range(3)]

            async def later(request: TurnRequest, delay: float) -> None:
                await anyio.sleep(delay)  # spread over the bring-up, so that some fall into the middle of it
                await client.say(ref, request)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.resume, ref)
                for place, request in enumerate(requests):
                    tasks.start_soon(later, request, 0.03 + 0.06 * place)
            for request in requests:
                await room_event(client, ref, partial(captured, request))
        asked = [turn.text for turn in await client.turns(ref)]
        assert len(model.model_requests) == len(asked) == 1 + 3 * ROUNDS
