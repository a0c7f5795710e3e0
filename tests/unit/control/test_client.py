"""The client's side: finding, starting, retrying, and saying what went wrong."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest
from anyio.abc import SocketStream

from jamcore.cli.hints import hint_of
from jamcore.control import reach
from jamcore.control.address import read_record, write_record
from jamcore.control.client import JamClient
from jamcore.control.directory import app_directory as find_app_directory
from jamcore.control.failures import (
    AddressUnreadableError,
    ConnectionDroppedError,
    DaemonNotRunningError,
    DaemonOtherVersionError,
    DaemonStartFailedError,
    DaemonStartTimeoutError,
    StreamCutError,
)
from jamcore.control.reach import Reach
from jamcore.control.repeating import REPEATS
from jamcore.control.schemas import DaemonRecord
from jamcore.control.versions import API_VERSION, jam_version
from jamcore.domain import layout
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.imports import ImportRequest
from jamcore.domain.requests import RoomRequest, TurnRequest
from jamcore.domain.workspace_care import RecoverRequest, RecoveryWay
from jamcore.system.files import Files
from jamcore.testing.guards import descendants, settle

if TYPE_CHECKING:
    from tests.unit.control.conftest import Served

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

Until = Callable[[Callable[[], bool]], Awaitable[None]]
Make = Callable[..., JamClient]


def record(path: Path, **changes: object) -> DaemonRecord:
    values = {"socket": str(path), "pid": 1, "version": jam_version(), "api": API_VERSION, **changes}
    return DaemonRecord.model_validate_json(json.dumps(values))


@pytest.fixture(autouse=True)
def everything_is_gone() -> Iterator[None]:
    """Wait for the end of what a test started and told to end: daemons are nobody's children, so a test run adopts them."""
    before = descendants()
    yield
    assert settle(descendants() - before) == ()


# ----------------------------------------------------------------------------------------------------------------- finding


def test_the_app_directory_is_named_or_the_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option wins over JAM_HOME, which wins over the platform's directory; all are absolute."""
    monkeypatch.chdir(tmp_path)
    assert find_app_directory(Path("x"), {"JAM_HOME": "/y"}) == tmp_path / "x"
    assert find_app_directory(None, {"JAM_HOME": "y"}) == tmp_path / "y"
    assert find_app_directory(None, {"JAM_HOME": ""}).is_absolute()


async def test_no_daemon_is_a_typed_answer(make_client: Make) -> None:
    """Without permission to start one, a question about a daemon that does not run is refused."""
    with pytest.raises(DaemonNotRunningError):
        await make_client().health()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"socket": 1}', '{"schema_version": 2, "socket": "/x"}'])
async def test_an_address_of_another_form_is_another_version(app_directory: Path, make_client: Make, content: str) -> None:
    """What this release cannot read was written by another one; nothing is started beside it."""
    (app_directory / "daemon.json").write_text(content)
    with pytest.raises(DaemonOtherVersionError):
        await make_client(start=True, command=("/bin/false",)).health()


@pytest.mark.parametrize("change", [{"version": "9.9"}, {"api": API_VERSION + 1}])
async def test_a_daemon_of_another_version_is_refused(served: Served, change: dict[str, object]) -> None:
    """The refusal says what to do, and doing it works: who answers and stopping are open to every release."""
    write_record(served.directory, record(served.socket, **change), Files())
    with pytest.raises(DaemonOtherVersionError) as refused:
        await served.client.rooms()
    assert "jam daemon stop" in refused.value.hint
    assert served.fake.calls == []
    free = JamClient(Reach(served.directory, environ={}, any_version=True))
    assert (await free.health()).pid == os.getpid()
    await free.shutdown()


async def test_an_unreadable_app_directory_is_named(tmp_path: Path, make_client: Make) -> None:
    """A directory that is a file, or whose address cannot be opened, is a typed refusal with its path."""
    (tmp_path / "app").joinpath("daemon.json").mkdir(parents=True, exist_ok=True)
    with pytest.raises(AddressUnreadableError) as refused:
        await make_client().health()
    assert refused.value.path.endswith("daemon.json")


# ---------------------------------------------------------------------------------------------------------------- starting


@asynccontextmanager
async def cleaned_up(directory: Path) -> AsyncIterator[None]:
    """End what a test started in this directory."""
    try:
        yield
    finally:
        if found := read_record(directory):
            os.kill(found.pid, signal.SIGTERM)


