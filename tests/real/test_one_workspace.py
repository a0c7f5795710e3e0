"""One workspace, and several daemons and clients that want it at once: one wins, everybody else gets a typed answer (WS-2, SHARE-1)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from jamcore.control.client import JamClient
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, ArchiveResult, ExportView, RoomExportRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.operations import OperationState
from jamcore.domain.removal import RemovalOverride, RemovalReason
from jamcore.domain.sessions import WorkspaceState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.parked_world import SIBLING, SUBJECT, Rooms, World, install_plugin, living, make_world, room_request, say
from jamcore.testing.postgres import PostgresServer, postgres_server
from jamcore.testing.rooms import new_id

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("WS-2", "SHARE-1")]

REQUESTS = 100
TAKEN = {"conflict.workspace_busy", "conflict.changed_record", "workspace.archived"}
"""What whoever comes second is told by the daemon that has the workspace."""
LOST = (RemovalOverride(reason=RemovalReason.OUTSIDE, path="."),)

Ask = Callable[[int], Awaitable[ArchiveResult | ExportView]]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server for daemons that share a database."""
    with postgres_server() as running:
        yield running


async def all_at_once(asking: Sequence[Ask]) -> tuple[list[list[ArchiveResult | ExportView]], list[Counter[str]]]:
    """Have everybody ask in turn, a hundred times at once; return what each was answered, and by which codes each was refused."""
    ended: list[list[ArchiveResult | ExportView]] = [[] for _ in asking]
    codes: list[Counter[str]] = [Counter() for _ in asking]

    async def one(number: int) -> None:
        who = number % len(asking)
        try:
            ended[who].append(await asking[who](number // len(asking)))
        except JamError as error:
            codes[who][error.code] += 1

    async with anyio.create_task_group() as tasks:
        for number in range(REQUESTS):
            tasks.start_soon(one, number)
    assert sum(map(len, ended)) + sum(each.total() for each in codes) == REQUESTS
    return ended, codes


def by_turns(client: JamClient, request: ArchiveRequest) -> Ask:
    """Ask for an archive and for an export by turns, each under an id of its own."""

    async def ask(number: int) -> ArchiveResult | ExportView:
        if number % 2:
            return await client.exports.archive(SUBJECT, request.model_copy(update={"id": new_id()}))
        return await client.exports.new(SUBJECT, RoomExportRequest(id=new_id()))

    return ask


@asynccontextmanager
async def daemon_of(place: Path, site: Path, database: str) -> AsyncIterator[tuple[DaemonChild, JamClient, JamClient]]:
    """Run a daemon in an app directory of its own with its rows on the server, and yield it with two clients."""
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    child = DaemonChild(place / "app", environment={"PYTHONPATH": path, "JAM_DATABASE_URL": database}, private=place / "private")
    async with running_daemon(child) as client:
        yield child, client, child.client()


@pytest.mark.needs("postgres")
async def test_two_daemons_with_two_clients_each_and_a_hundred_requests(tmp_path: Path, server: PostgresServer) -> None:
    """The daemon that has the workspace archives it once, whoever asked; the other refuses all of its clients and touches nothing."""
    site, database = install_plugin(tmp_path / "site"), server.create("two")
    world = World(tmp_path / "one")
    async with (
        daemon_of(tmp_path / "one", site, database) as (_, first, second),
        daemon_of(tmp_path / "two", site, database) as (stranger, third, fourth),
    ):
        room = await first.create_room(room_request(world, SUBJECT, Rooms.MANAGED, new_id()))
        await first.stop(SUBJECT)
        (work,) = world.app.glob(f"{layout.HOST_NATIVE}/*/*/{room.session.id}")
        (work / "work.txt").write_text("mine")
        question = ArchiveQuestion(overrides=LOST)
        plan = await first.exports.plan_archive(SUBJECT, question)
        request = ArchiveRequest(id=new_id(), confirmed=plan.digest, overrides=question.overrides)
        ended, codes = await all_at_once([by_turns(client, request) for client in (first, third, second, fourth)])
        ours, strangers = (*ended[::2],), codes[1::2]
        assert not any(ended[1::2])
        assert "store.fenced" in {code for each in strangers for code in each} <= {"store.fenced"} | TAKEN
        assert {code for each in codes[::2] for code in each} <= TAKEN
        if (await first.room(SUBJECT)).workspace.state is not WorkspaceState.ARCHIVED:
            ours[0].append(await first.exports.archive(SUBJECT, request))
        assert len({each.id for answers in ours for each in answers if isinstance(each, ArchiveResult)}) == 1
        exports = await second.exports.list(SUBJECT)
        assert {row.export.id for row in exports} == {each.export.id for answers in ours for each in answers}
        for row in exports:
            assert (await first.exports.verify(str(row.export.id))).sound
        assert not work.exists()
        begun = (await second.operations.list(room=SUBJECT)).items
        assert {each.state for each in begun} == {OperationState.SUCCEEDED}
        assert not list((stranger.app / layout.EXPORTS).glob("*"))
        assert (await third.room(SUBJECT)).workspace.state is WorkspaceState.ARCHIVED


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgres"))])
async def test_two_daemons_of_one_app_directory_and_a_hundred_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, database: str
) -> None:
    """Where the directory's lock was no help, the daemon that came last has everything: the older one is refused and writes nothing."""
    monkeypatch.syspath_prepend(str(install_plugin(tmp_path / "site")))
    world = World(tmp_path / "world")
    seams = {"database_url": request.getfixturevalue("server").create("one")} if database == "postgresql" else {}
    await make_world(world, **seams)
    async with living(world, **seams) as older, living(world, **seams) as newer:

        def by_turns(services: Services) -> Ask:
            async def ask(number: int) -> ArchiveResult | ExportView:
                if number % 2:
                    return await services.archives.archive(SUBJECT, confirmed.model_copy(update={"id": new_id()}))
                return await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))

            return ask

        question = ArchiveQuestion(overrides=LOST)
        plan = await newer.archives.plan(SUBJECT, question)
        confirmed = ArchiveRequest(id=new_id(), confirmed=plan.digest, overrides=question.overrides)
        (lost, ended), (fenced, codes) = await all_at_once([by_turns(older), by_turns(newer)])
        assert not lost
        assert "store.fenced" in set(fenced) <= {"store.fenced"} | TAKEN
        assert set(codes) <= TAKEN
        if (await newer.rooms.get(SUBJECT)).workspace.state is not WorkspaceState.ARCHIVED:
            ended.append(await newer.archives.archive(SUBJECT, confirmed))
        assert len({each.id for each in ended if isinstance(each, ArchiveResult)}) == 1
        exports = await newer.exports.list(SUBJECT)
        assert {row.export.id for row in exports} == {each.export.id for each in ended}
        assert {row.export.state for row in exports} == {ExportState.PUBLISHED}
        for row in exports:
            assert (await newer.exports.verify(str(row.export.id))).sound
        assert not world.work().exists()
        assert len(list((world.app / layout.EXPORTS).iterdir())) == len(exports)
        await newer.rooms.resume(SIBLING)
        await say(newer, SIBLING, "on it goes")
