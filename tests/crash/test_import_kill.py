"""A daemon that is killed at each boundary of an import and of the room that it becomes, and again in what its next start does (WS-12)."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from jamcore.continuity.exporting.building import BUILD_POINTS
from jamcore.control.client import JamClient
from jamcore.daemon.crash import VARIABLE
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.kept_exports import ExportState
from jamcore.domain.requests import EndpointChoice
from jamcore.domain.sessions import HostState, TurnState, WorkspaceState
from jamcore.system.files import Files
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, DaemonFailedError, place_toolchain, running_daemon, until
from jamcore.testing.leftovers import left_in
from jamcore.testing.nasty_trees import Fact, facts_of, plant
from jamcore.testing.rooms import ask, managed, new_id, refused, said_in_room
from jamcore.testing.servers.history import UserText, conversation
from jamcore.testing.servers.responses import ResponsesServer, Script, say
from jamcore.workspace.exports.restore import ExportReader
from jamcore.workspace.keeping.adopting import ADOPT_POINTS
from jamcore.workspace.keeping.importing import COPY_POINTS, IMPORT_POINTS
from jamcore.workspace.keeping.restoring import PLACE_POINTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.needs("codex", "bubblewrap"),
    pytest.mark.guarantee("WS-6", "WS-12", "WS-11", "START-2"),
]

Work = Callable[[JamClient], Awaitable[Any]]


@dataclass(frozen=True)
class Brought:
    """An export of a room with a conversation and a nasty tree, as it came from elsewhere, and an app directory that has nothing yet."""

    export: Path
    app: Path
    tree: dict[bytes, Fact]


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory, lives: Lives) -> Brought:
    """Made once; each test takes it in somewhere else."""
    return anyio.run(_brought, tmp_path_factory.mktemp("elsewhere"), lives)


async def _brought(base: Path, lives: Lives) -> Brought:
    app = base / "app"
    await place_toolchain(app, "codex")
    empty = base / "empty"
    await place_toolchain(empty, "codex")
    daemon = DaemonChild(app, private=base / "private", lives=lives)
    async with ResponsesServer(Script(rules=(say("Yes."),))) as model, running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        await ask(client, room, "Remember me")
        await client.stop(str(room.room.id))
        planted = app / layout.session_workspace(room.host.id, room.session.id)
        plant(planted)
        for name in ("Case", "CASE", "e\u0301"):  # no export is taken in with names that may be one file elsewhere
            (planted / "names" / name).unlink()
        made = await client.exports.new(str(room.room.id), RoomExportRequest(id=new_id()))
        tree = facts_of(planted)
    return Brought(app / layout.export_root(made.export.id), empty, tree)


@pytest.fixture
async def daemon(brought: Brought, tmp_path: Path, lives: Lives) -> DaemonChild:
    """A daemon of an app directory that has nothing yet."""
    await anyio.run_process(["cp", "-a", str(brought.app), str(tmp_path / "app")])
    return DaemonChild(tmp_path / "app", private=tmp_path / "private", lives=lives)


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


TAKING = in_order(IMPORT_POINTS, COPY_POINTS, "import.copy.intended")
ADOPTING = in_order(
    in_order(ADOPT_POINTS, BUILD_POINTS, "adopt.checkpoint.intended"),
    tuple(point for point in PLACE_POINTS if point.startswith("writing.restore.")),
    "adopt.place.intended",
)


@pytest.mark.parametrize("point", TAKING)
async def test_killed_while_an_export_is_taken_in(point: str, brought: Brought, daemon: DaemonChild) -> None:
    """One quarantined export, whole, with one set of new ids, whatever was cut; an exact retry changes nothing."""
    request = ImportRequest(id=new_id(), path=str(brought.export))
    await killed_twice(daemon, TAKING, point, lambda client: client.imports.take(request))
    async with running_daemon(daemon) as client:
        view = await client.imports.take(request)
        assert (view.export.id, view.export.state) == (request.id, ExportState.QUARANTINED)
        assert view.evidence.conversation.problem == ""
        assert await client.imports.take(request) == view
        assert [row.export.id for row in await client.exports.list()] == [request.id]
    assert [path.name for path in (daemon.app / layout.EXPORTS).iterdir()] == [str(request.id)]
    ExportReader(daemon.app, files=Files()).verify(request.id, view.export.manifest_sha256)
    assert left_in(daemon.app) == ()


@pytest.mark.guarantee("CONT-1", "CONT-4", "WS-13")
@pytest.mark.parametrize("point", ADOPTING)
async def test_killed_while_a_room_is_made_of_it(point: str, brought: Brought, daemon: DaemonChild) -> None:
    """One parked room with the files bit for bit, which resumes the exact conversation; the export stays as it was."""
    async with ResponsesServer(Script(rules=(say("Yes."),))) as model:
        async with running_daemon(daemon) as client:
            view = await client.imports.take(ImportRequest(id=new_id(), path=str(brought.export)))
            ref = str(view.export.id)
            await client.imports.confirm(ref, ConfirmRequest(confirmed=view.digest))
        request = AdoptRequest(id=new_id(), name="theirs", endpoint=EndpointChoice(origin=model.base_url))
        await killed_twice(daemon, ADOPTING, point, lambda client: client.imports.restore(ref, request))
        async with running_daemon(daemon) as client:
            room = await client.imports.restore(ref, request)
            assert (room.workspace.state, room.host.state) == (WorkspaceState.READY, HostState.PARKED)
            assert [each.room.id for each in await client.rooms()] == [room.room.id]
            assert facts_of(daemon.app / layout.session_workspace(room.host.id, room.session.id)) == brought.tree
            assert [code for code, _ in await said_in_room(client, room)].count("workspace.adopted") == 1
            assert [each.generation for each in await client.checkpoints("theirs")] == [1]
            assert (await ask(client, room, "Who?")).state is TurnState.CAPTURED
            assert (await client.imports.restore(ref, request)).room == room.room
        heard = conversation(model.model_requests[-1].body)
        assert [item.text for item in heard if isinstance(item, UserText)] == ["Remember me", "Who?"]
    ExportReader(daemon.app, files=Files()).verify(view.export.id, view.export.manifest_sha256)
    assert left_in(daemon.app) == ()


async def begun(daemon: DaemonChild, brought: Brought, model: ResponsesServer, point: str) -> tuple[str, AdoptRequest]:
    """Take an export in, confirm it, and kill the daemon while it makes a room of it."""
    async with running_daemon(daemon) as client:
        view = await client.imports.take(ImportRequest(id=new_id(), path=str(brought.export)))
        await client.imports.confirm(str(view.export.id), ConfirmRequest(confirmed=view.digest))
    request = AdoptRequest(id=new_id(), name="theirs", endpoint=EndpointChoice(origin=model.base_url))
    async with running_daemon(daemon, **{VARIABLE: point}) as client:
        with pytest.raises(JamError):
            await client.imports.restore(str(view.export.id), request)
        await until("the daemon's end", lambda: daemon.returncode is not None)
    return str(view.export.id), request


@pytest.mark.guarantee("WS-5", "CONT-1")
@pytest.mark.parametrize("point", ["adopt.checkpoint.intended", "adopt.place.intended"])
async def test_the_export_is_damaged_while_nobody_looks(point: str, brought: Brought, daemon: DaemonChild) -> None:
    """What was confirmed is not there any more: the room never gets other files, says why, and cannot be used."""
    async with ResponsesServer(Script(rules=(say("Yes."),))) as model:
        ref, request = await begun(daemon, brought, model, point)
        export = daemon.app / layout.EXPORTS / ref
        for path in (*export.glob("workspace/files/old"), *export.glob("checkpoint/files/**/*.jsonl")):
            path.write_bytes(b"x" + path.read_bytes()[1:])
        async with running_daemon(daemon) as client:
            room = await client.room("theirs")
            assert (room.workspace.state, room.live) == (WorkspaceState.NEEDS_RECONCILIATION, False)
            assert [code for code, _ in await said_in_room(client, room)].count("workspace.not_adopted") == 1
            assert not (daemon.app / layout.session_workspace(room.host.id, room.session.id)).exists()
            with refused("workspace.not_ready"):
                await client.resume("theirs")
            with refused("journal.given_up"):
                await client.imports.restore(ref, request)
    assert left_in(daemon.app) == ()


async def test_a_room_that_is_still_made_is_not_used(brought: Brought, daemon: DaemonChild) -> None:
    """Its files cannot be put in place yet: whoever resumes it is told so, and the retry finishes it when they can."""
    async with ResponsesServer(Script(rules=(say("Yes."),))) as model:
        ref, request = await begun(daemon, brought, model, "adopt.layout.intended")
        hosts = daemon.app / layout.HOSTS
        assert not hosts.exists()
        hosts.touch()
        async with running_daemon(daemon) as client:
            assert (await client.room("theirs")).workspace.state is WorkspaceState.PROVISIONING
            with refused("conflict.workspace_busy"):
                await client.resume("theirs")
            with refused("storage.failed"):
                await client.imports.restore(ref, request)
            hosts.unlink()
            room = await client.imports.restore(ref, request)
            assert (room.workspace.state, room.host.state) == (WorkspaceState.READY, HostState.PARKED)
            assert (await ask(client, room, "Who?")).state is TurnState.CAPTURED