async def test_the_daemon_is_started_when_needed(app_directory: Path, fake_command: tuple[str, ...]) -> None:
    """It runs in a session of its own, so that no signal of this terminal reaches it, and is found by the next client."""
    told: list[str] = []
    client = JamClient(
        Reach(app_directory, environ=os.environ, start=True, command=fake_command, on_start=lambda: told.append("starting"))
    )
    async with cleaned_up(app_directory):
        first = await client.health()
        second = await client.health()
    assert first.pid == second.pid
    assert told == ["starting"]
    assert first.pid != os.getpid()


@pytest.mark.guarantee("OWN-7")
async def test_many_clients_at_once_start_one_daemon(app_directory: Path, fake_command: tuple[str, ...]) -> None:
    """Each starts one, the lock lets one live, and all of them use that one."""
    pids: list[int] = []

    async def ask() -> None:
        reach = Reach(app_directory, environ=os.environ, start=True, command=fake_command)
        pids.append((await JamClient(reach).health()).pid)

    async with cleaned_up(app_directory), anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(ask)
    assert len(pids) == 4
    assert len(set(pids)) == 1


async def test_a_daemon_that_is_just_ending_is_followed_by_a_new_one(app_directory: Path, fake_command: tuple[str, ...]) -> None:
    """While the old one still holds the directory nobody listens; the client waits for its end and starts another."""
    client = JamClient(Reach(app_directory, environ=os.environ, start=True, command=fake_command))
    first = (await client.health()).pid
    (app_directory / "slow-end").touch()
    os.kill(first, signal.SIGTERM)
    with anyio.fail_after(10):
        while read_record(app_directory):  # noqa: ASYNC110 - another process removes it
            await anyio.sleep(0.005)
    async with cleaned_up(app_directory):
        second = (await client.health()).pid
    assert second != first


async def test_a_daemon_that_ends_at_once_says_why(app_directory: Path, make_client: Make, fake_command: tuple[str, ...]) -> None:
    """Its own words reach the person."""
    (app_directory / "refuse.txt").write_text("settings.invalid: option=engine")
    with pytest.raises(DaemonStartFailedError) as failed:
        await make_client(start=True, command=fake_command).health()
    assert failed.value.reason == "settings.invalid: option=engine"


@pytest.mark.parametrize(
    ("command", "reason"), [("/nowhere/jamd", "/nowhere/jamd: No such file or directory"), ("/bin/true", "it said nothing")]
)
async def test_a_daemon_that_is_none_is_a_typed_error(make_client: Make, command: str, reason: str) -> None:
    """A program that is not there, or that ends without a word."""
    with pytest.raises(DaemonStartFailedError) as failed:
        await make_client(start=True, command=(command,)).health()
    assert failed.value.reason == reason


