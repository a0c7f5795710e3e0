"""Workspaces of a whole daemon that something happened to: shown as they stand, and recovered without a loss (START-3, WS-15)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.reconciling import ManifestState
from jamcore.domain.sessions import WorkspaceState
from jamcore.domain.workspace_care import RecoverRequest, RecoverResult, RecoveryWay
from jamcore.testing.crash import KillAt, Killed
from jamcore.testing.parked_world import SUBJECT, World, install_plugin, living, make_world, say
from jamcore.testing.rooms import new_id
from jamcore.workspace.keeping.recovering import RECOVER_POINTS

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("START-3", "WS-15")]

REQUEST = RecoverRequest(id=UUID(int=5), way=RecoveryWay.RESTORE_LATEST)


async def make_exported(world: World, kept: Path) -> None:
    """Make the world, and two exports of the subject's files, the newer one of the state before the last change."""
    await make_world(world)
    async with living(world) as services:
        await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))
        (world.work() / "second.txt").write_text("second\n")
        await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))
    (world.work() / "third.txt").write_text("third\n")
    world.keep(kept)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path]]:
    """That world, made once, and where its state is kept."""
    root = tmp_path_factory.mktemp("recoveries")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(root / "site")))
        world = World(root / "world")
        anyio.run(make_exported, world, root / "kept")
        yield world, root / "kept"


@pytest.fixture
def world(kept: tuple[World, Path]) -> World:
    """That world, as it was kept."""
    world, state = kept
    world.bring_back(state)
    return world


def manifest(world: World) -> Path:
    """Return where the manifest of the subject's host is."""
    return world.app / layout.manifest(world.room().host.id)


async def recover(services: Services, way: RecoveryWay) -> RecoverResult:
    """Ask for a recovery under a new id."""
    return await services.workspaces.recover(SUBJECT, RecoverRequest(id=new_id(), way=way))


@pytest.mark.guarantee("WS-16")
async def test_a_look_at_a_sound_workspace_says_all_and_changes_nothing(world: World) -> None:
    """Where it lies, what it holds, its exports, and the digest that an archive takes."""
    async with living(world) as services:
        before = world.digest()
        view = await services.workspaces.inspect(SUBJECT)
        assert (view.place is not None and view.place.sound, view.live, view.unfinished) == (True, False, None)
        assert (view.path, len(view.exports), view.kept_aside) == (str(world.work()), 2, ())
        assert view.inspection is not None
        assert view.inspection.losses.files == 3
        assert view.next == ("jam resume ROOM", "jam export new ROOM")
        assert (await recover(services, RecoveryWay.RETRY)).said == "nothing was wrong"
        assert world.digest() == before


async def test_a_live_room_is_looked_at_and_not_recovered(world: World) -> None:
    """Nobody can say who works in its files; it has to be stopped first."""
    async with living(world) as services:
        await services.rooms.resume(SUBJECT)
        view = await services.workspaces.inspect(SUBJECT)
        assert (view.live, view.confirms_archive, view.next) == (True, "", ("jam stop ROOM",))
        with pytest.raises(JamError) as raised:
            await recover(services, RecoveryWay.RESTORE_LATEST)
        assert raised.value.code == "conflict.host_in_use"


async def test_a_corrupt_manifest_is_shown_escaped_and_kept_on_a_persons_word(world: World) -> None:
    """The room is refused with what to type; after that word it goes on with its conversation."""
    manifest(world).write_bytes(b"\xffno manifest")
    async with living(world) as services:
        view = await services.workspaces.inspect(SUBJECT)
        assert view.workspace.state is WorkspaceState.NEEDS_RECONCILIATION
        assert view.place is not None
        assert view.place.manifest is ManifestState.UNREADABLE
        assert view.manifest_found == "\\xffno manifest"
        assert view.next[0] == "jam workspace recover ROOM retry"
        with pytest.raises(JamError) as raised:
            await services.rooms.resume(SUBJECT)
        assert (raised.value.code, "jam workspace recover ROOM retry" in raised.value.hint) == ("workspace.not_ready", True)
        done = await recover(services, RecoveryWay.RETRY)
        assert done.state is WorkspaceState.READY
        assert (await services.workspaces.inspect(SUBJECT)).kept_aside == (done.kept_aside,)
        assert (manifest(world).parent / done.kept_aside).read_bytes() == b"\xffno manifest"
        await services.rooms.resume(SUBJECT)
        await say(services, SUBJECT, "on it goes")
    assert (world.work() / "third.txt").exists()


async def test_files_that_are_gone_come_back_before_an_empty_directory_is_made(world: World) -> None:
    """The first thing to type is what brings them back, and a retry says that what it makes is empty."""
    world.work().rename(world.root / "elsewhere")
    async with living(world) as services:
        view = await services.workspaces.inspect(SUBJECT)
        assert view.next == ("jam workspace recover ROOM restore-latest", "jam workspace recover ROOM retry")
        done = await recover(services, RecoveryWay.RETRY)
        assert "an empty one was made" in done.said
        assert list(world.work().iterdir()) == []
        await recover(services, RecoveryWay.RESTORE_LATEST)
        assert (world.work() / "second.txt").read_text() == "second\n"


