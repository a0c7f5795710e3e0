"""Workspaces whose place on the disk is not as it should be: mended where nothing is hidden by it, else kept for a person (START-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.domain import layout
from jamcore.domain.cells import Ability, CellTable
from jamcore.domain.errors import JamError
from jamcore.domain.reconciling import ManifestState, PlaceFound
from jamcore.domain.requests import RoomRequest
from jamcore.domain.sandboxes import Isolation
from jamcore.domain.sessions import WorkspaceState
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.allocator import Allocation, Allocator, Resolved
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.provision import SessionProvisioner
from jamcore.runtime.reconcile import KEPT_MANIFEST, RECONCILE_POINTS, Reconciler
from jamcore.sandbox.planning import EngineFacts
from jamcore.store import Store, StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files, StorageFailedError
from jamcore.system.ids import SystemIds
from jamcore.testing.crash import KillAt, Killed
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import GOOD, GoodProvider
from jamcore.workspace.provision import HostManifest, Provisioner

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("START-3")]

NATIVE = EngineFacts(name="plain", isolation=Isolation.NONE, abilities=frozenset(Ability))


class Life:
    """One life of a daemon, with the kinds that make places and put them right."""

    def __init__(self, app: Path, store: Store, crash: CrashPoints) -> None:
        self.app, self.store = app, store
        self.journal, self.actions = StoreJournal(store), ActionRegistry()
        self.runner = Runner(self.journal, crash)
        ids, files = SystemIds(), Files()
        self.provisioner = SessionProvisioner(store=store, layout=Provisioner(app, files=files), runner=self.runner, ids=ids)
        self.reconciler = Reconciler(
            app, files=files, store=store, feed=RoomFeed(store), runner=self.runner, clock=SystemClock(), ids=ids
        )
        self.actions.register(self.provisioner.action)
        self.actions.register(self.reconciler.action)

    async def start(self) -> tuple[object, ...]:
        """Do what a start does: finish what was begun, then look at every usable workspace; returns what could not be put right."""
        problems: list[object] = list(await self.actions.replay(self.journal, self.runner))
        for place in await self.reconciler.unsound():
            try:
                await self.reconciler.reconcile(place)
            except JamError as error:
                problems.append(error)
        return tuple(problems)

    async def accept(self, room: Allocation) -> None:
        """Do what a person's word does."""
        place = await self.store.read(lambda repos: repos.workspaces.place(room.workspace.id))
        await self.reconciler.reconcile(place, accepted=True)

    async def state(self, room: Allocation) -> WorkspaceState:
        """Return how a workspace stands."""
        return (await self.store.read(lambda repos: repos.workspaces.get(room.workspace.id))).state

    async def notices(self, room: Allocation) -> list[str]:
        """Return the codes of what was said in a room."""
        events = await self.store.read(lambda repos: repos.events.after(room.room.id, 0, 100))
        return [getattr(event.payload, "code", "") for event in events]


