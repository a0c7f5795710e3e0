"""A turn, acted out by its text."""

from __future__ import annotations

from uuid import UUID

import anyio

from jamcore.domain.events import (
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    SessionNotice,
    TextDelta,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    TurnStateChanged,
)
from jamcore.domain.requests import (
    TurnRequest,
)
from jamcore.domain.sessions import (
    TurnState,
)
from jamcore.testing.fake_daemon.approvals import FakeApprovals
from jamcore.testing.fake_daemon.records import (
    EVIL,
    Conversation,
)
from jamcore.testing.fake_daemon.state import FakeServices


async def act(fake: FakeServices, room: Conversation, request: TurnRequest) -> None:
    """Act out one turn."""
    turn = request.id
    while any(each.state is TurnState.RUNNING for each in room.turns.values() if each.text == "late"):
        await room.changed.wait()
    room.interrupt = anyio.Event()
    room.move(turn, TurnState.RUNNING)
    room.emit(turn, TurnStarted(provider_turn="t1"))
    text = EVIL if request.text == "evil" else f"echo: {request.text}"
    half = len(text) // 2
    for piece in (text[:half], text[half:]) if request.text not in {"quiet", "late"} else ():
        room.emit(turn, TextDelta(item="m1", text=piece))
    if request.text in {"doubt", "parked"}:
        _lose(room, turn, said=request.text == "doubt")
        return
    if request.text == "killed":
        room.emit(turn, CommandFinished(item="c1", command="sleep", output="", exit_code=-1))
    if request.text == "ask":
        await FakeApprovals(fake).ask(room, turn)
    if request.text == "stubborn":
        await anyio.sleep_forever()
    if request.text in {"wait", "quiet", "late"}:
        await room.interrupt.wait()
        if request.text == "late":
            room.emit(turn, Message(item="m0", text=text))
        room.emit(turn, TurnEnded(outcome=TurnOutcome.INTERRUPTED))
        room.move(turn, TurnState.INTERRUPTED)
        return
    if request.text == "fail":
        room.emit(turn, TurnEnded(outcome=TurnOutcome.FAILED, code="usage_limit", detail="limit reached"))
        room.move(turn, TurnState.FAILED, "limit reached")
        return
    room.emit(turn, CommandStarted(item="c1", command="ls -l", cwd="/jam/work"))
    room.emit(turn, CommandFinished(item="c1", command="ls -l", output="\n".join(f"line {n}" for n in range(40)), exit_code=1))
    room.emit(turn, FileChanged(item="f1", path="src/app.py", change="update", diff="-a\n+b"))
    room.emit(turn, Message(item="m1", text=text))
    room.emit(turn, TurnEnded(outcome=TurnOutcome.COMPLETED))
    room.move(turn, TurnState.COMPLETED)
    room.move(turn, TurnState.CAPTURED)


def _lose(room: Conversation, turn: UUID, *, said: bool) -> None:
    if said:
        room.emit(turn, TurnStateChanged(state="in-doubt", detail="provider.gone: exit status 137"))
    room.live = False
    room.emit(None, SessionNotice(code="provider.gone", detail="exit status 137"))
    room.emit(None, SessionNotice(code="session.parked", detail="the provider ended: exit status 137"))