async def test_what_is_there_can_be_exported_before_anything_else(world: World) -> None:
    """Also while the workspace needs a person: the export is verified, and the state is as it was."""
    manifest(world).write_bytes(b"{}")
    async with living(world) as services:
        done = await recover(services, RecoveryWay.EXPORT)
        assert done.export_id is not None
        assert (await services.exports.verify(str(done.export_id))).sound
        assert done.state is WorkspaceState.NEEDS_RECONCILIATION


@pytest.mark.guarantee("WS-6")
async def test_the_newest_sound_export_takes_the_place_of_what_is_kept(world: World) -> None:
    """A damaged one is passed over; what was there is whole under its other name; an exact retry changes nothing."""
    async with living(world) as services:
        newest, older = (row.export.id for row in await services.exports.list(SUBJECT))
        (world.app / layout.export_root(newest) / "workspace" / "second.txt").write_text("spoilt")
        done = await services.workspaces.recover(SUBJECT, REQUEST)
        assert (done.export_id, done.state) == (older, WorkspaceState.READY)
        assert [path.name for path in world.work().iterdir()] == ["work.txt"]
        aside = world.app / done.kept_aside
        assert sorted(path.name for path in aside.iterdir()) == ["second.txt", "third.txt", "work.txt"]
        assert (await services.workspaces.inspect(SUBJECT)).kept_aside == (aside.name,)
        before = world.digest()
        assert await services.workspaces.recover(SUBJECT, REQUEST) == done
        assert world.digest() == before
        await services.rooms.resume(SUBJECT)
        await say(services, SUBJECT, "on it goes")


async def test_files_that_are_gone_come_back_from_the_export(world: World) -> None:
    """Nothing is kept aside, since nothing was there; without a sound export it is refused and nothing changes."""
    for path in world.work().iterdir():
        path.unlink()
    world.work().rmdir()
    async with living(world) as services:
        assert (await services.workspaces.inspect(SUBJECT)).workspace.state is WorkspaceState.NEEDS_RECONCILIATION
        done = await recover(services, RecoveryWay.RESTORE_LATEST)
        assert (done.state, done.kept_aside) == (WorkspaceState.READY, "")
        assert sorted(path.name for path in world.work().iterdir()) == ["second.txt", "work.txt"]
        for row in await services.exports.list(SUBJECT):
            (world.app / layout.export_root(row.export.id) / "manifest.json").unlink()
        with pytest.raises(JamError) as raised:
            await recover(services, RecoveryWay.RESTORE_LATEST)
        assert raised.value.code == "workspace.not_recoverable"


@pytest.mark.guarantee("WS-12")
@pytest.mark.slow
@pytest.mark.parametrize("point", RECOVER_POINTS)
async def test_a_death_at_every_boundary_loses_nothing(world: World, point: str) -> None:
    """The next start finishes it: the export's files in the place, what was there beside it, and nothing half done."""
    with pytest.raises((Killed, BaseExceptionGroup)):
        async with living(world, crash=KillAt(point)) as services:
            await services.workspaces.recover(SUBJECT, REQUEST)
    async with living(world) as services:
        done = await services.workspaces.recover(SUBJECT, REQUEST)
        assert done.state is WorkspaceState.READY
    assert sorted(path.name for path in world.work().iterdir()) == ["second.txt", "work.txt"]
    assert sorted(path.name for path in (world.app / done.kept_aside).iterdir()) == ["second.txt", "third.txt", "work.txt"]
    assert list(world.work().parent.glob(".recovered-*")) == []
    assert world.unfinished() == []


@pytest.mark.guarantee("WS-2")
async def test_of_a_hundred_requests_at_once_one_wins(world: World) -> None:
    """The others are told by type that the workspace is taken, or that it is as they want it."""
    answers: list[str] = []

    async def ask(services: Services, way: RecoveryWay) -> None:
        try:
            answers.append((await recover(services, way)).way)
        except JamError as error:
            answers.append(error.code)

    async with living(world) as services:
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(ask, services, RecoveryWay.RESTORE_LATEST if number % 2 else RecoveryWay.EXPORT)
        assert set(answers) <= {
            "restore-latest",
            "export",
            "conflict.workspace_busy",
            "conflict.changed_record",
            "workspace.not_recoverable",
        }
        assert len(answers) == 100
        assert {"restore-latest", "export"} & set(answers)
        told = await services.operations.list(room=SUBJECT, host=None, unfinished=False, limit=500)
        begun = [each for each in told.items if each.kind in ("recover", "export")]
        assert all(each.state in ("succeeded", "failed") for each in begun)
        assert (await services.workspaces.inspect(SUBJECT)).place is not None