@pytest.mark.guarantee("START-1")
async def test_a_start_that_recovers_says_what_and_is_waited_for(
    app_directory: Path, fake_command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that was cut comes before any client is answered; whoever waits is told which, and gets the answer."""
    monkeypatch.setattr(reach, "LOOK_S", 0.01)
    busy = app_directory / "recovering.txt"
    busy.write_text("checkpoint payload deletions")
    told: list[str] = []

    def recovering(doing: str) -> None:
        told.append(doing)
        busy.unlink()

    way = Reach(app_directory, environ=os.environ, start=True, command=fake_command, on_recovery=recovering)
    health = await JamClient(way).health()
    assert told == ["checkpoint payload deletions"]
    os.kill(health.pid, signal.SIGTERM)


@pytest.mark.guarantee("START-1")
async def test_a_start_that_recovers_for_too_long_is_named(
    app_directory: Path, make_client: Make, fake_command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends, the daemon goes on, and the error says what it is about."""
    monkeypatch.setattr(reach, "LOOK_S", 0.01)
    monkeypatch.setattr(reach, "RECOVERY_WAIT_S", 0.0)
    busy = app_directory / "recovering.txt"
    busy.write_text("continuity resets")
    with pytest.raises(DaemonStartTimeoutError) as late:
        await make_client(start=True, command=fake_command).health()
    assert late.value.doing == "continuity resets"
    pid = json.loads((app_directory / layout.LOCK).read_text())["pid"]
    os.kill(pid, signal.SIGKILL)


async def test_the_wait_goes_on_while_something_is_recovered(
    app_directory: Path, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """Its bound counts from the last word on it; what a dead daemon said counts for nothing."""
    monkeypatch.setattr(reach, "LOOK_S", 0.01)
    way = Reach(app_directory, environ=os.environ, start_wait_s=100.0)
    lock = app_directory / layout.LOCK
    with anyio.CancelScope(deadline=anyio.current_time() + 50.0) as bound:
        first = bound.deadline
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(way._follow, bound, anyio.current_time() + 1000.0)
            lock.write_text(json.dumps({"pid": 1 << 30, "doing": "continuity resets"}))
            for _ in range(5):
                await anyio.sleep(0.02)
            assert bound.deadline == first
            lock.write_text(json.dumps({"pid": os.getpid(), "doing": "continuity resets"}))
            await until(lambda: bound.deadline > first)
            tasks.cancel_scope.cancel()


async def test_a_daemon_that_does_not_listen_is_not_waited_for_for_ever(
    app_directory: Path, make_client: Make, fake_command: tuple[str, ...], until: Until
) -> None:
    """The wait is bounded; the daemon is left to itself, as it may be busy with recovery."""
    (app_directory / "mute").touch()
    pid_file = app_directory / "pid"
    command = ("/bin/sh", "-c", f'echo $$ > {pid_file}; exec "$@"', "sh", *fake_command)
    with pytest.raises(DaemonStartTimeoutError):
        await make_client(start=True, command=command, start_wait_s=0.5).health()
    await until(lambda: pid_file.exists() and bool(pid_file.read_text()))
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGKILL)


# ---------------------------------------------------------------------------------------------------- dropped connections


class Flaky:
    """Stands before the real socket and drops connections: ``cut`` bytes of an answer are let through each time."""

    def __init__(self, real: Path, cuts: list[int]) -> None:
        self.real = real
        self.cuts = cuts
        self.connections = 0

    async def handle(self, client: SocketStream) -> None:
        """Pass one connection on."""
        self.connections += 1
        cut = self.cuts.pop(0) if self.cuts else None
        async with client, await anyio.connect_unix(self.real) as server:
            await server.send(await client.receive())
            passed = b""
            while True:
                try:
                    data = await server.receive()
                except anyio.EndOfStream:
                    return
                room = len(data) if cut is None else cut - len(passed)
                if data[:room]:
                    await client.send(data[:room])
                passed += data
                if cut is not None and len(passed) >= cut:
                    return


@asynccontextmanager
async def flaky(served: Served, tmp_path: Path, cuts: list[int]) -> AsyncIterator[Flaky]:
    proxy = Flaky(served.socket, cuts)
    async with await anyio.create_unix_listener(tmp_path / "p") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.handle)
        write_record(served.directory, record(tmp_path / "p"), Files())
        yield proxy
        write_record(served.directory, record(served.socket), Files())
        tasks.cancel_scope.cancel()


@pytest.mark.guarantee("WS-11")
@pytest.mark.parametrize("cut", [0, 1, 30, 400])
async def test_a_dropped_answer_is_asked_for_once_more(served: Served, tmp_path: Path, cut: int) -> None:
    """The room was made when the answer was lost; the same id makes the repetition the same request."""
    async with flaky(served, tmp_path, [cut]) as proxy:
        view = await served.client.create_room(RoomRequest(id=UUID(int=1 << 96), provider="codex"))
    assert proxy.connections == 2
    assert list(served.fake.rooms) == [view.room.id]


async def test_two_dropped_answers_are_a_typed_error(served: Served, tmp_path: Path) -> None:
    """There is one repetition, not a loop."""
    async with flaky(served, tmp_path, [10, 10, 10]) as proxy:
        with pytest.raises(ConnectionDroppedError) as dropped:
            await served.client.health()
    assert proxy.connections == 2
    assert dropped.value.request == "GET /v1/health"


OPERATION = ImportRequest(id=UUID(int=5), path="/taken")


