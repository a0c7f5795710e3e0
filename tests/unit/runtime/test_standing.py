"""What the store says of a host while its sessions come and go: states and leases, which the next life of the daemon reads (SHARE-2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from jamcore.domain.cells import CellTable, Placement
from jamcore.domain.requests import RoomRequest
from jamcore.domain.sessions import HostState, SessionState
from jamcore.plugins.manager import ProviderManager
from jamcore.runtime.allocator import Allocation, Allocator, Resolved
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.seat import Seat
from jamcore.runtime.standing import HostStanding
from jamcore.runtime.unsaved import UnsavedHosts
from jamcore.store import Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import GOOD, GoodProvider

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


async def room(store: Store) -> Allocation:
    """Make a shared room of the good provider."""
    manager = ProviderManager()
    await manager.add("good", GoodProvider())
    asked = Resolved(
        request=RoomRequest(id=SystemIds().uuid(), provider="good", placement=Placement.SHARED),
        hooks=manager.provider("good"),
        engine=plans.ALL_ABLE,
        table=CellTable({"good": GOOD.cells}),
        toolchain=None,
        path=None,
        commit=None,
    )
    return await Allocator(store=store, clock=SystemClock(), ids=SystemIds()).allocate(asked)


def seat_of(made: Allocation) -> Seat:
    """Return the seat of a room."""
    return Seat(session=made.session, workspace=cast("Any", made.workspace), room_id=made.room.id)


@pytest.mark.guarantee("SHARE-2")
async def test_rows_follow_the_seats(tmp_path: Path) -> None:
    """One leaves: its lease and its state alone change. The last one: the host is parked, but only when its sandbox is."""
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=1)) as store:
        first, second = await room(store), await room(store)
        host = first.host.id
        standing = HostStanding(
            host=first.host,
            store=store,
            feed=RoomFeed(store),
            unsaved_hosts=UnsavedHosts(store, clock=SystemClock(), ids=SystemIds()),
        )
        one, two = seat_of(first), seat_of(second)

        async def stored() -> tuple[HostState, set[UUID], set[UUID]]:
            def read(repos: Any) -> tuple[HostState, set[UUID], set[UUID]]:  # noqa: ANN401
                live = {s.id for s in repos.sessions.of_host(host) if s.state is SessionState.LIVE}
                return repos.hosts.get(host).state, set(repos.leases.live_of_host(host)), live

            return await store.read(read)

        await standing.take((one,))
        await standing.live((one,))
        await standing.take((two,))
        assert await stored() == (HostState.ACTIVE, {first.session.id, second.session.id}, {first.session.id})
        await standing.live((two,))
        await standing.down((one,), "left", parked=False)
        assert await stored() == (HostState.ACTIVE, {second.session.id}, {second.session.id})
        await standing.down((two,), "stopped", parked=False)
        assert await stored() == (HostState.ACTIVE, set(), set()), "its sandbox still runs: it is not parked"
        await standing.down((), "", parked=True)
        assert await stored() == (HostState.PARKED, set(), set())
        await standing.take((one,))
        await standing.down((one,), "it did not come back", parked=False)
        assert await stored() == (HostState.PARKED, set(), set())
