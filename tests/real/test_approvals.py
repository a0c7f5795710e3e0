"""The real agent asks before it acts, in the real sandbox: allowed, denied, too late, cut by a death, and never asked again."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.approvals import Approval, ApprovalAnswer, ApprovalPolicy, ApprovalState, DecidedBy, DecisionRequest, RuleScope
from jamcore.domain.cells import Placement
from jamcore.domain.errors import JamError
from jamcore.domain.events import IN_DOUBT, ApprovalDecided, ApprovalRequested, RoomEvent
from jamcore.domain.requests import RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.runtime.approvals import DECIDED
from jamcore.testing.daemon import DaemonChild, kill, room_event, running_daemon, victims
from jamcore.testing.rooms import ENDED, ask, managed, new_id, refused, running
from jamcore.testing.servers.history import ToolOutput, conversation
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap"), pytest.mark.unprivileged]

COMMAND = "printf 'made by the agent\\n' >> made.txt"
WAIT_S = 30.0
ALLOW, DENY = ApprovalAnswer.ALLOW, ApprovalAnswer.DENY


@pytest.fixture
async def model() -> AsyncIterator[ResponsesServer]:
    """A model that appends to a file when it is told to write, and says something whatever else it is told."""
    async with ResponsesServer(Script(rules=(*running(COMMAND, said="write"), say("Hello.")))) as server:
        yield server


async def asking_room(client: JamClient, model: ResponsesServer) -> RoomView:
    """Make a room whose agent asks."""
    return await client.create_room(managed("codex", model.base_url, approvals=ApprovalPolicy.ASK))


async def write(client: JamClient, room: RoomView) -> tuple[TurnRequest, RoomEvent]:
    """Tell the agent to write, and return the turn and the question that comes of it."""
    request = TurnRequest(id=new_id(), text="write it")
    await client.say(str(room.room.id), request)
    return request, await room_event(
        client, str(room.room.id), lambda event: event.turn_id == request.id and isinstance(event.payload, ApprovalRequested)
    )


def approval_of(event: RoomEvent) -> str:
    """Return the approval's id out of a room's event."""
    assert isinstance(event.payload, ApprovalRequested)
    return event.payload.request


async def answer(client: JamClient, approval: str, given: ApprovalAnswer, **more: object) -> Approval:
    """Answer as a person would, with an id of one's own."""
    return await client.approvals.decide(approval, DecisionRequest.model_validate({"id": new_id(), "decision": given, **more}))


async def ended(client: JamClient, room: RoomView, turn: UUID) -> Turn:
    """Wait for the end of a turn."""
    ref = str(room.room.id)
    await room_event(
        client, ref, lambda event: event.turn_id == turn and getattr(event.payload, "state", "") in ENDED, limit_s=WAIT_S
    )
    return next(known for known in await client.turns(ref) if known.id == turn)


def made(app: Path, room: RoomView) -> str:
    """Return what the agent wrote into the file, as the host sees it."""
    path = app / layout.session_workspace(room.host.id, room.session.id) / "made.txt"
    return path.read_text() if path.exists() else ""


async def told(client: JamClient, room: RoomView, turn: UUID) -> list[tuple[ApprovalState, DecidedBy]]:
    """Return how the questions of a turn ended, as the room was told."""
    events = [event async for event in client.events(str(room.room.id), after=0, follow=False)]
    return [
        (event.payload.state, event.payload.decided_by)
        for event in events
        if event.turn_id == turn and isinstance(event.payload, ApprovalDecided)
    ]


