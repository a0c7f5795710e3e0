"""A daemon that is killed at each boundary of an export, an archive and a restore, and again in what its next start does (WS-12)."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest

from jamcore.control.client import JamClient
from jamcore.daemon.crash import VARIABLE
from jamcore.domain import layout
from jamcore.domain.errors import ConflictError, JamError
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, RestoreRequest, RoomExportRequest
from jamcore.domain.operations import ExportRetention
from jamcore.domain.removal import RemovalOverride
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import WorkspaceState
from jamcore.system.files import Files
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, DaemonFailedError, place_toolchain, running_daemon, until
from jamcore.testing.leftovers import left_in
from jamcore.testing.nasty_trees import Fact, facts_of, plant
from jamcore.testing.rooms import ask, managed, new_id, said_in_room
from jamcore.testing.servers.responses import ResponsesServer, Script, say
from jamcore.workspace.exports.restore import ExportReader
from jamcore.workspace.keeping.archiving import ARCHIVE_POINTS
from jamcore.workspace.keeping.exporting import EXPORT_POINTS, WRITE_POINTS
from jamcore.workspace.keeping.restoring import PLACE_POINTS, RESTORE_POINTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap"),
    pytest.mark.guarantee("WS-12", "WS-11", "START-2"),
]


@dataclass(frozen=True)
class World:
    """A parked room with a nasty tree and a conversation, a sibling of it, and an older export; made once and copied."""

    app: Path
    room: RoomView
    sibling: RoomView
    older: UUID
    archive: ArchiveRequest
    tree: dict[bytes, Fact]

    def place(self, app: Path, room: RoomView | None = None) -> Path:
        """Return a room's work tree in a copy."""
        which = room or self.room
        return app / layout.session_workspace(which.host.id, which.session.id)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, lives: Lives) -> dict[str, World]:
    """The world before an archive, and after it."""
    base = tmp_path_factory.mktemp("worlds")
    return anyio.run(_worlds, base, lives)


async def _worlds(base: Path, lives: Lives) -> dict[str, World]:
    app = base / "live"
    await place_toolchain(app, "codex")
    daemon = DaemonChild(app, private=base / "private", lives=lives)
    async with ResponsesServer(Script(rules=(say("Yes."),))) as model, running_daemon(daemon) as client:
        room, sibling = [await client.create_room(managed("codex", model.base_url)) for _ in range(2)]
        for each in (room, sibling):
            await ask(client, each, "Remember me")
            await client.stop(str(each.room.id))
            plant(app / layout.session_workspace(each.host.id, each.session.id))
        older = (await client.exports.new(str(room.room.id), RoomExportRequest(id=new_id()))).export.id
        question = ArchiveQuestion(retention=ExportRetention.KEEP_LATEST)
        seen = await client.exports.plan_archive(str(room.room.id), question)
        words = tuple(RemovalOverride(reason=each.reason, path=each.path) for each in seen.standing)
        plan = await client.exports.plan_archive(str(room.room.id), question.model_copy(update={"overrides": words}))
        assert plan.digest, plan
        request = ArchiveRequest(id=new_id(), retention=question.retention, overrides=words, confirmed=plan.digest)
    tree = facts_of(app / layout.session_workspace(room.host.id, room.session.id))
    live = World(app, room, sibling, older, request, tree)
    archived = base / "archived"
    await anyio.run_process(["cp", "-a", str(app), str(archived)])
    async with running_daemon(DaemonChild(archived, private=base / "private", lives=lives)) as client:
        await client.exports.archive(str(room.room.id), request)
    return {"live": live, "archived": World(archived, room, sibling, older, request, tree)}


Work = Callable[[JamClient], Awaitable[Any]]


async def killed_twice(daemon: DaemonChild, points: tuple[str, ...], point: str, work: Work) -> None:
    """Let one life end at a boundary of some work, and the next one at the boundary that its start reaches after that."""
    async with running_daemon(daemon, **{VARIABLE: point}) as client:
        with pytest.raises(JamError):
            await work(client)
        await until("the daemon's end", lambda: daemon.returncode is not None)
        assert daemon.returncode == -signal.SIGKILL, daemon.last_words()
    following = points[min(points.index(point) + 1, len(points) - 1)]
    with suppress(DaemonFailedError):
        async with running_daemon(daemon, **{VARIABLE: following}):
            pass
    assert daemon.returncode in (0, -signal.SIGKILL), daemon.last_words()


def in_order(points: tuple[str, ...], inner: tuple[str, ...], after: str) -> tuple[str, ...]:
    """Return boundaries with those inside one step in their place."""
    at = points.index(after) + 1
    return (*points[:at], *inner, *points[at:])