@pytest.mark.guarantee("WS-11", "CTRL-4")
async def test_an_operation_is_asked_for_until_its_daemon_has_come_back(served: Served, tmp_path: Path) -> None:
    """Its id makes each repetition the same request; when nobody answers the error names the operation that goes on."""
    async with flaky(served, tmp_path, [0] * REPEATS) as proxy:
        assert (await served.client.imports.take(OPERATION)).export.id == OPERATION.id
    assert proxy.connections == REPEATS + 1
    assert list(served.fake.exports) == [OPERATION.id]
    async with flaky(served, tmp_path, [0] * (REPEATS + 1)) as proxy:
        with pytest.raises(ConnectionDroppedError) as dropped:
            await served.client.imports.take(OPERATION)
    assert (proxy.connections, dropped.value.operation) == (REPEATS + 1, str(OPERATION.id))
    assert f"jam operation watch {OPERATION.id}" in hint_of(dropped.value)
    assert "jam operation ls --unfinished" in hint_of(dropped.value), "it may have taken over another"


@pytest.mark.guarantee("WS-11", "CTRL-4")
@pytest.mark.parametrize("way", RecoveryWay)
async def test_no_operation_is_named_that_cannot_be(served: Served, tmp_path: Path, way: RecoveryWay) -> None:
    """A retry finishes what was cut under another id: it is asked for as often, and what it names is what can be looked at."""
    request = RecoverRequest(id=UUID(int=6), way=way)
    async with flaky(served, tmp_path, [0] * (REPEATS + 1)) as proxy:
        with pytest.raises(ConnectionDroppedError) as dropped:
            await served.client.workspaces.recover("r", request)
    named = "" if way is RecoveryWay.RETRY else str(request.id)
    assert (proxy.connections, dropped.value.operation) == (REPEATS + 1, named)
    assert ("jam operation watch" in hint_of(dropped.value)) is bool(named)


@pytest.mark.guarantee("WS-11", "CTRL-4")
async def test_a_daemon_that_dies_in_an_operation_is_started_and_asked_again(
    app_directory: Path, tmp_path: Path, fake_command: tuple[str, ...]
) -> None:
    """The command that waits for the operation gets its answer from the daemon's next life, which it starts."""

    async def die(stream: SocketStream) -> None:
        await stream.receive()
        (tmp_path / "dead").unlink()
        await stream.aclose()

    client = JamClient(Reach(app_directory, environ=os.environ, start=True, command=fake_command))
    async with cleaned_up(app_directory), await anyio.create_unix_listener(tmp_path / "dead") as dead:
        write_record(app_directory, record(tmp_path / "dead"), Files())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dead.serve, die)
            assert (await client.imports.take(OPERATION)).export.id == OPERATION.id
            tasks.cancel_scope.cancel()


async def test_a_shutdown_is_never_repeated(served: Served, tmp_path: Path) -> None:
    """The daemon that is asked to stop may be gone before it answers."""
    async with flaky(served, tmp_path, [0, 0]) as proxy:
        with pytest.raises(ConnectionDroppedError):
            await served.client.shutdown()
    assert proxy.connections == 1


@pytest.mark.guarantee("CTRL-2")
async def test_a_cut_stream_goes_on_where_it_was(served: Served, tmp_path: Path, until: Until) -> None:
    """Each event is seen once and in order, whatever byte the connection ended at."""
    await served.client.create_room(RoomRequest(id=UUID(int=1 << 96), provider="codex", name="r"))
    await served.client.say("r", TurnRequest(id=UUID(int=2), text="hi"))
    await until(lambda: len(served.fake.rooms[UUID(int=1 << 96)].events) == 12)
    async with flaky(served, tmp_path, [700, 1100, 1500]) as proxy:
        seen = [event.seq async for event in served.client.events("r", follow=False)]
    assert seen == list(range(1, 13))
    assert proxy.connections == 4


async def test_a_stream_that_never_gets_further_is_a_typed_error(served: Served, tmp_path: Path) -> None:
    """It says after which event to go on."""
    await served.client.create_room(RoomRequest(id=UUID(int=1 << 96), provider="codex", name="r"))
    async with flaky(served, tmp_path, [100] * 9) as proxy, aclosing(served.client.events("r", after=0)) as events:
        with pytest.raises(StreamCutError) as cut:
            await anext(events)
    assert cut.value.last_seq == 0
    assert proxy.connections == 4


async def test_text_that_is_no_unicode_is_refused_before_it_is_sent(served: Served) -> None:
    """A lone surrogate (a file name's stray byte) has no form in JSON."""
    with pytest.raises(InvalidInputError):
        await served.client.say("r", TurnRequest.model_construct(id=UUID(int=1), text="\udc80"))
    with pytest.raises(InvalidInputError):
        await served.client.room("\udc80")