async def test_an_allowed_command_is_run(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """Nothing happens before the answer; then the command runs, once, and the turn is captured. A second answer is refused."""
    room = await asking_room(client, model)
    request, event = await write(client, room)
    payload = event.payload
    assert isinstance(payload, ApprovalRequested)
    assert (payload.subject, COMMAND.split(maxsplit=1)[0] in payload.detail) == ("command", True)
    assert made(app, room) == ""
    [waiting] = await client.approvals.list(room=room.room.name, state=ApprovalState.PENDING)
    assert (str(waiting.id), waiting.turn_id) == (approval_of(event), request.id)
    assert (await answer(client, approval_of(event), ALLOW)).state is ApprovalState.ALLOWED
    assert (await ended(client, room, request.id)).state is TurnState.CAPTURED
    assert made(app, room) == "made by the agent\n"
    assert await told(client, room, request.id) == [(ApprovalState.ALLOWED, DecidedBy.PERSON)]
    with refused("conflict.approval_decided"):
        await answer(client, approval_of(event), DENY)


async def test_a_denied_command_is_not_run(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """The model is told, and the turn goes on to its own end."""
    room = await asking_room(client, model)
    request, event = await write(client, room)
    await answer(client, approval_of(event), DENY)
    assert (await ended(client, room, request.id)).state is TurnState.CAPTURED
    assert made(app, room) == ""
    outputs = [item.output for item in conversation(model.model_requests[-1].body) if isinstance(item, ToolOutput)]
    assert len(outputs) == 1
    assert "rejected" in outputs[0]


async def test_nobody_answers_in_time(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """The setting's deadline denies, and the room says that nobody answered."""
    async with running_daemon(daemon, JAM_APPROVAL_DEADLINE_S="0.5") as client:
        room = await asking_room(client, model)
        request, event = await write(client, room)
        assert (await ended(client, room, request.id)).state is TurnState.CAPTURED
        assert await told(client, room, request.id) == [(ApprovalState.DENIED, DecidedBy.DEADLINE)]
        assert made(app, room) == ""
        with refused("conflict.approval_decided"):
            await answer(client, approval_of(event), ALLOW)


@pytest.mark.guarantee("CONT-11", "START-1")
async def test_a_daemon_dies_while_a_question_waits(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """The question has expired by the restart, the turn is in doubt and then cut, the command never ran, and the room goes on."""
    async with running_daemon(daemon) as client:
        room = await asking_room(client, model)
        ref = str(room.room.id)
        request, event = await write(client, room)
        await to_thread.run_sync(daemon.kill)
        daemon.start()
        await daemon.up()
        found = await client.approvals.get(approval_of(event))
        assert (found.state, found.decided_by) == (ApprovalState.EXPIRED, DecidedBy.RESTART)
        assert await told(client, room, request.id) == [(ApprovalState.EXPIRED, DecidedBy.RESTART)]
        await room_event(client, ref, lambda one: one.turn_id == request.id and getattr(one.payload, "state", "") == IN_DOUBT)
        with refused("conflict.approval_decided"):
            await answer(client, approval_of(event), ALLOW)
        await client.resume(ref)
        assert (await ended(client, room, request.id)).state is TurnState.CUT
        assert made(app, room) == ""
        again, event = await write(client, room)
        await answer(client, approval_of(event), ALLOW)
        assert (await ended(client, room, again.id)).state is TurnState.CAPTURED
        assert made(app, room) == "made by the agent\n"


@pytest.mark.guarantee("CONT-11")
async def test_a_daemon_dies_between_an_answer_and_its_hearing(daemon: DaemonChild, app: Path, model: ResponsesServer) -> None:
    """The answer stands as it was given, and can be asked for again by its id; the turn says that it was cut, and nothing ran."""
    async with running_daemon(daemon, JAM_CRASH_POINT=DECIDED) as client:
        room = await asking_room(client, model)
        request, event = await write(client, room)
        given = DecisionRequest(id=new_id(), decision=ALLOW, always=RuleScope.ROOM)
        with pytest.raises(JamError) as cut:
            await client.approvals.decide(approval_of(event), given)
        assert cut.value.code.startswith("daemon.")
        await to_thread.run_sync(daemon.reap)
        daemon.start()
        await daemon.up()
        assert (await client.approvals.decide(approval_of(event), given)).state is ApprovalState.ALLOWED
        assert len(await client.approvals.rules()) == 1
        await client.resume(str(room.room.id))
        assert (await ended(client, room, request.id)).state is TurnState.CUT
        assert made(app, room) == ""


@pytest.mark.parametrize("ending", ["interrupt", "stop", "death of the agent"])
async def test_a_turn_ends_while_a_question_waits(
    client: JamClient, daemon: DaemonChild, app: Path, model: ResponsesServer, ending: str
) -> None:
    """The question expires with its turn, whichever way that ends; nothing was run, and a later answer is refused."""
    room = await asking_room(client, model)
    ref = str(room.room.id)
    request, event = await write(client, room)
    if ending == "interrupt":
        await client.interrupt(ref)
    elif ending == "stop":
        await client.stop(ref)
    else:
        there = victims(daemon.pid)
        assert there is not None
        assert there.provider is not None
        kill((there.provider,))
    await room_event(client, ref, lambda one: isinstance(one.payload, ApprovalDecided))
    assert await told(client, room, request.id) == [(ApprovalState.EXPIRED, DecidedBy.TURN_ENDED)]
    assert made(app, room) == ""
    with refused("conflict.approval_decided"):
        await answer(client, approval_of(event), ALLOW)


async def test_what_is_allowed_for_good_is_not_asked_again(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """In the room, then in another room of the agent; without the rules it is asked again. The agent itself remembers nothing."""
    room = await asking_room(client, model)
    first, event = await write(client, room)
    await answer(client, approval_of(event), ALLOW, always=RuleScope.ROOM)
    await ended(client, room, first.id)
    second, _ = await write(client, room)
    await ended(client, room, second.id)
    assert await told(client, room, second.id) == [(ApprovalState.ALLOWED, DecidedBy.RULE)]
    assert made(app, room) == "made by the agent\n" * 2
    other = await asking_room(client, model)
    third, event = await write(client, other)
    assert await told(client, other, third.id) == []
    await answer(client, approval_of(event), ALLOW, always=RuleScope.AGENT)
    await ended(client, other, third.id)
    for rule in await client.approvals.rules():
        await client.approvals.remove_rule(str(rule.id))
    fourth, event = await write(client, other)
    assert await told(client, other, fourth.id) == []
    await answer(client, approval_of(event), DENY)
    await ended(client, other, fourth.id)
    assert made(app, other) == "made by the agent\n"


@pytest.mark.guarantee("SHARE-5")
async def test_rooms_of_one_program_ask_each_for_themselves(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """In one process one thread asks and the other does not; while the question waits the other answers, and both are captured after it."""
    asking, quiet = [
        await client.create_room(managed("codex", model.base_url, placement=Placement.SHARED, approvals=policy))
        for policy in (ApprovalPolicy.ASK, ApprovalPolicy.NEVER)
    ]
    assert asking.host.id == quiet.host.id
    for room in (asking, quiet):  # a thread's first turn begins with a checkpoint, which waits for every turn of the host
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
    request, event = await write(client, asking)
    other = await client.say(str(quiet.room.id), TurnRequest(id=new_id(), text="write it"))
    await room_event(
        client,
        str(quiet.room.id),
        lambda one: one.turn_id == other.id and getattr(one.payload, "state", "") == TurnState.COMPLETED,
    )
    assert (made(app, asking), made(app, quiet)) == ("", "made by the agent\n")
    await answer(client, approval_of(event), ALLOW)
    assert (await ended(client, asking, request.id)).state is TurnState.CAPTURED
    assert (await ended(client, quiet, other.id)).state is TurnState.CAPTURED
    assert made(app, asking) == "made by the agent\n"
    assert await told(client, quiet, other.id) == []


async def test_a_room_that_does_not_ask_is_never_kept_waiting(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """The default."""
    room = await client.create_room(managed("codex", model.base_url))
    turn = await client.say(str(room.room.id), TurnRequest(id=new_id(), text="write it"))
    assert (await ended(client, room, turn.id)).state is TurnState.CAPTURED
    assert made(app, room) == "made by the agent\n"
    assert await client.approvals.list() == ()


async def test_attach_asks_the_person_at_the_terminal(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """A person types a message, is asked, types y, and sees the agent go on."""
    room = await asking_room(client, model)
    with attached(app, room.room.name) as (expect, press):
        await to_thread.run_sync(expect, "/quit")
        press("write it\n")
        await to_thread.run_sync(expect, "y: this once, n: no, a: always in this room")
        assert made(app, room) == ""
        press("y\n")
        await to_thread.run_sync(expect, "allowed (by a person)")
        await to_thread.run_sync(expect, "Done.")
        press("/quit\n")
        await to_thread.run_sync(expect, "Left; the room goes on")
    assert made(app, room) == "made by the agent\n"


@contextmanager
def attached(app: Path, room: str) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Run ``jam attach`` on a terminal; yield what waits for a text on it, and what types."""
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "jamcore.cli.main", "attach", room, "--app-directory", str(app)])
    shown = ""

    def expect(text: str) -> None:
        nonlocal shown
        deadline = time.monotonic() + WAIT_S
        while text not in shown:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([master], [], [], max(0.0, left))
            assert ready, f"{text!r} not in {shown!r}"
            shown += os.read(master, 65536).decode(errors="replace")
        shown = shown.partition(text)[2]

    def press(keys: str) -> None:
        os.write(master, keys.encode())

    try:
        yield expect, press
    finally:
        os.close(master)
        os.waitpid(pid, 0)