@asynccontextmanager
async def living(app: Path, crash: CrashPoints | None = None) -> AsyncIterator[Life]:
    """Live once."""
    async with open_store(app / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
        yield Life(app, store, crash or NoCrash())


@pytest.fixture
async def hooks() -> ProviderHooks:
    """A provider for rooms."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    return manager.provider("good")


@pytest.fixture
async def room(tmp_path: Path, hooks: ProviderHooks) -> Allocation:
    """A room with its directories, one file in them, in an app directory whose daemon is down."""
    return await made(tmp_path, hooks, plans.ALL_ABLE)


async def made(app: Path, hooks: ProviderHooks, engine: EngineFacts) -> Allocation:
    """Make a room."""
    async with living(app) as life:
        asked = Resolved(
            request=RoomRequest(id=SystemIds().uuid(), provider="good"),
            hooks=hooks,
            engine=engine,
            table=CellTable({"good": GOOD.cells}),
            toolchain=None,
            path=None,
            commit=None,
        )
        room = await Allocator(store=life.store, clock=SystemClock(), ids=SystemIds()).allocate(asked)
        await life.provisioner.provision(room.provision)
        return room


def manifest(app: Path, room: Allocation) -> Path:
    """Return where the host's manifest is."""
    return app / layout.manifest(room.host.id)


def own(app: Path, room: Allocation) -> Path:
    """Return the session's own directory."""
    return app / layout.session_workspace(room.host.id, room.session.id)


async def test_a_start_over_sound_workspaces_changes_nothing(tmp_path: Path, hooks: ProviderHooks, room: Allocation) -> None:
    """Sandboxed and host-native ones: nothing is unsound, nothing is begun, and nothing is said."""
    native = await made(tmp_path, hooks, NATIVE)
    async with living(tmp_path) as life:
        assert await life.reconciler.unsound() == ()
        assert await life.start() == ()
        assert {each.kind for each in await life.store.read(lambda repos: repos.operations.list())} == {"provision"}
        for each in (room, native):
            assert (await life.state(each), await life.notices(each)) == (WorkspaceState.READY, [])


async def test_a_manifest_that_is_gone_is_written_again(tmp_path: Path, room: Allocation) -> None:
    """With the host's other directories; it is said once, and the files are as they were."""
    whole = manifest(tmp_path, room).read_bytes()
    (own(tmp_path, room) / "work").write_text("x")
    manifest(tmp_path, room).unlink()
    async with living(tmp_path) as life:
        assert await life.start() == ()
        assert await life.start() == ()
        assert (await life.state(room), await life.notices(room)) == (WorkspaceState.READY, ["workspace.reconciled"])
    assert manifest(tmp_path, room).read_bytes() == whole
    assert (own(tmp_path, room) / "work").read_text() == "x"


def corrupt(path: Path) -> None:
    """Write what is no manifest."""
    path.write_bytes(b"\x00not json")


def foreign(path: Path) -> None:
    """Write a manifest that names another host."""
    manifest = HostManifest.model_validate_json(path.read_bytes())
    path.write_bytes(manifest.model_copy(update={"host_id": UUID(int=9)}).canonical_json() + b"\n")


def seen(path: Path) -> object:
    """Return what lies there: a link is not followed."""
    return path.readlink() if path.is_symlink() else path.read_bytes()


def linked(path: Path) -> None:
    """Put a link in the place of the manifest."""
    path.rename(path.with_name("elsewhere.json"))
    path.symlink_to("elsewhere.json")


@pytest.mark.parametrize("damage", [corrupt, foreign, linked])
async def test_a_manifest_that_is_not_the_hosts_is_left_until_a_person_has_looked(
    tmp_path: Path, room: Allocation, damage: Callable[[Path], None]
) -> None:
    """A start leaves it as it is found; a person's word keeps it beside a new one, under a name that says when, and loses nothing."""
    path = manifest(tmp_path, room)
    whole = path.read_bytes()
    damage(path)
    found = seen(path)
    async with living(tmp_path) as life:
        assert await life.start() == ()
        assert await life.state(room) is WorkspaceState.NEEDS_RECONCILIATION
        assert seen(path) == found
        assert await life.start() == ()
        await life.accept(room)
        assert await life.state(room) is WorkspaceState.READY
        assert await life.notices(room) == ["workspace.needs_reconciliation", "workspace.reconciled"]
    assert path.read_bytes() == whole
    (kept,) = path.parent.glob(f"{KEPT_MANIFEST}*Z-*")
    assert seen(kept) == found


async def test_files_that_are_gone_are_not_passed_off_as_an_empty_workspace(tmp_path: Path, room: Allocation) -> None:
    """The directory is made again on a person's word alone."""
    own(tmp_path, room).rmdir()
    async with living(tmp_path) as life:
        assert await life.start() == ()
        assert await life.state(room) is WorkspaceState.NEEDS_RECONCILIATION
        assert not own(tmp_path, room).exists()
        await life.accept(room)
        assert await life.state(room) is WorkspaceState.READY
    assert own(tmp_path, room).is_dir()


async def test_a_machine_that_cannot_say_is_not_a_manifest_that_is_gone(
    tmp_path: Path, room: Allocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start names it and changes nothing."""

    def fail(*_: object) -> PlaceFound:
        raise OSError(5, "Input/output error")

    async with living(tmp_path) as life:
        monkeypatch.setattr(life.reconciler.manifests, "look", fail)
        assert [type(error) for error in await life.start()] == [StorageFailedError]
        assert await life.state(room) is WorkspaceState.READY
        assert {each.kind for each in await life.store.read(lambda repos: repos.operations.list())} == {"provision"}


@pytest.mark.guarantee("WS-12", "START-2")
@pytest.mark.parametrize("point", RECONCILE_POINTS)
async def test_a_death_at_every_boundary_ends_in_the_same_place(tmp_path: Path, room: Allocation, point: str) -> None:
    """Of a start's own look and of a person's word: the next start goes on with it, and what was found is kept once."""
    path = manifest(tmp_path, room)
    corrupt(path)
    found = path.read_bytes()
    async with living(tmp_path, KillAt(point)) as life:
        with pytest.raises(Killed):
            await life.start()
    async with living(tmp_path) as life:
        assert await life.start() == ()
        assert await life.state(room) is WorkspaceState.NEEDS_RECONCILIATION
        assert path.read_bytes() == found
    async with living(tmp_path, KillAt(point)) as life:
        with pytest.raises(Killed):
            await life.accept(room)
    async with living(tmp_path) as life:
        assert await life.start() == ()
        assert await life.journal.running() == ()
        assert await life.state(room) is WorkspaceState.READY
        assert await life.reconciler.unsound() == ()
    assert [kept.read_bytes() for kept in path.parent.glob(f"{KEPT_MANIFEST}*")] == [found]


def test_words_say_what_is_wrong_and_nothing_of_what_is_not() -> None:
    """A sound place has none."""
    assert PlaceFound(manifest=ManifestState.SOUND, directory=True).words() == ()
    assert len(PlaceFound(manifest=ManifestState.ANOTHERS, directory=False).words()) == 2
