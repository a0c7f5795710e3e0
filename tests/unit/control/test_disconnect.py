"""What becomes of a request whose client has gone (CTRL-4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest

from jamcore.control import wire
from jamcore.control.app import ROUTES
from jamcore.control.client import JamClient
from jamcore.control.reach import Reach
from jamcore.control.routes.route import Call, Route
from jamcore.control.schemas import Accepted
from jamcore.domain.requests import RoomRequest
from jamcore.testing.fake_daemon.daemon import running

if TYPE_CHECKING:
    from tests.unit.control.conftest import Served

pytestmark = pytest.mark.anyio

Until = Callable[[Callable[[], bool]], Awaitable[None]]
REQUEST = RoomRequest(id=UUID(int=1 << 96), provider="codex")


@pytest.mark.guarantee("CTRL-4")
@pytest.mark.parametrize("target", ["/v1/rooms", "/v1/providers/codex/install"])
async def test_a_change_goes_on_without_its_client(served: Served, until: Until, target: str) -> None:
    """The client drops the connection while the daemon works; the work ends as if nobody had gone."""
    served.fake.gate = anyio.Event()
    body = REQUEST.model_dump_json().encode()
    stream = await wire.connect(served.socket)
    await stream.send(wire.Request("POST", target, {}, body).head() + body)
    await until(lambda: bool(served.fake.calls))
    await anyio.aclose_forcefully(stream)
    # The server has noticed the end of the connection once it answers a later one.
    await served.client.health()
    served.fake.gate.set()
    done = "created" if target == "/v1/rooms" else "installed"
    await until(lambda: done in dict(served.fake.calls))


@pytest.mark.guarantee("CTRL-4")
@pytest.mark.parametrize("name", [route.name for route in ROUTES if isinstance(route, Route)])
async def test_no_operation_is_cancelled_by_its_client(
    app_directory: Path, until: Until, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever it is, destructive or a question: once it was begun it goes on to its own end, and its last words are nobody's."""
    begun, gate, ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def held(call: Call) -> Accepted:
        del call
        begun.set()
        await gate.wait()
        ended.set()
        return Accepted()

    (route,) = [each for each in ROUTES if isinstance(each, Route) and each.name == name]
    monkeypatch.setattr("jamcore.control.app.ROUTES", (replace(route, reply=held),))
    target = route.path.translate({ord("{"): "", ord("}"): ""})
    async with running(app_directory, app_directory / "run") as (_, socket):
        stream = await wire.connect(socket)
        await stream.send(wire.Request(route.method, target, {}).head())
        with anyio.fail_after(10):
            await begun.wait()
        await anyio.aclose_forcefully(stream)
        # The server has noticed the end of the connection once it answers a later one.
        async with wire.exchange(await wire.connect(socket), wire.Request("GET", "/nowhere", {})) as answer:
            assert answer.status == 404
        assert not ended.is_set()
        gate.set()
        with anyio.fail_after(10):
            await ended.wait()


@pytest.mark.guarantee("CTRL-4")
async def test_a_client_that_is_cancelled_cancels_nothing(served: Served, until: Until) -> None:
    """The typed client gives up (Ctrl-C); the room is made all the same."""
    served.fake.gate = anyio.Event()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.client.create_room, REQUEST)
            await until(lambda: bool(served.fake.calls))
            scope.cancel()
    assert scope.cancelled_caught
    served.fake.gate.set()
    await until(lambda: REQUEST.id in served.fake.rooms)


@pytest.mark.guarantee("CTRL-4")
async def test_the_end_of_the_server_waits_for_a_change(app_directory: Path, until: Until) -> None:
    """An orderly shutdown lets a change that is under way end, and answers its client."""
    results: list[object] = []

    async def create(client: JamClient) -> None:
        results.append(await client.create_room(REQUEST))

    async with anyio.create_task_group() as tasks, running(app_directory, app_directory / "run") as (fake, _):
        fake.gate = anyio.Event()
        tasks.start_soon(create, JamClient(Reach(app_directory, environ={})))
        await until(lambda: bool(fake.calls))
        fake.tasks.start_soon(_open_later, fake.gate, app_directory / "daemon.json", until)
    assert len(results) == 1


async def _open_later(gate: anyio.Event, record: Path, until: Until) -> None:
    """Open the gate only when the shutdown has begun: it removes the daemon's address first."""
    await until(lambda: not record.exists())
    gate.set()
