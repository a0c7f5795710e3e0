"""A daemon that is stopped in the middle of something long ends by itself, with everything put away, long before its backstop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.providers import ProviderDescription
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import HostState, TurnState
from jamcore.plugins.manager import ProviderManager
from jamcore.testing.daemon import BACKSTOP_S, DaemonChild, running_daemon, until
from jamcore.testing.guards import settle
from jamcore.testing.rooms import ask, managed, new_id
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio]

STOPPED = 0
"""How an orderly end looks; the backstop's is a signal."""
PROVIDER = "codex"


async def refused(call: Callable[[], Awaitable[object]], codes: list[str]) -> None:
    """Make a call that is refused, and note how."""
    with pytest.raises(JamError) as error:
        await call()
    codes.append(error.value.code)


async def described(provider: str) -> ProviderDescription:
    """Return what the provider's plugin says of itself."""
    plugins = ProviderManager()
    await plugins.load()
    return plugins.provider(provider).description


async def ended(daemon: DaemonChild) -> int:
    """Stop the daemon as a service manager would, and return how it ended."""
    daemon.terminate()
    return await to_thread.run_sync(daemon.reap, BACKSTOP_S)


@pytest.mark.needs("codex", "bubblewrap")
@pytest.mark.guarantee("START-4")
async def test_a_stop_during_a_bring_up_that_hangs(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """The program never answers. Who waits for the room is told why; the room is parked, and comes up when the program is right."""
    place = next((daemon.app / layout.TOOLCHAINS).glob("*/*/**/bin/codex"))
    place.rename(place.with_name("real"))
    place.write_text('#!/bin/sh\ntouch "$HOME/hangs"; sleep 600\n')
    place.chmod(0o755)
    request, codes = managed(PROVIDER, model.base_url), list[str]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refused, lambda: client.create_room(request), codes)
        await until("the program hangs", lambda: any((daemon.app / layout.HOSTS).glob("*/guest-disk/home/hangs")))
        assert await ended(daemon) == STOPPED
    assert codes == ["daemon.stopping"]
    place.with_name("real").rename(place)
    daemon.start()
    await daemon.up()
    (room,) = await client.rooms()
    assert room.host.state is HostState.PARKED
    room = await client.create_room(request)
    assert (await ask(client, room, "hello")).state is TurnState.CAPTURED


@pytest.mark.guarantee("START-4")
async def test_a_stop_during_an_install_that_hangs(app: Path, tmp_path: Path) -> None:
    """The registry takes the connection and says nothing. Nothing of the installation is left, no process either."""
    with socket.create_server(("127.0.0.1", 0)) as registry:
        where = f"http://127.0.0.1:{registry.getsockname()[1]}/simple"
        registry.settimeout(60)
        daemon = DaemonChild(app, environment={"PIP_INDEX_URL": where}, private=tmp_path / "private")
        codes: list[str] = []
        async with running_daemon(daemon) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(refused, lambda: client.install(PROVIDER), codes)
            asked, _ = await to_thread.run_sync(registry.accept)
            family = daemon.family()
            assert family
            assert await ended(daemon) == STOPPED
            asked.close()
        assert codes == ["daemon.stopping"]
        assert not settle(family)
        assert [path.name for path in (app / layout.TOOLCHAINS).glob("*/*")] == []


@pytest.mark.needs("codex")
@pytest.mark.guarantee("START-4")
async def test_the_backstop_ends_what_nothing_else_can(app: Path, tmp_path: Path) -> None:
    """A thread that reads what never comes cannot be cancelled: the daemon's own bound, as it was set, ends it all the same."""
    description = await described(PROVIDER)
    assert description.toolchain is not None
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    fifo = wheels / f"{description.toolchain.distribution.replace('-', '_')}-{description.toolchain.version}-x.whl"
    os.mkfifo(fifo)
    bounds = {"JAM_FINALISE_TIMEOUT_S": "0.5", "JAM_FORCED_EXIT_S": "3", "JAM_WHEEL_DIRECTORY": str(wheels)}
    daemon, codes = DaemonChild(app, environment=bounds, private=tmp_path / "private"), list[str]()
    async with running_daemon(daemon) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(refused, lambda: client.install(PROVIDER), codes)
        held = await to_thread.run_sync(lambda: os.open(fifo, os.O_WRONLY))  # returns once the daemon reads it
        try:
            assert await ended(daemon) == -signal.SIGALRM
        finally:
            os.close(held)


@pytest.mark.needs("codex", "bubblewrap")
@pytest.mark.guarantee("START-4", "CONT-11")
async def test_a_stop_during_a_turn_keeps_the_conversation(client: JamClient, daemon: DaemonChild, model: ResponsesServer) -> None:
    """The turn is interrupted, the last checkpoint is made, and the next daemon goes on with the same thread."""
    room = await client.create_room(managed(PROVIDER, model.base_url))
    ref = str(room.room.id)
    assert (await ask(client, room, "remember this")).state is TurnState.CAPTURED
    identity = (await client.room(ref)).session.provider_identity
    await client.say(ref, TurnRequest(id=new_id(), text="and this"))
    assert await ended(daemon) == STOPPED
    daemon.start()
    await daemon.up()
    assert (await client.room(ref)).host.state is HostState.PARKED
    assert {turn.state for turn in await client.turns(ref)} <= {TurnState.CAPTURED, TurnState.INTERRUPTED, TurnState.COMPLETED}
    assert (await client.resume(ref)).session.provider_identity == identity
