"""What a daemon says that it is doing, and an end that is asked for only if it is idle."""

from __future__ import annotations

import socket
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, room_event, running_daemon
from jamcore.testing.rooms import ask, managed, new_id, refused, running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("CTRL-2")]
PROVIDER = "codex"


async def doing(client: JamClient) -> tuple[int, tuple[str, ...]]:
    """Return how many rooms are live, and what is under way."""
    activity = (await client.health()).activity
    assert activity is not None
    return activity.live_rooms, activity.working


async def goes_on(client: JamClient, daemon: DaemonChild, work: str) -> None:
    """Ask for an end if it is idle, which it is not."""
    with refused("daemon.busy") as error:
        await client.shutdown(if_idle=True)
    assert error.value.context() == {"working": work}
    assert (await client.health()).pid == daemon.pid


async def test_an_installation_is_work(app: Path, tmp_path: Path) -> None:
    """It is named while it runs, and keeps a daemon from being ended; once it is over nothing does."""
    with socket.create_server(("127.0.0.1", 0)) as registry:
        where = f"http://127.0.0.1:{registry.getsockname()[1]}/simple"
        registry.settimeout(60)
        daemon = DaemonChild(app, environment={"PIP_INDEX_URL": where, "PIP_RETRIES": "0"}, private=tmp_path / "private")
        async with running_daemon(daemon) as client:
            assert await doing(client) == (0, ())

            async def install() -> None:
                with refused("toolchain.unreachable"):
                    await client.install(PROVIDER)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(install)
                asked, _ = await to_thread.run_sync(registry.accept)
                assert await doing(client) == (0, (f"install the program of {PROVIDER}",))
                await goes_on(client, daemon, f"install the program of {PROVIDER}")
                registry.close()
                asked.close()
            assert await doing(client) == (0, ())
            await client.shutdown(if_idle=True)
            assert await to_thread.run_sync(daemon.reap) == 0


@pytest.mark.needs("codex", "bubblewrap")
async def test_a_turn_is_work_and_a_room_that_waits_is_none(daemon: DaemonChild) -> None:
    """A live room alone keeps no daemon; a turn in it does until it is captured, and so does one that waits behind it."""
    script = Script(rules=(*running("sleep 60", said="take long"), say("Hello.")))
    async with ResponsesServer(script) as model, running_daemon(daemon) as client:
        room = await client.create_room(managed(PROVIDER, model.base_url, name="one"))
        ref = str(room.room.id)
        assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
        assert await doing(client) == (1, ())
        first, second = (TurnRequest(id=new_id(), text="take long") for _ in range(2))
        await client.say(ref, first)
        await client.say(ref, second)
        await room_event(client, ref, lambda event: event.turn_id == first.id and event.payload.kind == "command.started")
        assert await doing(client) == (1, ("a turn in the room one",))
        await goes_on(client, daemon, "a turn in the room one")
        await client.interrupt(ref)
        await room_event(client, ref, lambda event: event.turn_id == second.id and event.payload.kind == "command.started")
        await goes_on(client, daemon, "a turn in the room one")
        await client.stop(ref)
        assert await doing(client) == (0, ())
        await client.shutdown(if_idle=True)
        assert await to_thread.run_sync(daemon.reap) == 0
