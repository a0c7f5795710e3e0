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
from jamcore.domain.cleanup_plans import CleanupPlan, CleanupQuestion, CleanupRequest
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.providers import ToolchainSpec
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import HostState, WorkspaceState
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


async def cut(world: World, point: str) -> None:
    """Begin to make the room, and die at a boundary."""
    with pytest.raises(Killed):
        async with living(world, crash=KillAt(point)) as services:
            await services.adoptions.restore(str(TAKEN), REQUEST)


def place(world: World) -> Path:
    """Return what lies in the place of the room's files."""
    known = {world.room().session.id, world.room(SIBLING).session.id}
    (tree,) = [path for path in world.app.glob(f"{layout.HOST_NATIVE}/*/*/*") if UUID(path.name) not in known]
    return tree


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize("foreign", [False, True])
async def test_what_somebody_put_in_the_place_meanwhile_is_not_what_was_confirmed(world: World, *, foreign: bool) -> None:
    """An adoption that was cut when the files were in place holds what it finds there against the export, which has another id here."""
    await cut(world, "adopt.place.acted")
    if foreign:
        (place(world) / "foreign").write_text("x")
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


@pytest.mark.parametrize("model", [None, "some-model"])
@pytest.mark.parametrize("without", [False, True], ids=["with its conversation", "without it"])
async def test_an_agent_without_a_model_of_its_own_begins_no_new_conversation_without_one(
    world: World, monkeypatch: pytest.MonkeyPatch, model: str | None, *, without: bool
) -> None:
    """Every turn of such a room would fail, so none is made, and the export is free; a conversation that goes on has its model."""
    asked = REQUEST.model_copy(update={"model": model, "without_conversation": without})
    async with living(world) as services:
        needs = NotebookProvider().jam_describe_provider().model_copy(update={"needs_model": True})
        monkeypatch.setattr(ProviderHooks, "description", needs)
        if without and model is None:
            with refused("plan.refused"):
                await services.adoptions.restore(str(TAKEN), asked)
            with refused("input.not_found"):
                await adopted(services)
            asked = asked.model_copy(update={"model": "some-model"})
        made = await services.adoptions.restore(str(TAKEN), asked)
        assert made.workspace.state is WorkspaceState.READY


@pytest.mark.guarantee("START-3")
@pytest.mark.parametrize("way", list(RecoveryWay))
async def test_no_recovery_makes_an_empty_workspace_of_an_adoption_that_was_given_up(world: World, way: RecoveryWay) -> None:
    """The export is not any more what was confirmed: the room's files never came, and nothing else takes their place."""
    await cut(world, "adopt.layout.recorded")
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


@pytest.mark.guarantee("START-3")
@pytest.mark.parametrize("gone", [False, True])
async def test_files_that_came_and_cannot_be_held_against_the_export_are_named_and_can_be_exported(
    world: World, *, gone: bool
) -> None:
    """Somebody touched one of them, or the export is gone: nothing is used, nothing is lost, and nobody is told that they never came."""
    await cut(world, "adopt.place.acted")
    tree = place(world)
    if gone:
        shutil.rmtree(world.app / layout.export_root(TAKEN))
    else:
        (tree / "work.txt").write_text("touched")
    async with living(world) as services:
        assert ((await adopted(services)).workspace.state, world.unfinished()) == (WorkspaceState.NEEDS_RECONCILIATION, [])
        (said,) = await notices(services, "workspace.not_adopted")
        assert (str(tree) in said, "never came" in said) == (True, False)
        with refused("workspace.not_recoverable"):
            await services.workspaces.recover("adopted", RecoverRequest(id=new_id(), way=RecoveryWay.RETRY))
        done = await services.workspaces.recover("adopted", RecoverRequest(id=new_id(), way=RecoveryWay.EXPORT))
        assert done.state is WorkspaceState.NEEDS_RECONCILIATION
        export = world.app / layout.export_root(done.export_id or TAKEN)
        assert (export / "workspace" / "work.txt").read_text() == (tree / "work.txt").read_text()


@pytest.mark.guarantee("WS-8", "START-3")
async def test_the_host_of_an_adoption_that_was_given_up_can_go(world: World) -> None:
    """Its files never came, so nothing of them can be archived; what somebody put in their place has to be taken away first."""
    await cut(world, "adopt.layout.recorded")
    (world.app / layout.export_root(TAKEN) / "manifest.json").write_bytes(b"{}")
    async with living(world) as services:
        tree = Path((await services.workspaces.inspect("adopted")).path)
        tree.mkdir()
        assert standing(await services.cleanups.plan("adopted", CleanupQuestion())) == ["not-archived"]
        tree.rmdir()
        plan = await services.cleanups.plan("adopted", CleanupQuestion())
        assert standing(plan) == []
        await services.cleanups.clean_up("adopted", CleanupRequest(id=new_id(), confirmed=plan.digest))
        assert (await adopted(services)).host.state is HostState.REMOVED
        assert not (world.app / layout.host_root((await adopted(services)).host.id)).exists()


async def notices(services: Services, code: str) -> list[str]:
    """Return what was said in the room under a code."""
    async with services.rooms.events("adopted", after=0, follow=False) as events:
        said = [event.payload async for event in events if event.payload.kind == "session.notice"]
    return [notice.detail for notice in said if notice.code == code]


def standing(plan: CleanupPlan) -> list[str]:
    """Return what stands against a clean-up."""
    return [each.reason.value for each in plan.standing]