def whole(app: Path, export: UUID) -> bool:
    """Whether an export is there and every byte of it is what it was."""
    if not (app / layout.export_root(export)).exists():
        return False
    ExportReader(app, files=Files()).verify(export, None)
    return True


EXPORTING = in_order(EXPORT_POINTS, WRITE_POINTS, "export.write.intended")
ARCHIVING = in_order(ARCHIVE_POINTS, WRITE_POINTS, "archive.write.intended")
RESTORING = in_order(RESTORE_POINTS, PLACE_POINTS, "restore.place.intended")


@pytest.mark.guarantee("WS-5")
@pytest.mark.parametrize("point", EXPORTING)
async def test_killed_in_an_export(point: str, tmp_path: Path, lives: Lives, worlds: dict[str, World]) -> None:
    """One export that is whole, with its row; the same again is the same, another thing under its id is refused."""
    world = worlds["live"]
    app, ref = copied(world, tmp_path), str(world.room.room.id)
    daemon = DaemonChild(app, private=tmp_path / "private", lives=lives)
    request = RoomExportRequest(id=new_id())
    await killed_twice(daemon, EXPORTING, point, lambda client: client.exports.new(ref, request))
    async with running_daemon(daemon) as client:
        done = await client.exports.new(ref, request)
        assert await client.exports.new(ref, request) == done
        assert {row.export.id for row in await client.exports.list(ref)} == {world.older, request.id}
        with pytest.raises(JamError) as refused:
            await client.exports.new(ref, request.model_copy(update={"leave_out": ("nasty",)}))
        assert refused.value.code == ConflictError.code
    assert whole(app, request.id)
    assert facts_of(world.place(app)) == world.tree == facts_of(app / layout.export_root(request.id) / "workspace")
    assert left_in(app) == ()


@pytest.mark.guarantee("WS-4", "WS-16", "START-1")
@pytest.mark.parametrize("point", ARCHIVING)
async def test_killed_in_an_archive(point: str, tmp_path: Path, lives: Lives, worlds: dict[str, World]) -> None:
    """At no moment is a byte of the workspace gone that no whole export holds; in the end it is archived, once, and nothing is left."""
    world = worlds["live"]
    app, ref = copied(world, tmp_path), str(world.room.room.id)
    before = facts_of(world.place(app, world.sibling))
    daemon = DaemonChild(app, private=tmp_path / "private", lives=lives)
    await killed_twice(daemon, ARCHIVING, point, lambda client: client.exports.archive(ref, world.archive))
    there = world.place(app).exists() and facts_of(world.place(app)) == world.tree
    assert there or whole(app, world.archive.id)
    assert whole(app, world.older) or whole(app, world.archive.id)
    async with running_daemon(daemon) as client:
        done = await client.exports.archive(ref, world.archive)
        assert await client.exports.archive(ref, world.archive) == done
        assert (await client.room(ref)).workspace.state is WorkspaceState.ARCHIVED
        assert [code for code, _ in await said_in_room(client, world.room)].count("workspace.archived") == 1
        with pytest.raises(JamError) as refused:
            await client.exports.archive(ref, world.archive.model_copy(update={"retention": ExportRetention.KEEP_ALL}))
        assert refused.value.code == ConflictError.code
    assert not world.place(app).exists()
    assert [path.name for path in (app / layout.EXPORTS).iterdir()] == [str(world.archive.id)]
    assert whole(app, world.archive.id)
    assert facts_of(app / layout.export_root(world.archive.id) / "workspace") == world.tree
    assert facts_of(world.place(app, world.sibling)) == before
    assert left_in(app) == ()


@pytest.mark.guarantee("WS-6", "WS-13")
@pytest.mark.parametrize("point", RESTORING)
async def test_killed_in_a_restore(point: str, tmp_path: Path, lives: Lives, worlds: dict[str, World]) -> None:
    """The workspace is back bit for bit, once, and the export is what it was."""
    world = worlds["archived"]
    app, ref = copied(world, tmp_path), str(world.room.room.id)
    daemon = DaemonChild(app, private=tmp_path / "private", lives=lives)
    request = RestoreRequest(id=new_id())
    await killed_twice(daemon, RESTORING, point, lambda client: client.exports.restore(ref, request))
    async with running_daemon(daemon) as client:
        done = await client.exports.restore(ref, request)
        assert await client.exports.restore(ref, request) == done
        assert (await client.room(ref)).workspace.state is WorkspaceState.READY
        assert [code for code, _ in await said_in_room(client, world.room)].count("workspace.restored") == 1
    assert facts_of(world.place(app)) == world.tree
    assert whole(app, world.archive.id)
    assert left_in(app) == ()


def copied(world: World, tmp_path: Path) -> Path:
    """Return a copy of a world's app directory."""
    subprocess.run(["cp", "-a", world.app, tmp_path / "app"], check=True)
    return tmp_path / "app"
