"""Host-native work directories and those of sandboxes are two kinds: neither touches the other's records or files (WS-14)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jamcore.domain import layout
from jamcore.domain.cells import Ability, CellTable, Placement, WorkspaceSource
from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.operations import OperationState
from jamcore.domain.plan import AppPath, PlanMount
from jamcore.domain.requests import RoomRequest
from jamcore.domain.sandboxes import Isolation
from jamcore.domain.sessions import SessionWorkspace, WorkspaceState
from jamcore.journal.points import NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.allocator import Allocation, Allocator, Resolved
from jamcore.runtime.provision import ProvisionFailedError, SessionProvisioner
from jamcore.sandbox.planning import EngineFacts
from jamcore.store import Repos, Store, StoreJournal, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import GOOD, GoodProvider
from jamcore.workspace.provision import Provisioner

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("WS-14")]

ACCOUNT = UUID(int=1)
PLAIN = EngineFacts(name="plain", isolation=Isolation.NONE, abilities=frozenset(Ability))


class World:
    """Allocator, provisioner and store over one app directory."""

    def __init__(self, app: Path, store: Store, hooks: ProviderHooks) -> None:
        self.app, self.store, self.hooks = app, store, hooks
        self.allocator = Allocator(store=store, clock=SystemClock(), ids=SystemIds())
        self.journal = StoreJournal(store)
        self.runner, self.actions = Runner(self.journal, NoCrash()), ActionRegistry()
        self.provisioner = SessionProvisioner(
            store=store, layout=Provisioner(app, files=Files()), runner=self.runner, ids=SystemIds()
        )
        self.actions.register(self.provisioner.action)

    async def allocate(self, engine: EngineFacts, **changes: Any) -> Allocation:
        """Allocate a room on an engine."""
        request = RoomRequest.model_validate({"id": SystemIds().uuid(), "provider": "good", **changes})
        asked = Resolved(
            request=request,
            hooks=self.hooks,
            engine=engine,
            table=CellTable({"good": GOOD.cells}),
            toolchain=None,
            path=changes.get("path"),
            commit="0" * 40 if changes.get("path") else None,
        )
        return await self.allocator.allocate(asked)

    async def rows(self, allocation: Allocation) -> tuple[SessionWorkspace, HostNativeWorkspace | None]:
        """Return what is stored of a session, by kind."""
        session = allocation.session.id
        return await self.store.read(lambda repos: (repos.workspaces.of_session(session), repos.host_native.of_session(session)))

    async def replay(self) -> None:
        """Finish what a dead daemon began, as start-up does."""
        assert await self.actions.replay(self.journal, self.runner) == ()

    def files(self) -> set[str]:
        """Return every directory and file of the app directory that belongs to either kind."""
        roots = (layout.HOSTS, layout.HOST_NATIVE)
        return {str(path.relative_to(self.app)) for root in roots for path in (self.app / root).rglob("*")}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """One app directory."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=ACCOUNT) as store:
        yield World(tmp_path, store, manager.provider("good"))


async def test_each_kind_has_its_record_and_its_root(world: World) -> None:
    """A host-native directory lies by account, agent and session; a sandboxed one in its host. The plans say so."""
    native, boxed = await world.allocate(PLAIN), await world.allocate(plans.ALL_ABLE)
    for allocation in (native, boxed):
        await world.provisioner.provision(allocation.provision)
    agent, session = native.host.agent_id, native.session.id
    assert (world.app / layout.host_native_workspace(ACCOUNT, agent, session)).is_dir()
    assert not (world.app / layout.workspace_root(native.host.id)).exists()
    assert (world.app / layout.session_workspace(boxed.host.id, boxed.session.id)).is_dir()
    assert not (world.app / layout.host_native_workspace(ACCOUNT, agent, boxed.session.id)).exists()
    (_, record), (_, none) = await world.rows(native), await world.rows(boxed)
    assert none is None
    assert record is not None
    assert (record.account_id, record.agent_id, record.session_id, record.state) == (ACCOUNT, agent, session, WorkspaceState.READY)
    assert record.id not in (native.workspace.id, native.session.id, boxed.workspace.id, boxed.session.id)
    for allocation, source in (
        (native, layout.host_native_sessions(ACCOUNT, agent)),
        (boxed, f"{layout.workspace_root(boxed.host.id)}/sessions"),
    ):
        assert isinstance(allocation.plan.primary, PlanMount)
        assert allocation.plan.primary.source == AppPath(path=source)


@pytest.mark.parametrize("first", ["native", "boxed"])
async def test_work_on_one_kind_leaves_the_other_as_it_is(world: World, first: str) -> None:
    """The past mistake: a backfill of one kind minted new UUIDs for the other. Allocation, provision and replay change nothing there."""
    kinds = {"native": PLAIN, "boxed": plans.ALL_ABLE}
    still = await world.allocate(kinds[first])
    await world.provisioner.provision(still.provision)
    before, files = await world.rows(still), world.files()
    other = await world.allocate(kinds["boxed" if first == "native" else "native"])
    await world.replay()
    assert await world.rows(still) == before
    done = await world.store.read(lambda repos: repos.operations.get(other.provision.id))
    assert done.state is OperationState.SUCCEEDED
    session_files = {path for path in world.files() - files if str(still.session.id) in path}
    assert session_files == set()
    assert files <= world.files()
    again = await world.rows(other)
    await world.replay()
    assert await world.rows(other) == again
    assert await world.rows(still) == before


async def test_a_provision_that_failed_is_taken_up_in_its_own_kind(world: World) -> None:
    """Both records go the same way, and the next try makes the directory of that kind."""
    native = await world.allocate(PLAIN)
    in_the_way = world.app / layout.HOST_NATIVE
    in_the_way.write_text("not a directory")
    with pytest.raises(ProvisionFailedError):
        await world.provisioner.provision(native.provision)
    seat, record = await world.rows(native)
    assert record is not None
    assert (seat.state, record.state) == (WorkspaceState.PROVISION_FAILED, WorkspaceState.PROVISION_FAILED)
    in_the_way.unlink()
    await world.provisioner.require_ready(seat)
    seat, record = await world.rows(native)
    assert record is not None
    assert (seat.state, record.state) == (WorkspaceState.READY, WorkspaceState.READY)
    assert (world.app / layout.host_native_workspace(ACCOUNT, native.host.agent_id, native.session.id)).is_dir()


async def test_a_persons_own_directory_is_allocated_by_neither(world: World) -> None:
    """A clone lies on the sandbox's disk: there is no directory of Jam's to allocate."""
    cloned = await world.allocate(PLAIN, workspace=WorkspaceSource.PRIVATE_HOST_CLONE, path="/srv/repository")
    await world.provisioner.provision(cloned.provision)
    assert (await world.rows(cloned))[1] is None
    assert not (world.app / layout.HOST_NATIVE).exists()


async def test_rooms_that_share_a_host_have_a_directory_each(world: World) -> None:
    """One agent, one place, a directory for each session; both are in the list."""
    rooms = [await world.allocate(PLAIN, placement=Placement.SHARED) for _ in range(2)]
    for room in rooms:
        await world.provisioner.provision(room.provision)
    assert rooms[0].host == rooms[1].host

    def listed(repos: Repos) -> set[UUID]:
        return {native.session_id for native in repos.host_native.list()}

    assert await world.store.read(listed) == {room.session.id for room in rooms}
    place = world.app / layout.host_native_sessions(ACCOUNT, rooms[0].host.agent_id)
    assert {path.name for path in place.iterdir()} == {str(room.session.id) for room in rooms}
