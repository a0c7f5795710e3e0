"""Rooms of a real daemon in tests: opened with a scripted model, spoken to until a turn has ended, refused by code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from jamcore.control.client import JamClient
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.errors import JamError
from jamcore.domain.requests import EndpointChoice, RoomRequest, RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.system.ids import SystemIds
from jamcore.testing.daemon import room_event
from jamcore.testing.exchanges import Shell, exec_command
from jamcore.testing.servers.script import Match, Rule, Text

ENDED = frozenset({TurnState.CAPTURED, TurnState.FAILED, TurnState.CUT, TurnState.INTERRUPTED})


def new_id() -> UUID:
    """Return an id as a client would mint it."""
    return SystemIds().uuid()


def managed(provider: str, origin: str, **more: object) -> RoomRequest:
    """Return the request for a room with an empty workspace and the model at ``origin``."""
    return RoomRequest.model_validate({"id": new_id(), "provider": provider, "endpoint": EndpointChoice(origin=origin), **more})


def cloned(provider: str, origin: str, path: str, **more: object) -> RoomRequest:
    """Return the request for a room with a private clone of the repository at ``path``."""
    return managed(provider, origin, workspace=WorkspaceSource.PRIVATE_HOST_CLONE, path=path, **more)


async def ask(client: JamClient, room: RoomView, text: str, *, limit_s: float = 30.0) -> Turn:
    """Say something and return the turn once it has ended, whichever way."""
    ref = str(room.room.id)
    turn = await client.say(ref, TurnRequest(id=new_id(), text=text))
    await room_event(
        client,
        ref,
        lambda event: event.turn_id == turn.id and event.payload.kind == "turn.state" and event.payload.state in ENDED,
        limit_s=limit_s,
    )
    return next(known for known in await client.turns(ref) if known.id == turn.id)


async def said_in_room(client: JamClient, room: RoomView) -> tuple[tuple[str, str], ...]:
    """Return code and detail of everything that Jam itself has said in the room."""
    events = [event.payload async for event in client.events(str(room.room.id), after=0, follow=False)]
    return tuple((said.code, said.detail) for said in events if said.kind == "session.notice")


@contextmanager
def refused(code: str) -> Iterator[pytest.ExceptionInfo[JamError]]:
    """Expect an error with exactly this code, whichever process raised it, and a hint for a person."""
    with pytest.raises(JamError) as caught:
        yield caught
    assert caught.value.code == code, caught.value
    assert caught.value.hint


def running(command: str, *, said: str, answer: str = "Done.", shell: Shell = exec_command) -> tuple[Rule, ...]:
    """Return the model's side of a turn in which one command is run, as often as the turn is asked for.

    Args:
        command: For the guest's shell.
        said: A part of the person's text, by which the turn is known.
        answer: The last message.
        shell: How the provider's model runs a command.
    """
    call = f"call_{abs(hash((command, said))):x}"[:40]
    return (
        Rule(match=Match(last_user_contains=said, last_is_tool_output=True), answer=(Text(deltas=(answer,)),)),
        Rule(match=Match(last_user_contains=said), answer=(shell(call, command),)),
    )
