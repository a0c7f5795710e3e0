"""Rooms of exports from elsewhere in a whole daemon: what is in their place is what was confirmed, or nothing is used (WS-6, START-3)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.providers import ToolchainSpec
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import WorkspaceState
from jamcore.domain.workspace_care import RecoverRequest, RecoveryWay
from jamcore.plugins.provider import ProviderHooks
from jamcore.testing.crash import KillAt, Killed
from jamcore.testing.doubles.notebook import NotebookProvider
from jamcore.testing.parked_world import SIBLING, SUBJECT, World, install_plugin, living, make_world
from jamcore.testing.rooms import new_id, refused

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-6")]

TAKEN = UUID(int=7 << 64)
REQUEST = AdoptRequest(id=UUID(int=8 << 64), name="adopted", engine="local")


async def make_confirmed(world: World, kept: Path) -> None:
    """Make the world, take an export of its subject in as if it came from elsewhere, confirm it, and keep that state."""
    await make_world(world)
    async with living(world) as services:
        made = await services.exports.new(SUBJECT, RoomExportRequest(id=new_id()))
        shutil.copytree(made.path, world.root / "elsewhere", symlinks=True)
        view = await services.imports.take(ImportRequest(id=TAKEN, path=str(world.root / "elsewhere")))
        await services.imports.confirm(str(TAKEN), ConfirmRequest(confirmed=view.digest))
    world.keep(kept)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path]]:
    """That world, made once, and where its state is kept."""
    root = tmp_path_factory.mktemp("adoptions")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(install_plugin(root / "site")))
        world = World(root / "world")
        anyio.run(make_confirmed, world, root / "kept")
        yield world, root / "kept"


@pytest.fixture
def world(kept: tuple[World, Path]) -> World:
    """That world, as it was kept."""
    world, state = kept
    world.bring_back(state)
    return world


async def adopted(services: Services) -> RoomView:
    """Return the room."""
    return await services.rooms.get("adopted")


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize("foreign", [False, True])
async def test_what_somebody_put_in_the_place_meanwhile_is_not_what_was_confirmed(world: World, *, foreign: bool) -> None:
    """An adoption that was cut when the files were in place holds what it finds there against the export, which has another id here."""
    with pytest.raises(Killed):
        async with living(world, crash=KillAt("adopt.place.acted")) as services:
            await services.adoptions.restore(str(TAKEN), REQUEST)
    if foreign:
        known = {world.room().session.id, world.room(SIBLING).session.id}
        (tree,) = [path for path in world.app.glob(f"{layout.HOST_NATIVE}/*/*/*") if UUID(path.name) not in known]
        (tree / "foreign").write_text("x")
    async with living(world) as services:
        state = (await adopted(services)).workspace.state
        assert state is (WorkspaceState.NEEDS_RECONCILIATION if foreign else WorkspaceState.READY)
        assert world.unfinished() == []


@pytest.mark.guarantee("CONT-1")
async def test_a_program_that_is_not_installed_is_named_before_anything_is_confirmed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not part of what is confirmed: the digest holds when the program is installed later."""
    async with living(world) as services:
        before = await services.imports.inspect(str(TAKEN))
        assert before.program_missing == "", "the plugin names no program"
        spec = ToolchainSpec(distribution="notebook", version="1", wheels=(), root="", program="notebook", executables=())
        needs = NotebookProvider().jam_describe_provider().model_copy(update={"toolchain": spec})
        monkeypatch.setattr(ProviderHooks, "description", needs)
        seen = await services.imports.inspect(str(TAKEN))
        assert seen.program_missing == "version 1 of notebook's program"


@pytest.mark.guarantee("START-3")
@pytest.mark.parametrize("way", list(RecoveryWay))
async def test_no_recovery_makes_an_empty_workspace_of_an_adoption_that_was_given_up(world: World, way: RecoveryWay) -> None:
    """The export is not any more what was confirmed: the room's files never came, and nothing else takes their place."""
    with pytest.raises(Killed):
        async with living(world, crash=KillAt("adopt.layout.recorded")) as services:
            await services.adoptions.restore(str(TAKEN), REQUEST)
    (world.app / layout.export_root(TAKEN) / "manifest.json").write_bytes(b"{}")
    async with living(world) as services:
        view = await adopted(services)
        assert view.workspace.state is WorkspaceState.NEEDS_RECONCILIATION
        looked = await services.workspaces.inspect("adopted")
        assert looked.next == (f"jam export verify {TAKEN}", "jam export import DIRECTORY")
        with refused("workspace.not_recoverable"):
            await services.workspaces.recover("adopted", RecoverRequest(id=new_id(), way=way))
        with refused("workspace.not_ready"):
            await services.rooms.resume("adopted")
        assert not [*world.app.rglob(str(view.session.id) + "/work.txt")]
        assert (await adopted(services)).workspace.state is WorkspaceState.NEEDS_RECONCILIATION
