"""Where a new room goes: a host of its own, the agent's shared host, or nowhere, with the reason (SHARE-1, SHARE-3, PLAN-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest

from jamcore.domain.cells import CellTable, Placement
from jamcore.domain.errors import ConflictError, InvalidInputError
from jamcore.domain.plan import RuntimeHostOwner
from jamcore.domain.requests import EndpointChoice, RoomRequest
from jamcore.domain.sessions import HostState
from jamcore.domain.shared_hosts import SharedHostContendedError, SharedHostFullError, SharedHostIncompatibleError
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.runtime.allocator import LOOKS, Allocation, Allocator, Resolved
from jamcore.store import Repos, Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import GOOD, GoodProvider

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

SEATS = 4
"""Sessions that the good provider takes on one host."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store."""
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as opened:
        yield opened


@pytest.fixture
async def hooks() -> ProviderHooks:
    """The good provider."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    return manager.provider("good")


@pytest.fixture
def allocator(store: Store) -> Allocator:
    """What is tested."""
    return Allocator(store=store, clock=SystemClock(), ids=SystemIds())


Ask = Callable[..., Resolved]


@pytest.fixture
def ask(hooks: ProviderHooks) -> Ask:
    """Return a resolved request for a shared room, with changes."""

    def make(**changes: Any) -> Resolved:
        fields = {"id": SystemIds().uuid(), "provider": "good", "placement": Placement.SHARED, **changes}
        return Resolved(
            request=RoomRequest.model_validate(fields),
            hooks=hooks,
            engine=plans.ALL_ABLE,
            table=CellTable({"good": GOOD.cells}),
            toolchain=None,
            path=None,
            commit=None,
        )

    return make


@pytest.mark.guarantee("SHARE-1", "PLAN-2")
async def test_rooms_of_one_agent_share_one_host(allocator: Allocator, ask: Ask, store: Store) -> None:
    """The host has a UUID of its own and is its sandbox's owner; each room has a session and a directory of its own."""
    first, second = await allocator.allocate(ask()), await allocator.allocate(ask(model="another"))
    assert (first.joined, second.joined) == (False, True)
    assert first.host == second.host
    assert first.host.id not in (first.session.id, second.session.id)
    assert second.plan == first.plan
    assert first.plan.owner == RuntimeHostOwner(agent_id=first.host.agent_id, host_id=first.host.id)
    assert first.workspace.guest_path != second.workspace.guest_path
    assert {s.id for s in await store.read(lambda r: r.sessions.of_host(first.host.id))} == {first.session.id, second.session.id}
    assert second.session.model == "another"


@pytest.mark.guarantee("PLAN-2")
async def test_a_dedicated_host_is_named_after_its_session(allocator: Allocator, ask: Ask) -> None:
    """And is never joined by another room."""
    rooms = [await allocator.allocate(ask(placement=Placement.DEDICATED)) for _ in range(2)]
    assert [room.host.id for room in rooms] == [room.session.id for room in rooms]
    assert rooms[0].host.id != rooms[1].host.id


@pytest.mark.guarantee("SHARE-1")
@pytest.mark.parametrize("count", [2, 8])
async def test_first_rooms_at_once_converge_on_one_host(allocator: Allocator, ask: Ask, store: Store, count: int) -> None:
    """All plan a host of their own; the database lets one in, and the others find themselves on it."""
    made: list[Allocation] = []

    async def allocate() -> None:
        made.append(await allocator.allocate(ask()))

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(allocate)
    assert len({room.host.id for room in made}) == 1
    assert sorted(room.joined for room in made) == [False, *[True] * (count - 1)]
    assert len(await store.read(lambda repos: repos.hosts.list())) == 1
    assert len(await store.read(lambda repos: repos.agents.list())) == 1
    assert len(await store.read(lambda repos: repos.rooms.list())) == count


@pytest.mark.guarantee("SHARE-1")
async def test_an_archived_host_is_not_joined(allocator: Allocator, ask: Ask, store: Store) -> None:
    """Archived and removed hosts do not count: the next room makes a new one."""
    first = await allocator.allocate(ask())

    def archive(repos: Repos) -> None:
        repos.hosts.move(first.host.id, HostState.PARKED)
        repos.hosts.move(first.host.id, HostState.ARCHIVED)

    await store.transact(archive)
    second = await allocator.allocate(ask())
    assert not second.joined
    assert second.host.id != first.host.id


@pytest.mark.guarantee("SHARE-1")
async def test_a_host_that_comes_and_goes_is_a_typed_fault(
    allocator: Allocator, ask: Ask, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many looks as there are, nothing was made and it says so."""
    await allocator.allocate(ask())
    looks = 0

    async def blind(*_: object) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(allocator, "_shared_host", blind)
    with pytest.raises(SharedHostContendedError):
        await allocator.allocate(ask())
    assert looks == LOOKS
    assert len(await store.read(lambda repos: repos.rooms.list())) == 1


@pytest.mark.guarantee("SHARE-3")
async def test_other_host_wide_inputs_are_refused_with_what_differs(allocator: Allocator, ask: Ask, store: Store) -> None:
    """Another endpoint: refused before anything is made, naming the field and both values."""
    await allocator.allocate(ask())
    with pytest.raises(SharedHostIncompatibleError) as refused:
        await allocator.allocate(ask(endpoint=EndpointChoice(origin="http://127.0.0.1:9")))
    (difference,) = refused.value.differs
    assert difference.startswith("endpoint: ")
    assert "https://models.example" in difference
    assert "http://127.0.0.1:9" in difference
    assert len(await store.read(lambda repos: repos.rooms.list())) == 1


@pytest.mark.guarantee("SHARE-5")
async def test_a_provider_may_have_no_seat_left(allocator: Allocator, ask: Ask, store: Store) -> None:
    """The plugin is asked with the number of live sessions; parked ones take no seat."""
    made = [await allocator.allocate(ask()) for _ in range(SEATS + 1)]
    host = made[0].host.id

    def live(repos: Repos) -> None:
        for room in made[:SEATS]:
            repos.leases.acquire(host, room.session.id)

    await store.transact(live)
    with pytest.raises(SharedHostFullError) as refused:
        await allocator.allocate(ask())
    assert refused.value.seats == SEATS


@pytest.mark.guarantee("SHARE-1")
async def test_an_agent_of_another_name_has_a_host_of_its_own(allocator: Allocator, ask: Ask, store: Store) -> None:
    """A person may have several agents of one provider; a name belongs to one provider for ever."""
    own, named, again = [await allocator.allocate(ask(agent=name)) for name in (None, "reviewer", "reviewer")]
    assert own.host.id != named.host.id == again.host.id
    assert sorted(agent.name for agent in await store.read(lambda repos: repos.agents.list())) == ["good", "reviewer"]
    with pytest.raises(InvalidInputError):
        await allocator.allocate(ask(agent="../x"))


async def test_a_taken_room_name_is_no_lost_race(allocator: Allocator, ask: Ask) -> None:
    """It is refused as what it is, at the first look."""
    await allocator.allocate(ask(name="mine"))
    with pytest.raises(ConflictError) as refused:
        await allocator.allocate(ask(name="mine"))
    assert refused.value.kind == "room"
